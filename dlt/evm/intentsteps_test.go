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

// step is a place between two calls that a Runner makes for a batch.
type step string

const (
	signing  step = "before it is signed"
	ready    step = "signed, and not kept"
	kept     step = "kept, and not posted"
	posting  step = "before the POST"
	posted   step = "posted, and not recorded"
	recorded step = "recorded"
)

// trap stops the n-th process that comes to a step.
type trap struct {
	at     step
	n      int
	mu     sync.Mutex
	seen   int
	sprung atomic.Bool
}

func (t *trap) springs(at step) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at != t.at {
		return false
	}
	t.seen++
	if t.seen == t.n {
		t.sprung.Store(true)
		return true
	}
	return false
}

// process is one Runner. Once stopped, it does nothing more to the store or the chain until it is
// thawed. Until then it is like a process that was killed; afterwards it is like one that was
// frozen, whose next write or POST comes late.
type process struct {
	stops   func(step) bool
	stopped atomic.Bool
	thaw    chan struct{}
	ended   chan error
	cancel  context.CancelFunc
}

func (p *process) pass(at step) {
	if !p.stopped.Load() && p.stops(at) {
		p.stopped.Store(true)
	}
	if p.stopped.Load() {
		<-p.thaw
	}
}

// stoppable is a store whose calls stop together with the process: all those that write.
type stoppable struct {
	*memory.Store
	p     *process
	keeps func(did []bool, err error)
}

func (s stoppable) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	s.p.pass("")
	return s.Store.Claim(ctx, q, choose)
}

func (s stoppable) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	s.p.pass("")
	return s.Store.Pending(ctx, q) // the call also leases the rows
}

func (s stoppable) KeepPrepared(ctx context.Context, bytes []store.Prepared) ([]bool, error) {
	s.p.pass(ready)
	did, err := s.Store.KeepPrepared(context.WithoutCancel(ctx), bytes) // the write may have been on its way to the database
	s.keeps(did, err)
	s.p.pass(kept)
	return did, err
}

func (s stoppable) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	s.p.pass("")
	applied, err := s.Store.Record(context.WithoutCancel(ctx), outcomes)
	s.p.pass(recorded)
	return applied, err
}

// crew is several processes on one store, for the same account.
type crew struct {
	*stage
	store     *memory.Store
	processes []*process
	k         slots
	keeps     atomic.Int32 // writes of prepared bytes that succeeded
	fenced    atomic.Int32 // writes of prepared bytes that were refused
	adds      *dltbatch.Runner
}

// signers returns a client for each process, with the keys of the account. Each client chooses
// other fees, so that no two sign the same bytes.
func (s *stage) signers(from evmtest.Account) func(i int64) dlt.Ledger {
	return func(i int64) dlt.Ledger {
		o := afterTwo()
		o.Fees = func(ctx context.Context, m evm.Market) (evm.Fee, error) {
			f, err := evm.DefaultFees(ctx, m)
			f.FeeCap = new(big.Int).Add(f.FeeCap, big.NewInt(i))
			return f, err
		}
		return s.signing(o, s.keys(from))
	}
}

