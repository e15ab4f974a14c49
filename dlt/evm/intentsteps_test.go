package evm_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// stepName is a place between two calls that a Runner makes for a batch.
type stepName string

const (
	beforeSigning  stepName = "before it is signed"
	afterSigning   stepName = "signed, and not kept"
	afterKeeping   stepName = "kept, and not posted"
	beforePosting  stepName = "before the POST"
	afterPosting   stepName = "posted, and not recorded"
	afterRecording stepName = "recorded"
)

// stepTrap stops the n-th process that comes to a step.
type stepTrap struct {
	step         stepName
	triggerCount int
	mu           sync.Mutex
	arrivals     int
	wasTriggered atomic.Bool
}

func (t *stepTrap) stopsHere(at stepName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at != t.step {
		return false
	}
	t.arrivals++
	if t.arrivals == t.triggerCount {
		t.wasTriggered.Store(true)
		return true
	}
	return false
}

// freezableRunner is one Runner. Once stopped, it does nothing more to the store or the chain
// until it is thawed. Until then it is like a process that was killed; afterwards it is like one
// that was frozen, whose next write or POST comes late.
type freezableRunner struct {
	stopsAt   func(stepName) bool
	isStopped atomic.Bool
	thawed    chan struct{}
	ended     chan error
	cancel    context.CancelFunc
}

func (p *freezableRunner) waitIfStopped(at stepName) {
	if !p.isStopped.Load() && p.stopsAt(at) {
		p.isStopped.Store(true)
	}
	if p.isStopped.Load() {
		<-p.thawed
	}
}

// stoppableStore is a store whose calls stop together with the process: all those that write.
type stoppableStore struct {
	*memory.Store
	runner         *freezableRunner
	onKeepPrepared func(did []bool, err error)
}

func (s stoppableStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	s.runner.waitIfStopped("")
	return s.Store.Claim(ctx, q, choose)
}

func (s stoppableStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	s.runner.waitIfStopped("")
	return s.Store.Pending(ctx, q) // the call also leases the rows
}

func (s stoppableStore) KeepPrepared(ctx context.Context, bytes []store.Prepared) ([]bool, error) {
	s.runner.waitIfStopped(afterSigning)
	did, err := s.Store.KeepPrepared(context.WithoutCancel(ctx), bytes) // the write may have been on its way to the database
	s.onKeepPrepared(did, err)
	s.runner.waitIfStopped(afterKeeping)
	return did, err
}

func (s stoppableStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	s.runner.waitIfStopped("")
	applied, err := s.Store.Record(context.WithoutCancel(ctx), outcomes)
	s.runner.waitIfStopped(afterRecording)
	return applied, err
}

// processGroup is several processes on one store, for the same account.
type processGroup struct {
	*testChain
	store       *memory.Store
	processes   []*freezableRunner
	slots       slotRecorder
	keptCount   atomic.Int32 // writes of prepared bytes that succeeded
	fencedCount atomic.Int32 // writes of prepared bytes that were refused
	adder       *dltbatch.Runner
}

// signingClients returns a client for each process, with the keys of the account. Each client
// chooses other fees, so that no two sign the same bytes.
func (s *testChain) signingClients(from evmtest.Account) func(i int64) dlt.Ledger {
	return func(i int64) dlt.Ledger {
		o := finalAfterTwoBlocks()
		o.Fees = func(ctx context.Context, m evm.Market) (evm.Fee, error) {
			f, err := evm.DefaultFees(ctx, m)
			f.FeeCap = new(big.Int).Add(f.FeeCap, big.NewInt(i))
			return f, err
		}
		return s.newSigningClient(o, s.newKeySigner(from))
	}
}

