package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// How deep a block must be, and how often a block is made.
const (
	rateDepth = 2
	rateBlock = 100 * time.Millisecond
	rateHeads = rateBlock / 4 // the pause between questions for the last block
)

// BenchmarkRate compares a Runner with a bare loop of eth_sendRawTransaction. They run in turns on
// one node, which makes a block each 100 ms. Both have the same accounts and as many payments, and
// are measured until the block of the last payment is deep.
func BenchmarkRate(b *testing.B) {
	for kind, start := range map[string]func(b *testing.B) *stage{
		"simulated": func(b *testing.B) *stage {
			return overHTTP(b, evmtest.Start(b, &evmtest.Options{Personality: evmtest.Anvil, BlockTime: -1, SlotsInAnEpoch: 1}).URL())
		},
		"anvil": func(b *testing.B) *stage { return overHTTP(b, anvil.Start(b, "--no-mining").URL()) },
		"geth":  func(b *testing.B) *stage { return overGeth(b) },
	} {
		for _, c := range []struct {
			name  string
			heads time.Duration
			store func(testing.TB) store.Store
		}{
			{"heads=0s", 0, inMemory}, {"heads=" + rateHeads.String(), rateHeads, inMemory}, {"postgres", rateHeads, inPostgres},
		} {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				s := start(b)
				s.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
				r := newRate(b, s, *rateAccounts, *rateEach)
				r.heads, r.store = c.heads, c.store
				var bare, ours, bareCPU, oursCPU time.Duration
				for b.Loop() {
					all := r.sign()
					before := childrenCPU(b)
					bare += r.bare(all)
					bareCPU += childrenCPU(b) - before
					all = r.sign()
					before = childrenCPU(b)
					ours += r.runner(all)
					oursCPU += childrenCPU(b) - before
				}
				sent := float64(b.N * len(r.accounts) * r.each)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(sent/bare.Seconds(), "bare/s")
				b.ReportMetric(sent/ours.Seconds(), "runner/s")
				b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
				if kind != "simulated" { // other load on the machine changes little of these numbers
					b.ReportMetric(float64(bareCPU.Microseconds())/sent, "node-us/bare")
					b.ReportMetric(float64(oursCPU.Microseconds())/sent, "node-us/send")
				}
				b.ReportMetric(float64(r.calls.n["statuses"])/sent, "questions/send")
				b.ReportMetric(float64(r.calls.ids)/sent, "ids/send")
				b.ReportMetric(r.calls.mean("statuses"), "ms/question")
				b.ReportMetric(float64(r.calls.n["submit"])/sent, "posts/send")
				b.ReportMetric(r.calls.mean("submit"), "ms/post")
			})
		}
	}
}

// childrenCPU returns the processor time of the running processes that this process has started:
// the node's.
func childrenCPU(t testing.TB) (sum time.Duration) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// After the name in brackets come the state, the parent, and from the 12th field on the
		// user and system time in ticks.
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if f[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, ticks := range f[11:13] {
			n, err := strconv.Atoi(ticks)
			require.NoError(t, err)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// far is a node with a slow connection. The node does one thing at a time: one send, or ten
// questions. Now and then something takes much longer.
type far struct {
	next   http.RoundTripper
	way    time.Duration
	send   time.Duration
	node   chan struct{}
	mu     sync.Mutex
	random *rand.Rand // nil means that nothing takes longer
	calls  map[string]int
}

// RoundTrip implements [http.RoundTripper].
func (f *far) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	for _, m := range methodName.FindAllSubmatch(body, -1) {
		f.calls[string(m[1])]++
	}
	f.mu.Unlock()
	cost := f.send / 10 * time.Duration(bytes.Count(body, []byte(`"method"`)))
	if bytes.Contains(body, []byte("eth_sendRawTransaction")) {
		cost = f.send
	}
	time.Sleep(f.longer(f.way, 3*time.Second))
	f.node <- struct{}{}
	time.Sleep(f.longer(cost, time.Second))
	resp, err := f.next.RoundTrip(req)
	<-f.node
	time.Sleep(f.longer(f.way, 3*time.Second))
	return resp, err
}

var methodName = regexp.MustCompile(`"method":"(\w+)"`)

func (f *far) longer(d, most time.Duration) time.Duration {
	if f.random == nil {
		return d
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(500) == 0 {
		return time.Duration(f.random.Int64N(int64(most)))
	}
	return time.Duration(f.random.Int64N(2 * int64(d)))
}

// near returns a rate for virtual time, in which only the node and the connection to it take time.
func near(t *testing.T, random *rand.Rand, accounts, each int) *rate {
	s := simulated(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
	s.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	f := &far{
		next: s.http.Transport, way: time.Millisecond, send: 400 * time.Microsecond, node: make(chan struct{}, 1), random: random, calls: map[string]int{},
	}
	s.http.Transport = f
	r := newRate(t, s, accounts, each)
	r.client, r.far = s.http, f
	return r
}

// TestRate compares a Runner with a bare loop in virtual time, with questions by age and with
// questions by block. So the ratio shows the cost of waits, round trips and questions, and not the
// load of the machine.
func TestRate(t *testing.T) {
	tier.Plain(t)
	for _, heads := range []time.Duration{0, rateHeads} {
		t.Run("heads="+heads.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := near(t, nil, 30, 20)
				r.heads = heads
				bare := r.bare(r.sign())
				all := r.sign()
				clear(r.far.calls)
				ours := r.runner(all)
				calls := r.far.calls
				t.Logf("calls of %d payments: %v", len(r.accounts)*r.each, calls)
				t.Logf("bare %v, ours %v, ratio %.2f; %d questions of %.1f ms about %d, %d posts of %.1f ms", bare, ours, bare.Seconds()/ours.Seconds(),
					r.calls.n["statuses"], r.calls.mean("statuses"), r.calls.ids, r.calls.n["submit"], r.calls.mean("submit"))
				sent := len(r.accounts) * r.each
				assert.Equal(t, sent, r.calls.n["submit"])
				if heads == 0 {
					assert.Less(t, ours, bare+3*time.Second) // in so short a run, a batch or two wait for a poll at the end
					return
				}
				assert.Less(t, calls["eth_getTransactionReceipt"], 4*sent/3, "a receipt is asked for once a block has it")
				assert.Less(t, calls["eth_getTransactionByHash"]+calls["eth_getTransactionCount"], sent/5, "the pool is not asked about what it has just taken")
				assert.Less(t, ours, 2*bare, "no batch waits for a poll")
				assert.Less(t, r.calls.ids, 5*sent, "each is asked about with each block until it is deep")
			})
		})
	}
}