// crew starts three processes, each with a client of its own.
func (s *stage) crew(client func(i int64) dlt.Ledger, stops func(step) bool) *crew {
	c := &crew{stage: s, store: memory.New()}
	var err error
	c.adds, err = dltbatch.New(c.store, client(0), nil)
	require.NoError(s, err)
	for i := range int64(3) {
		p := &process{stops: stops, thaw: make(chan struct{}), ended: make(chan error, 1)}
		ledger := hooked.Wrap(client(i), hooked.Hooks{
			Prepare: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error) {
				p.pass(signing)
				return next(ctx, a)
			},
			Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
				p.pass(posting)
				c.k.see(a)
				err := next(context.WithoutCancel(ctx), a) // the bytes may have been on their way to the node
				p.pass(posted)
				return err
			},
			BatchStatuses: func(ctx context.Context, service batch.ServiceID, all []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
				p.pass("")
				return next(ctx, service, all)
			},
		})
		opts := &dltbatch.Options{StuckAfter: 24 * time.Hour}
		if s.width > 0 {
			opts.Strategy = queuer.Pipelined(s.width)
		}
		if s.node == nil {
			opts.RequestTimeout, opts.ClaimTTL = 30*s.unit, 80*s.unit
			opts.PollInterval, opts.ScanInterval, opts.Retry.Delay = s.unit, s.unit, s.unit
		}
		r, err := dltbatch.New(stoppable{c.store, p, func(did []bool, err error) {
			if err == nil && did[0] {
				c.keeps.Add(1)
			} else {
				c.fenced.Add(1)
			}
		}}, ledger, opts)
		require.NoError(s, err)
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel = cancel
		go func() { p.ended <- r.Run(ctx) }()
		c.processes = append(c.processes, p)
	}
	s.Cleanup(c.end)
	return c
}

// thawAll lets each stopped process go on.
func (c *crew) thawAll() {
	for _, p := range c.processes {
		select {
		case <-p.thaw:
		default:
			close(p.thaw)
		}
	}
}

func (c *crew) end() {
	c.thawAll()
	for _, p := range c.processes {
		p.cancel()
	}
	for _, p := range c.processes {
		require.NoError(c, <-p.ended)
	}
}

func (c *crew) stopped() (n int) {
	for _, p := range c.processes {
		if p.stopped.Load() {
			n++
		}
	}
	return n
}

func (c *crew) state(b batch.Batch) batch.State {
	rec, err := c.adds.Get(context.Background(), b.Key())
	require.NoError(c, err)
	return rec.State
}

// oneSlot makes sure that all posted transactions of a batch have one nonce, and that each slot is
// the beginning of the longest one.
func (c *crew) oneSlot(b batch.Batch) {
	all := c.k.all(b)
	slices.SortFunc(all, func(x, y []byte) int { return len(x) - len(y) })
	for _, one := range all {
		assert.Equal(c, one, all[len(all)-1][:len(one)], "what was posted is one slot, which grew")
	}
}