// startProcesses starts three processes, each with a client of its own.
func (s *testChain) startProcesses(client func(i int64) dlt.Ledger, stops func(stepName) bool) *processGroup {
	c := &processGroup{testChain: s, store: memory.New()}
	var err error
	c.adder, err = dltbatch.New(c.store, client(0), nil)
	require.NoError(s, err)
	for i := range int64(3) {
		p := &freezableRunner{stopsAt: stops, thawed: make(chan struct{}), ended: make(chan error, 1)}
		ledger := hooked.Wrap(client(i), hooked.Hooks{
			Prepare: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error) {
				p.waitIfStopped(beforeSigning)
				return next(ctx, a)
			},
			Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
				p.waitIfStopped(beforePosting)
				c.slots.record(a)
				err := next(context.WithoutCancel(ctx), a) // the bytes may have been on their way to the node
				p.waitIfStopped(afterPosting)
				return err
			},
			BatchStatuses: func(ctx context.Context, service batch.ServiceID, all []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
				p.waitIfStopped("")
				return next(ctx, service, all)
			},
		})
		opts := &dltbatch.Options{StuckAfter: 24 * time.Hour}
		if s.maxUnderWay > 0 {
			opts.Strategy = queuer.Pipelined(s.maxUnderWay)
		}
		if s.node == nil {
			opts.RequestTimeout, opts.ClaimTTL = 30*s.timeUnit, 80*s.timeUnit
			opts.PollInterval, opts.ScanInterval, opts.Retry.Delay = s.timeUnit, s.timeUnit, s.timeUnit
		}
		r, err := dltbatch.New(stoppableStore{c.store, p, func(did []bool, err error) {
			if err == nil && did[0] {
				c.keptCount.Add(1)
			} else {
				c.fencedCount.Add(1)
			}
		}}, ledger, opts)
		require.NoError(s, err)
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel = cancel
		go func() { p.ended <- r.Run(ctx) }()
		c.processes = append(c.processes, p)
	}
	s.Cleanup(c.stopAll)
	return c
}

// thawAll lets each stopped process go on.
func (c *processGroup) thawAll() {
	for _, p := range c.processes {
		select {
		case <-p.thawed:
		default:
			close(p.thawed)
		}
	}
}

func (c *processGroup) stopAll() {
	c.thawAll()
	for _, p := range c.processes {
		p.cancel()
	}
	for _, p := range c.processes {
		require.NoError(c, <-p.ended)
	}
}

func (c *processGroup) stoppedCount() (n int) {
	for _, p := range c.processes {
		if p.isStopped.Load() {
			n++
		}
	}
	return n
}

func (c *processGroup) stateOf(b batch.Batch) batch.State {
	rec, err := c.adder.Get(context.Background(), b.Key())
	require.NoError(c, err)
	return rec.State
}

// requireOneSlot makes sure that all posted transactions of a batch have one nonce, and that each
// slot is the beginning of the longest one.
func (c *processGroup) requireOneSlot(b batch.Batch) {
	all := c.slots.preparedOf(b)
	slices.SortFunc(all, func(x, y []byte) int { return len(x) - len(y) })
	for _, one := range all {
		assert.Equal(c, one, all[len(all)-1][:len(one)], "what was posted is one slot, which grew")
	}
}

