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

// stage is a chain on which a test is played: a simulated node, or a real one.
type stage struct {
	testing.TB
	steering steering
	url      string
	http     *http.Client
	chain    uint64
	// unit is the time for which things wait: a second, virtual or real.
	unit time.Duration
	// node is nil where only the URL is known. Plays that need it say so.
	node *evmtest.Node
	// lagging says that one of several nodes behind the URL is behind.
	lagging bool
	faults  atomic.Pointer[func(evmtest.RequestPoint) evmtest.Fault]
	hidden  atomic.Bool // questions for statuses find nothing
	// stuckAfter is how long a batch waits before a person is called. 0 is an hour, or 100 units
	// on a real chain.
	stuckAfter time.Duration
	// lists makes of each payment several alternatives.
	lists bool
	// width is how many intents of an account a crew may have under way. 0 is one.
	width int
	made  []evmtest.Account
	id    int
}

// simulated returns a stage of a node in memory, for a bubble of synctest.
func simulated(t *testing.T, o evmtest.Options) *stage {
	o.InMemory, o.ChainID = true, 1337
	if o.BlockTime == 0 {
		o.BlockTime = -1
	}
	s := &stage{TB: t, chain: 1337, unit: time.Second, lagging: o.Personality == evmtest.Provider}
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
	s.url, s.http, s.node, s.steering = node.URL(), client, node, onSimulated{t, node}
	return s
}

// call calls a method of the node, which must succeed.
func (s *stage) call(out any, method string, params ...any) {
	s.Helper()
	if params == nil {
		params = []any{}
	}
	s.id++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params})
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

// mine makes blocks, a little after one another.
func (s *stage) mine(n int) {
	for range n {
		s.steering.mine()
	}
}

// reorg replaces the last blocks. The first new one has the given transactions.
func (s *stage) reorg(depth int, with ...batch.Batch) {
	raw := make([][]byte, len(with))
	for i, b := range with {
		raw[i] = s.raw(b, 0)
	}
	s.steering.reorg(depth, raw)
}

func (s *stage) drop(b batch.Batch) { s.steering.drop(string(b.ID)) }

// account returns an account that nobody has used, with some funds.
func (s *stage) account() evmtest.Account { return s.accountWith(evmtest.Ether(10)) }

func (s *stage) accountWith(wei *big.Int) evmtest.Account {
	s.id++
	a := evmtest.Named(s.Name() + strconv.Itoa(s.id) + time.Now().String())
	s.steering.fund(a.Address(), wei)
	s.made = append(s.made, a)
	return a
}

// pay is a payment of an account. Payments of different values have different hashes.
func (s *stage) pay(from evmtest.Account, nonce uint64, value int64) batch.Batch {
	return s.sign(from, evmtest.Unsigned{Nonce: nonce, To: evmtest.Dev(9).Address(), Value: big.NewInt(value)})
}

func (s *stage) sign(from evmtest.Account, u evmtest.Unsigned) batch.Batch {
	if s.lists {
		return s.alternatives(from, u, feeOf(1, 30), feeOf(2, 60), feeOf(4, 120))
	}
	u.ChainID = s.chain
	raw, hash := from.Sign(u)
	b, err := evm.NewBatch(raw)
	require.NoError(s, err)
	require.Equal(s, hash, string(b.ID))
	return b
}

// feeOf returns fees that are given in gwei.
func feeOf(tip, feeCap float64) evm.Fee {
	return evm.Fee{Tip: big.NewInt(int64(tip * 1e9)), FeeCap: big.NewInt(int64(feeCap * 1e9))}
}

