package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// testChain is a chain on which scenarios run, with one simulated or real node.
type testChain struct {
	testing.TB
	control chainControl
	url     string
	http    *http.Client
	chain   uint64
	// timeUnit is the time by which the scenario waits: a second of virtual time, or 20 ms of real
	// time.
	timeUnit time.Duration
	// node is nil if only the URL is known. Scenarios that need it say so by scenario.needsNode.
	node *evmtest.Node
	// hasNodeBehind is true if one of several nodes behind the URL is behind.
	hasNodeBehind bool
	faults        atomic.Pointer[func(evmtest.RequestPoint) evmtest.Fault]
	hidesStatuses atomic.Bool // questions for statuses find nothing
	// stuckAfter is how long a batch waits before the reason is reported. 0 means an hour, or 100
	// units on a real chain.
	stuckAfter time.Duration
	// usesAlternatives is true if each payment is a batch of several alternatives.
	usesAlternatives bool
	// maxUnderWay is how many intents of an account a processGroup may have under way. 0 means
	// one.
	maxUnderWay int
	accounts    []evmtest.Account
	lastID      int
}

// newSimulatedChain returns a testChain with a node in memory, for a synctest bubble.
func newSimulatedChain(t *testing.T, o evmtest.Options) *testChain {
	o.InMemory, o.ChainID = true, 1337
	if o.BlockTime == 0 {
		o.BlockTime = -1
	}
	s := &testChain{TB: t, chain: 1337, timeUnit: time.Second, hasNodeBehind: o.Personality == evmtest.Provider}
	if o.Faults == nil {
		o.Faults = &evmtest.Faults{Request: func(p evmtest.RequestPoint) evmtest.Fault {
			if f := s.faults.Load(); f != nil {
				return (*f)(p)
			}
			return evmtest.Fault{}
		}}
	}
	node, err := evmtest.Listen(&o)
	require.NoError(t, err)
	client := node.Client()
	client.Transport.(*http.Transport).DisableKeepAlives = false
	t.Cleanup(node.Close)
	t.Cleanup(client.CloseIdleConnections)
	s.url, s.http, s.node, s.control = node.URL(), client, node, simulatedControl{t, node}
	return s
}

// call calls a method of the node, which must succeed.
func (s *testChain) call(out any, method string, params ...any) {
	s.Helper()
	if params == nil {
		params = []any{}
	}
	s.lastID++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.lastID, "method": method, "params": params})
	require.NoError(s, err)
	resp, err := s.http.Post(s.url, "application/json", bytes.NewReader(body))
	require.NoError(s, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	var answer struct {
		Result json.RawMessage
		Error  any
	}
	require.NoError(s, json.Unmarshal(text, &answer), "%s", text)
	require.Nil(s, answer.Error, "%s: %v", method, answer.Error)
	if out != nil {
		require.NoError(s, json.Unmarshal(answer.Result, out))
	}
}

// mine makes n blocks, with a short pause after each.
func (s *testChain) mine(n int) {
	for range n {
		s.control.mine()
	}
}

// reorg replaces the last blocks. The first new block has the transactions of the batches in with.
func (s *testChain) reorg(depth int, with ...batch.Batch) {
	raw := make([][]byte, len(with))
	for i, b := range with {
		raw[i] = s.encodedTx(b, 0)
	}
	s.control.reorg(depth, raw)
}

func (s *testChain) drop(b batch.Batch) { s.control.drop(string(b.ID)) }

// newAccount returns an account that nobody has used, with some funds.
func (s *testChain) newAccount() evmtest.Account { return s.newAccountWith(evmtest.Ether(10)) }

func (s *testChain) newAccountWith(wei *big.Int) evmtest.Account {
	s.lastID++
	a := evmtest.Named(s.Name() + strconv.Itoa(s.lastID) + time.Now().String())
	s.control.fund(a.Address(), wei)
	s.accounts = append(s.accounts, a)
	return a
}

// newPayment returns a payment of an account. Payments of different values have different hashes.
func (s *testChain) newPayment(from evmtest.Account, nonce uint64, value int64) batch.Batch {
	return s.signPayment(from, evmtest.Unsigned{Nonce: nonce, To: evmtest.Dev(9).Address(), Value: big.NewInt(value)})
}

func (s *testChain) signPayment(from evmtest.Account, u evmtest.Unsigned) batch.Batch {
	if s.usesAlternatives {
		return s.signAlternatives(from, u, feeInGwei(1, 30), feeInGwei(2, 60), feeInGwei(4, 120))
	}
	u.ChainID = s.chain
	raw, hash := from.Sign(u)
	b, err := evm.NewBatch(raw)
	require.NoError(s, err)
	require.Equal(s, hash, string(b.ID))
	return b
}

// feeInGwei returns fees of amounts in gwei.
func feeInGwei(tip, feeCap float64) evm.Fee {
	return evm.Fee{Tip: big.NewInt(int64(tip * 1e9)), FeeCap: big.NewInt(int64(feeCap * 1e9))}
}

// signAlternatives returns one batch with a transaction for each fee.
func (s *testChain) signAlternatives(from evmtest.Account, u evmtest.Unsigned, fees ...evm.Fee) batch.Batch {
	u.ChainID = s.chain
	var all [][]byte
	var first string
	for i, f := range fees {
		u.Tip, u.FeeCap = f.Tip, f.FeeCap
		raw, hash := from.Sign(u)
		if all = append(all, raw); i == 0 {
			first = hash
		}
	}
	payload, err := evm.Alternatives(all...)
	require.NoError(s, err)
	b, err := evm.NewBatch(payload)
	require.NoError(s, err)
	require.Equal(s, first, string(b.ID))
	return b
}

