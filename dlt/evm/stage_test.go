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

// stage is a chain on which plays run, with one simulated or real node.
type stage struct {
	testing.TB
	steering steering
	url      string
	http     *http.Client
	chain    uint64
	// unit is the time by which the play waits: a second of virtual time, or 20 ms of real time.
	unit time.Duration
	// node is nil if only the URL is known. Plays that need it say so by play.inside.
	node *evmtest.Node
	// lagging is true if one of several nodes behind the URL is behind.
	lagging bool
	faults  atomic.Pointer[func(evmtest.RequestPoint) evmtest.Fault]
	hidden  atomic.Bool // questions for statuses find nothing
	// stuckAfter is how long a batch waits before the reason is reported. 0 means an hour, or 100
	// units on a real chain.
	stuckAfter time.Duration
	// lists is true if each payment is a batch of several alternatives.
	lists bool
	// width is how many intents of an account a crew may have under way. 0 means one.
	width int
	made  []evmtest.Account
	id    int
}

// simulated returns a stage with a node in memory, for a synctest bubble.
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

// mine makes n blocks, with a short pause after each.
func (s *stage) mine(n int) {
	for range n {
		s.steering.mine()
	}
}

// reorg replaces the last blocks. The first new block has the transactions of the batches in with.
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

// pay returns a payment of an account. Payments of different values have different hashes.
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

// feeOf returns fees of amounts in gwei.
func feeOf(tip, feeCap float64) evm.Fee {
	return evm.Fee{Tip: big.NewInt(int64(tip * 1e9)), FeeCap: big.NewInt(int64(feeCap * 1e9))}
}

// alternatives returns one batch with a transaction for each fee.
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

// raw returns the encoded transaction with index i of a batch.
func (s *stage) raw(b batch.Batch, i int) []byte {
	all, err := evm.Split(b.Payload)
	require.NoError(s, err)
	return all[i]
}

// alone returns the alternative with index i as a batch by itself.
func (s *stage) alone(b batch.Batch, i int) batch.Batch {
	one, err := evm.NewBatch(s.raw(b, i))
	require.NoError(s, err)
	return one
}

// foreign sends a transaction without the library, as another wallet does.
func (s *stage) foreign(b batch.Batch) { s.call(nil, "eth_sendRawTransaction", toHex(s.raw(b, 0))) }

// executed returns the hashes of an account's executed transactions, read from the chain block by
// block, in order. A hash that was executed twice would be there twice.
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
	if s.lists { // the first alternative is executed
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

// states returns the states that a batch went through.
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

// playing is a Runner that works on a stage.
type playing struct {
	*stage
	*dltbatch.Runner
	seen *observer
}

// run starts a Runner of its own, with several batches of a lane in flight.
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

// becomes waits until the batch is in one of the states in want.
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

// stays makes sure that for some units of time a batch is in none of the states in never.
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