// Three processes sign different bytes for one row before any of them has stored its own: one slot
// is stored, and only its transactions are posted. (In OpenZeppelin 836 two workers gave one
// record two nonces.)
func twoPreparesOneSlot(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	c := s.startProcesses(s.signingClients(from), func(at stepName) bool { return at == afterSigning })
	b := s.newIntent(from, 10)
	require.NoError(s, c.adder.Add(context.Background(), b))
	for range 2000 {
		if c.stoppedCount() == 3 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	require.Equal(s, 3, c.stoppedCount(), "each has signed, and kept nothing")
	c.thawAll()
	for range 500 {
		if c.stateOf(b) == batch.Committed {
			break
		}
		time.Sleep(4 * s.timeUnit)
		s.mine(1)
	}
	require.Equal(s, batch.Committed, c.stateOf(b))
	assert.EqualValues(s, 2, c.fencedCount.Load(), "two of the three come too late")
	c.requireOneSlot(b)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A process stops at each step on the way to the first transaction and on the way to a
// replacement, and the others go on. When it is thawed, its late write and its late POST change
// nothing.
func crashAtEveryStep(s *testChain) { runCrashesAtEveryStep(s, s.signingClients, s.newIntent) }

// runCrashesAtEveryStep runs crashAtEveryStep with a kind of client and of payment.
func runCrashesAtEveryStep(s *testChain, client func(evmtest.Account) func(int64) dlt.Ledger, pay func(evmtest.Account, int64) batch.Batch) {
	s.mine(4)
	type one struct {
		*processGroup
		*stepTrap
		from  evmtest.Account
		value int64
		b     batch.Batch
	}
	var all []one
	for _, at := range []stepName{beforeSigning, afterSigning, afterKeeping, beforePosting, afterPosting, afterRecording} {
		for n := 1; n <= 2; n++ {
			from, tr := s.newAccount(), &stepTrap{step: at, triggerCount: n}
			value := int64(10 + len(all))
			x := one{s.startProcesses(client(from), tr.stopsHere), tr, from, value, pay(from, value)}
			require.NoError(s, x.adder.Add(context.Background(), x.b))
			all = append(all, x)
		}
	}
	for range 3000 { // until each is posted, or its process has ended
		if !slices.ContainsFunc(all, func(x one) bool { return len(x.slots.preparedOf(x.b)) == 0 && x.stoppedCount() == 0 }) {
			break
		}
		time.Sleep(s.timeUnit)
	}
	for range 1000 {
		if slices.ContainsFunc(all, func(x one) bool { return !x.wasTriggered.Load() }) {
			s.setBaseFee(50) // the posted transactions have to be replaced
		}
		if !slices.ContainsFunc(all, func(x one) bool { return x.stateOf(x.b) != batch.Committed }) {
			break
		}
		time.Sleep(6 * s.timeUnit)
		s.mine(1)
	}
	for _, x := range all {
		name := fmt.Sprintf("%s, %d", x.step, x.triggerCount)
		rec, err := x.adder.Get(context.Background(), x.b.Key())
		require.NoError(s, err)
		require.Equal(s, batch.Committed, rec.State, "%s: after attempt %d: %v", name, rec.Attempt, rec.Error)
		assert.True(s, x.wasTriggered.Load(), "%s: nothing ended there", name)
		x.thawAll()
	}
	time.Sleep(40 * s.timeUnit)
	s.mine(5)
	for _, x := range all {
		name := fmt.Sprintf("%s, %d", x.step, x.triggerCount)
		assert.Equal(s, batch.Committed, x.stateOf(x.b), name)
		x.requireOneSlot(x.b)
		assert.Equal(s, []int64{x.value}, s.valuesPaid(x.from), name)
	}
}

// After its node was killed a pool is empty, and ten seconds later it has everything again: the
// batch keeps its transaction and its nonce.
func intentPoolForgets(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	time.Sleep(5 * time.Second)
	_, pending := s.nextNonces(from)
	require.Zero(s, pending, "the pool is empty")
	p.requireNeverInState(b, 20, batch.Rejected, batch.Committed)
	time.Sleep(time.Minute)
	_, pending = s.nextNonces(from)
	require.EqualValues(s, 1, pending, "and has it again")
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A node answers a send with the hash and then forgets the transaction, again and again: the same
// slot is sent again, and the payment is made once.
func intentAcceptedAndDropped(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	for n := range 3 {
		for range 1000 {
			if _, pending := s.nextNonces(from); p.record(b).Attempt > n && pending == 1 {
				break
			}
			time.Sleep(s.timeUnit)
		}
		_, _, hashes := k.lastSlot(s, b)
		s.drop(batch.Batch{ID: batch.ID(hashes[len(hashes)-1])})
	}
	p.mineUntil(b, batch.Committed)
	assert.Greater(s, p.record(b).Attempt, 3)
	nonce, _, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A person ends an intent for good: the lane is paused, and a transfer to the account itself uses
// the nonce. Once that transfer is deep, the intent is cancelled, or decided if it is still in
// doubt. The intent is never executed.
func rulingEndsIntent(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, _ := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	by := batch.By{Actor: "ann", Reason: "wrong address"}
	paused, err := p.Pause(context.Background(), batch.Scope{Service: b.Service}, by)
	require.NoError(s, err)
	_, err = p.Cancel(context.Background(), p.record(b), by)
	require.Error(s, err, "it is under way")
	s.sendForeign(s.signPayment(from, evmtest.Unsigned{To: from.Address(), Tip: big.NewInt(20e9), FeeCap: big.NewInt(90e9)}))
	s.mine(6)
	p.mineUntil(b, batch.Unknown)
	rec, err := p.Cancel(context.Background(), p.record(b), by)
	if errors.Is(err, batch.ErrInDoubt) { // the intent was in no block before the transfer was deep
		rec, err = p.Decide(context.Background(), p.record(b), batch.NotExecutedReject, by)
	}
	require.NoError(s, err)
	assert.Equal(s, batch.Rejected, rec.State)
	_, err = p.Resume(context.Background(), paused, by)
	require.NoError(s, err)
	next := s.newIntent(from, 20)
	p.add(next)
	p.mineUntil(next, batch.Committed)
	assert.Equal(s, []int64{0, 20}, s.valuesPaid(from))
}