// TestRateUnevenly makes the comparison with a connection and a node that sometimes stop: no lane
// stops with them.
func TestRateUnevenly(t *testing.T) {
	tier.Plain(t)
	for seed := range uint64(*rateSeeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := near(t, rand.New(rand.NewPCG(seed, 2)), 10, 20)
				t.Log(r.runner(r.sign()))
			})
		})
	}
}

// The size of BenchmarkRate.
var (
	rateAccounts = flag.Int("evm.rate.accounts", 60, "accounts of BenchmarkRate")
	rateEach     = flag.Int("evm.rate.each", 100, "payments of each of them")
)

var rateSeeds = flag.Int("evm.rate.seeds", 1, "seeds of TestRateUnevenly")

type rate struct {
	testing.TB
	s        *stage
	accounts []evmtest.Account
	each     int
	nonce    uint64
	calls    *counted
	client   *http.Client // client of the Runner; nil means the default client
	heads    time.Duration
	store    func(testing.TB) store.Store
	far      *far
}

func inMemory(testing.TB) store.Store { return memory.New() }

// inPostgres returns a store in a schema of its own, over pgx's pool.
func inPostgres(t testing.TB) store.Store {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.Start(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	schema := "rate" + strconv.FormatInt(time.Now().UnixNano(), 36)
	st, err := native.New(pool, &postgres.Options{Schema: schema})
	require.NoError(t, err)
	require.NoError(t, st.Migrate(ctx))
	t.Cleanup(func() {
		_, err := pool.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
		require.NoError(t, err)
	})
	return st
}

// newRate returns a rate whose node makes blocks.
func newRate(t testing.TB, s *stage, accounts, each int) *rate {
	r := &rate{TB: t, s: s, store: inMemory, each: each, calls: &counted{n: map[string]int{}, took: map[string]time.Duration{}}}
	for i := range accounts {
		a := evmtest.Named("rate" + strconv.Itoa(i))
		r.s.steering.fund(a.Address(), evmtest.Ether(1000))
		r.accounts = append(r.accounts, a)
	}
	ctx, stop := context.WithCancel(context.Background())
	var mining sync.WaitGroup
	mining.Go(func() {
		tick := time.NewTicker(rateBlock)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.mine()
			}
		}
	})
	t.Cleanup(func() { stop(); mining.Wait() })
	return r
}

// mine makes a block of the transactions that the pool has now.
func (r *rate) mine() {
	if on, is := r.s.steering.(onGeth); is {
		if err := on.node.Seal(); err != nil {
			r.Error(err)
		}
		return
	}
	r.ask(nil, "evm_mine")
}