// Three processes sign different bytes for one row before any of them has stored its own: one slot
// is stored, and only its transactions are posted. (In OpenZeppelin 836 two workers gave one
// record two nonces.)
func twoPreparesOneSlot(s *stage) {
	from := s.account()
	s.mine(4)
	c := s.crew(s.signers(from), func(at step) bool { return at == ready })
	b := s.intent(from, 10)
	require.NoError(s, c.adds.Add(context.Background(), b))
	for range 2000 {
		if c.stopped() == 3 {
			break
		}
		time.Sleep(s.unit)
	}
	require.Equal(s, 3, c.stopped(), "each has signed, and kept nothing")
	c.thawAll()
	for range 500 {
		if c.state(b) == batch.Committed {
			break
		}
		time.Sleep(4 * s.unit)
		s.mine(1)
	}
	require.Equal(s, batch.Committed, c.state(b))
	assert.EqualValues(s, 2, c.fenced.Load(), "two of the three come too late")
	c.oneSlot(b)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A process stops at each step on the way to the first transaction and on the way to a
// replacement, and the others go on. When it is thawed, its late write and its late POST change
// nothing.
func crashAtEveryStep(s *stage) { crashes(s, s.signers, s.intent) }

// crashes runs crashAtEveryStep with a kind of client and of payment.
func crashes(s *stage, client func(evmtest.Account) func(int64) dlt.Ledger, pay func(evmtest.Account, int64) batch.Batch) {
	s.mine(4)
	type one struct {
		*crew
		*trap
		from  evmtest.Account
		value int64
		b     batch.Batch
	}
	var all []one
	for _, at := range []step{signing, ready, kept, posting, posted, recorded} {
		for n := 1; n <= 2; n++ {
			from, tr := s.account(), &trap{at: at, n: n}
			value := int64(10 + len(all))
			x := one{s.crew(client(from), tr.springs), tr, from, value, pay(from, value)}
			require.NoError(s, x.adds.Add(context.Background(), x.b))
			all = append(all, x)
		}
	}
	for range 3000 { // until each is posted, or its process has ended
		if !slices.ContainsFunc(all, func(x one) bool { return len(x.k.all(x.b)) == 0 && x.stopped() == 0 }) {
			break
		}
		time.Sleep(s.unit)
	}
	for range 1000 {
		if slices.ContainsFunc(all, func(x one) bool { return !x.sprung.Load() }) {
			s.setBaseFee(50) // the posted transactions have to be replaced
		}
		if !slices.ContainsFunc(all, func(x one) bool { return x.state(x.b) != batch.Committed }) {
			break
		}
		time.Sleep(6 * s.unit)
		s.mine(1)
	}
	for _, x := range all {
		name := fmt.Sprintf("%s, %d", x.at, x.n)
		rec, err := x.adds.Get(context.Background(), x.b.Key())
		require.NoError(s, err)
		require.Equal(s, batch.Committed, rec.State, "%s: after attempt %d: %v", name, rec.Attempt, rec.Error)
		assert.True(s, x.sprung.Load(), "%s: nothing ended there", name)
		x.thawAll()
	}
	time.Sleep(40 * s.unit)
	s.mine(5)
	for _, x := range all {
		name := fmt.Sprintf("%s, %d", x.at, x.n)
		assert.Equal(s, batch.Committed, x.state(x.b), name)
		x.oneSlot(x.b)
		assert.Equal(s, []int64{x.value}, s.paid(x.from), name)
	}
}

// After its node was killed a pool is empty, and ten seconds later it has everything again: the
// batch keeps its transaction and its nonce.
func intentPoolForgets(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	time.Sleep(5 * time.Second)
	_, pending := s.nonce(from)
	require.Zero(s, pending, "the pool is empty")
	p.stays(b, 20, batch.Rejected, batch.Committed)
	time.Sleep(time.Minute)
	_, pending = s.nonce(from)
	require.EqualValues(s, 1, pending, "and has it again")
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.last(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A node answers a send with the hash and then forgets the transaction, again and again: the same
// slot is sent again, and the payment is made once.
func intentAcceptedAndDropped(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	for n := range 3 {
		for range 1000 {
			if _, pending := s.nonce(from); p.record(b).Attempt > n && pending == 1 {
				break
			}
			time.Sleep(s.unit)
		}
		_, _, hashes := k.last(s, b)
		s.drop(batch.Batch{ID: batch.ID(hashes[len(hashes)-1])})
	}
	p.mineUntil(b, batch.Committed)
	assert.Greater(s, p.record(b).Attempt, 3)
	nonce, _, _ := k.last(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A person ends an intent for good: the lane is paused, and a transfer to the account itself uses
// the nonce. Once that transfer is deep, the intent is cancelled, or decided if it is still in
// doubt. The intent is never executed.
func intentEndedByAPerson(s *stage) {
	from := s.account()
	s.mine(4)
	p, _ := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	by := batch.By{Actor: "ann", Reason: "wrong address"}
	paused, err := p.Pause(context.Background(), batch.Scope{Service: b.Service}, by)
	require.NoError(s, err)
	_, err = p.Cancel(context.Background(), p.record(b), by)
	require.Error(s, err, "it is under way")
	s.foreign(s.sign(from, evmtest.Unsigned{To: from.Address(), Tip: big.NewInt(20e9), FeeCap: big.NewInt(90e9)}))
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
	next := s.intent(from, 20)
	p.add(next)
	p.mineUntil(next, batch.Committed)
	assert.Equal(s, []int64{0, 20}, s.paid(from))
}