// alternatives is one batch with several fees.
func (s *stage) alternatives(from evmtest.Account, u evmtest.Unsigned, fees ...evm.Fee) batch.Batch {
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

// raw returns a transaction of a batch.
func (s *stage) raw(b batch.Batch, i int) []byte {
	all, err := evm.Split(b.Payload)
	require.NoError(s, err)
	return all[i]
}

// alone returns an alternative as a batch by itself.
func (s *stage) alone(b batch.Batch, i int) batch.Batch {
	one, err := evm.NewBatch(s.raw(b, i))
	require.NoError(s, err)
	return one
}

// foreign sends a transaction past the library, as another wallet does.
func (s *stage) foreign(b batch.Batch) { s.call(nil, "eth_sendRawTransaction", toHex(s.raw(b, 0))) }

// executed returns how often each transaction of an account was executed, and in which order, as
// the chain says, block by block.
func (s *stage) executed(from evmtest.Account) (hashes []batch.ID) {
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

func (s *stage) client(o evm.Options) *evm.Client {
	if o.Client == nil {
		o.Client = s.http
	}
	if s.node == nil { // in real time
		o.Grace, o.LateArrival, o.Vanish = 10*s.unit, 10*s.unit, 100*s.unit
	}
	if s.lists { // the first of each is executed
		o.BumpAfter = 1000
	}
	c, err := evm.New(s.url, s.chain, &o)
	require.NoError(s, err)
	return c
}

// observer keeps all events.
type observer struct {
	mu  sync.Mutex
	all []batch.Event
}

func (o *observer) Observe(_ context.Context, e batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, e)
}

func (o *observer) of(kind batch.EventKind) (out []batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.all {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// states are the states that a batch went through.
func (o *observer) states(b batch.Batch) (out []batch.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.all {
		if e.Key == b.Key() && e.State.Known() && (len(out) == 0 || out[len(out)-1] != e.State) {
			out = append(out, e.State)
		}
	}
	return out
}

// playing is a Runner at work on a stage.
type playing struct {
	*stage
	*dltbatch.Runner
	seen *observer
}

// run starts a Runner of its own, with lanes of several in flight.
func (s *stage) run(o evm.Options) *playing { return s.runOn(memory.New(), o) }

func (s *stage) runOn(store *memory.Store, o evm.Options) *playing {
	return s.runLedger(store, s.client(o), queuer.Pipelined(16))
}

// runLedger starts a Runner of its own for a client.
func (s *stage) runLedger(store *memory.Store, l dlt.Ledger, strategy queuer.Strategy) *playing {
	seen := &observer{}
	opts := &dltbatch.Options{Strategy: strategy, Observer: seen, StuckAfter: time.Hour}
	if s.node == nil {
		opts.PollInterval, opts.ScanInterval, opts.Retry.Delay, opts.StuckAfter = s.unit, s.unit, s.unit, 100*s.unit
	}
	if s.stuckAfter > 0 {
		opts.StuckAfter = s.stuckAfter
	}
	ledger := hooked.Wrap(l, hooked.Hooks{BatchStatuses: func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
		statuses, err := next(ctx, service, attempts)
		for i := range statuses {
			if s.hidden.Load() {
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
	return &playing{stage: s, Runner: r, seen: seen}
}

func (p *playing) add(bs ...batch.Batch) {
	p.Helper()
	require.NoError(p, p.Add(context.Background(), bs...))
}

func (p *playing) record(b batch.Batch) batch.Record {
	p.Helper()
	rec, err := p.Get(context.Background(), b.Key())
	require.NoError(p, err)
	return rec
}

// becomes waits until a batch is in one of some states.
func (p *playing) becomes(b batch.Batch, want ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range 1000 {
		if rec = p.record(b); slices.Contains(want, rec.State) {
			return rec
		}
		time.Sleep(p.unit)
	}
	require.Contains(p, want, rec.State, "%s after attempt %d: %v %s", b.Key(), rec.Attempt, rec.Error, rec.Decision)
	return rec
}

// stays makes sure that for a while a batch is in none of some states.
func (p *playing) stays(b batch.Batch, units int, never ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range units {
		time.Sleep(p.unit)
		rec = p.record(b)
		require.NotContains(p, never, rec.State, "%v", rec.Error)
	}
	return rec
}