// ask is stage.call for several goroutines.
func (r *rate) ask(out any, method string, params ...any) {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		r.Error(err)
		return
	}
	resp, err := r.s.http.Post(r.s.url, "application/json", bytes.NewReader(body))
	if err != nil {
		r.Error(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var answer struct {
		Result json.RawMessage
		Error  any
	}
	if err != nil || json.Unmarshal(text, &answer) != nil || answer.Error != nil {
		r.Errorf("%s: %v %s", method, err, text)
		return
	}
	if out != nil {
		if err := json.Unmarshal(answer.Result, out); err != nil {
			r.Error(err)
		}
	}
}

// sign returns the next signed payments, by account.
func (r *rate) sign() (all [][]batch.Batch) {
	for _, a := range r.accounts {
		var lane []batch.Batch
		for i := range uint64(r.each) {
			lane = append(lane, r.s.pay(a, r.nonce+i, 1))
		}
		all = append(all, lane)
	}
	r.nonce += uint64(r.each)
	return all
}

// bare sends the payments in one loop for each account, and returns how long it took.
func (r *rate) bare(all [][]batch.Batch) time.Duration {
	began := time.Now()
	var lanes sync.WaitGroup
	for i, lane := range all {
		lanes.Go(func() {
			for _, b := range lane {
				r.ask(nil, "eth_sendRawTransaction", toHex(b.Payload))
			}
			for { // until the last payment is deep
				var head, count string
				r.ask(&head, "eth_blockNumber")
				n, err := strconv.ParseUint(head[2:], 16, 64)
				if err != nil {
					r.Error(err)
					return
				}
				r.ask(&count, "eth_getTransactionCount", r.accounts[i].Address(), fmt.Sprintf("0x%x", max(n, rateDepth)-rateDepth))
				if got, err := strconv.ParseUint(count[2:], 16, 64); err != nil || got >= r.nonce || r.Failed() {
					return
				}
				time.Sleep(rateBlock / 4)
			}
		})
	}
	lanes.Wait()
	return time.Since(began)
}

// committed counts committed batches.
type committed struct {
	left atomic.Int64
	all  chan struct{}
}

func (c *committed) Observe(_ context.Context, e batch.Event) {
	if e.State == batch.Committed && c.left.Add(-1) == 0 {
		close(c.all)
	}
}

// counted adds up calls to the ledger.
type counted struct {
	mu   sync.Mutex
	n    map[string]int
	took map[string]time.Duration
	ids  int // the number of ids that were asked about
}

// ObserveCall implements batch.CallObserver.
func (c *counted) ObserveCall(_ context.Context, call batch.Call) {
	if call.Part != "ledger" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[call.Op]++
	c.took[call.Op] += call.Took
	if call.Op == "statuses" {
		c.ids += call.Items
	}
}

func (c *counted) mean(op string) float64 {
	return float64(c.took[op].Microseconds()) / 1000 / float64(max(c.n[op], 1))
}

// forgotten returns the accounts whose next transaction anvil keeps among those that wait for an
// earlier one. It never mines such a transaction
// (docs/ledgers/evm.md#22-what-an-acceptance-is-worth).
func (r *rate) forgotten() string {
	var pool struct{ Queued map[string]map[string]any }
	r.ask(&pool, "txpool_content")
	var out strings.Builder
	for _, a := range r.accounts {
		var count string
		r.ask(&count, "eth_getTransactionCount", a.Address(), "latest")
		next, err := strconv.ParseUint(count[2:], 16, 64)
		require.NoError(r, err)
		if _, ok := pool.Queued[strings.ToLower(a.Address())][strconv.FormatUint(next, 10)]; ok {
			fmt.Fprintf(&out, "the node has nonce %d of %s, its next, and does not mine it\n", next, a.Address())
		}
	}
	return out.String()
}

// runner sends the payments through a Runner, and returns how long it took.
func (r *rate) runner(all [][]batch.Batch) time.Duration {
	var bs []batch.Batch
	for i := range all[0] {
		for _, lane := range all {
			bs = append(bs, lane[i])
		}
	}
	seen := &committed{all: make(chan struct{})}
	seen.left.Store(int64(len(bs)))
	client, err := evm.New(r.s.url, r.s.chain, &evm.Options{Finality: evm.After(rateDepth), Client: r.client, HeadInterval: r.heads})
	require.NoError(r, err)
	defer client.CloseIdleConnections()
	runner, err := dltbatch.New(r.store(r), client, &dltbatch.Options{Strategy: queuer.Pipelined(16), Observer: seen, Calls: r.calls})
	require.NoError(r, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	require.NoError(r, runner.Add(ctx, bs...)) // the payments are added before the time starts, as those of the bare loop are signed before
	began := time.Now()
	go func() { done <- runner.Run(ctx) }()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	select {
	case <-seen.all:
	case <-limit.C:
		r.Errorf("%d of %d are not committed: %+v\n%s", seen.left.Load(), len(bs), runner.Health(), r.forgotten())
	}
	took := time.Since(began)
	stop()
	require.NoError(r, <-done)
	return took
}