// encodedTx returns the encoded transaction with index i of a batch.
func (s *testChain) encodedTx(b batch.Batch, i int) []byte {
	all, err := evm.Split(b.Payload)
	require.NoError(s, err)
	return all[i]
}

// alternativeAsBatch returns the alternative with index i as a batch by itself.
func (s *testChain) alternativeAsBatch(b batch.Batch, i int) batch.Batch {
	one, err := evm.NewBatch(s.encodedTx(b, i))
	require.NoError(s, err)
	return one
}

// sendForeign sends a transaction without the library, as another wallet does.
func (s *testChain) sendForeign(b batch.Batch) {
	s.call(nil, "eth_sendRawTransaction", toHex(s.encodedTx(b, 0)))
}

// executedHashes returns the hashes of an account's executed transactions, read from the chain
// block by block, in order. A hash that was executed twice would be there twice.
func (s *testChain) executedHashes(from evmtest.Account) (hashes []batch.ID) {
	var head string
	s.call(&head, "eth_blockNumber")
	last, err := strconv.ParseUint(head[2:], 16, 64)
	require.NoError(s, err)
	for n := range last + 1 {
		var b struct {
			Transactions []struct{ Hash, From string }
		}
		s.call(&b, "eth_getBlockByNumber", "0x"+strconv.FormatUint(n, 16), true)
		for _, tx := range b.Transactions {
			if tx.From == from.Address() {
				hashes = append(hashes, batch.ID(tx.Hash))
			}
		}
	}
	return hashes
}

func (s *testChain) newClient(o evm.Options) *evm.Client {
	if o.Client == nil {
		o.Client = s.http
	}
	if s.node == nil { // in real time
		o.Grace, o.LateArrival, o.Vanish = 10*s.timeUnit, 10*s.timeUnit, 100*s.timeUnit
	}
	if s.usesAlternatives { // the first alternative is executed
		o.BumpAfter = 1000
	}
	c, err := evm.New(s.url, s.chain, &o)
	require.NoError(s, err)
	return c
}

// eventRecorder keeps all events.
type eventRecorder struct {
	mu     sync.Mutex
	events []batch.Event
}

func (o *eventRecorder) Observe(_ context.Context, e batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *eventRecorder) ofKind(kind batch.EventKind) (out []batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// states returns the states that a batch went through.
func (o *eventRecorder) states(b batch.Batch) (out []batch.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Key == b.Key() && e.State.Known() && (len(out) == 0 || out[len(out)-1] != e.State) {
			out = append(out, e.State)
		}
	}
	return out
}

// chainRunner is a Runner that works on a testChain.
type chainRunner struct {
	*testChain
	*dltbatch.Runner
	events *eventRecorder
}

// startRunner starts a Runner of its own, with several batches of a lane in flight.
func (s *testChain) startRunner(o evm.Options) *chainRunner { return s.startRunnerOn(memory.New(), o) }

func (s *testChain) startRunnerOn(store *memory.Store, o evm.Options) *chainRunner {
	return s.startRunnerOf(store, s.newClient(o), queuer.Pipelined(16))
}

// startRunnerOf starts a Runner of its own for a client.
func (s *testChain) startRunnerOf(store *memory.Store, l dlt.Ledger, strategy queuer.Strategy) *chainRunner {
	seen := &eventRecorder{}
	opts := &dltbatch.Options{Strategy: strategy, Observer: seen, StuckAfter: time.Hour}
	if s.node == nil {
		opts.PollInterval, opts.ScanInterval, opts.Retry.Delay, opts.StuckAfter = s.timeUnit, s.timeUnit, s.timeUnit, 100*s.timeUnit
	}
	if s.stuckAfter > 0 {
		opts.StuckAfter = s.stuckAfter
	}
	ledger := hooked.Wrap(l, hooked.Hooks{BatchStatuses: func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
		statuses, err := next(ctx, service, attempts)
		for i := range statuses {
			if s.hidesStatuses.Load() {
				statuses[i] = batch.Status{ID: statuses[i].ID, Reported: batch.ReportedUnknown}
			}
		}
		return statuses, err
	}})
	r, err := dltbatch.New(store, ledger, opts)
	require.NoError(s, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.Cleanup(func() { stop(); require.NoError(s, <-done) })
	return &chainRunner{testChain: s, Runner: r, events: seen}
}

func (p *chainRunner) add(bs ...batch.Batch) {
	p.Helper()
	require.NoError(p, p.Add(context.Background(), bs...))
}

func (p *chainRunner) record(b batch.Batch) batch.Record {
	p.Helper()
	rec, err := p.Get(context.Background(), b.Key())
	require.NoError(p, err)
	return rec
}

// waitForState waits until the batch is in one of the states in want.
func (p *chainRunner) waitForState(b batch.Batch, want ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range 1000 {
		if rec = p.record(b); slices.Contains(want, rec.State) {
			return rec
		}
		time.Sleep(p.timeUnit)
	}
	require.Contains(p, want, rec.State, "%s after attempt %d: %v %s", b.Key(), rec.Attempt, rec.Error, rec.Decision)
	return rec
}

// requireNeverInState makes sure that for some units of time a batch is in none of the states in
// never.
func (p *chainRunner) requireNeverInState(b batch.Batch, units int, never ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range units {
		time.Sleep(p.timeUnit)
		rec = p.record(b)
		require.NotContains(p, never, rec.State, "%v", rec.Error)
	}
	return rec
}
