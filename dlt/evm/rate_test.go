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
	for kind, start := range map[string]func(b *testing.B) *testChain{
		"simulated": func(b *testing.B) *testChain {
			return newChainAtURL(b, evmtest.Start(b, &evmtest.Options{Personality: evmtest.Anvil, BlockTime: -1, SlotsInAnEpoch: 1}).URL())
		},
		"anvil": func(b *testing.B) *testChain { return newChainAtURL(b, anvil.Start(b, "--no-mining").URL()) },
		"geth":  func(b *testing.B) *testChain { return newGethChain(b) },
	} {
		for _, c := range []struct {
			name  string
			heads time.Duration
			store func(testing.TB) store.Store
		}{
			{"heads=0s", 0, newMemoryStore}, {"heads=" + rateHeads.String(), rateHeads, newMemoryStore}, {"postgres", rateHeads, newPostgresStore},
		} {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				s := start(b)
				s.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
				r := newRateTest(b, s, *rateAccounts, *rateEach)
				r.headInterval, r.newStore = c.heads, c.store
				var bare, ours, bareCPU, oursCPU time.Duration
				for b.Loop() {
					all := r.signPayments()
					before := childrenCPU(b)
					bare += r.runBareLoop(all)
					bareCPU += childrenCPU(b) - before
					all = r.signPayments()
					before = childrenCPU(b)
					ours += r.runRunner(all)
					oursCPU += childrenCPU(b) - before
				}
				sent := float64(b.N * len(r.accounts) * r.paymentsPerAccount)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(sent/bare.Seconds(), "bare/s")
				b.ReportMetric(sent/ours.Seconds(), "runner/s")
				b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
				if kind != "simulated" { // other load on the machine changes little of these numbers
					b.ReportMetric(float64(bareCPU.Microseconds())/sent, "node-us/bare")
					b.ReportMetric(float64(oursCPU.Microseconds())/sent, "node-us/send")
				}
				b.ReportMetric(float64(r.calls.countByOp["statuses"])/sent, "questions/send")
				b.ReportMetric(float64(r.calls.idCount)/sent, "ids/send")
				b.ReportMetric(r.calls.meanMillis("statuses"), "ms/question")
				b.ReportMetric(float64(r.calls.countByOp["submit"])/sent, "posts/send")
				b.ReportMetric(r.calls.meanMillis("submit"), "ms/post")
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

// slowNode is a node with a slow connection. The node does one thing at a time: one send, or ten
// questions. Now and then something takes much longer.
type slowNode struct {
	next     http.RoundTripper
	latency  time.Duration
	sendTime time.Duration
	nodeLock chan struct{}
	mu       sync.Mutex
	random   *rand.Rand // nil means that nothing takes longer
	calls    map[string]int
}

// RoundTrip implements [http.RoundTripper].
func (f *slowNode) RoundTrip(req *http.Request) (*http.Response, error) {
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
	cost := f.sendTime / 10 * time.Duration(bytes.Count(body, []byte(`"method"`)))
	if bytes.Contains(body, []byte("eth_sendRawTransaction")) {
		cost = f.sendTime
	}
	time.Sleep(f.randomDelay(f.latency, 3*time.Second))
	f.nodeLock <- struct{}{}
	time.Sleep(f.randomDelay(cost, time.Second))
	resp, err := f.next.RoundTrip(req)
	<-f.nodeLock
	time.Sleep(f.randomDelay(f.latency, 3*time.Second))
	return resp, err
}

var methodName = regexp.MustCompile(`"method":"(\w+)"`)

func (f *slowNode) randomDelay(d, most time.Duration) time.Duration {
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

// newSlowRate returns a rateTest for virtual time, in which only the node and the connection to it
// take time.
func newSlowRate(t *testing.T, random *rand.Rand, accounts, each int) *rateTest {
	s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
	s.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	f := &slowNode{
		next: s.http.Transport, latency: time.Millisecond, sendTime: 400 * time.Microsecond, nodeLock: make(chan struct{}, 1), random: random, calls: map[string]int{},
	}
	s.http.Transport = f
	r := newRateTest(t, s, accounts, each)
	r.client, r.slowNode = s.http, f
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
				r := newSlowRate(t, nil, 30, 20)
				r.headInterval = heads
				bare := r.runBareLoop(r.signPayments())
				all := r.signPayments()
				clear(r.slowNode.calls)
				ours := r.runRunner(all)
				calls := r.slowNode.calls
				t.Logf("calls of %d payments: %v", len(r.accounts)*r.paymentsPerAccount, calls)
				t.Logf("bare %v, ours %v, ratio %.2f; %d questions of %.1f ms about %d, %d posts of %.1f ms", bare, ours, bare.Seconds()/ours.Seconds(),
					r.calls.countByOp["statuses"], r.calls.meanMillis("statuses"), r.calls.idCount, r.calls.countByOp["submit"], r.calls.meanMillis("submit"))
				sent := len(r.accounts) * r.paymentsPerAccount
				assert.Equal(t, sent, r.calls.countByOp["submit"])
				if heads == 0 {
					assert.Less(t, ours, bare+3*time.Second) // in so short a run, a batch or two wait for a poll at the end
					return
				}
				assert.Less(t, calls["eth_getTransactionReceipt"], 4*sent/3, "a receipt is asked for once a block has it")
				assert.Less(t, calls["eth_getTransactionByHash"]+calls["eth_getTransactionCount"], sent/5, "the pool is not asked about what it has just taken")
				assert.Less(t, ours, 2*bare, "no batch waits for a poll")
				assert.Less(t, r.calls.idCount, 5*sent, "each is asked about with each block until it is deep")
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
				r := newSlowRate(t, rand.New(rand.NewPCG(seed, 2)), 10, 20)
				t.Log(r.runRunner(r.signPayments()))
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

type rateTest struct {
	testing.TB
	chain              *testChain
	accounts           []evmtest.Account
	paymentsPerAccount int
	nonce              uint64
	calls              *callCounter
	client             *http.Client // client of the Runner; nil means the default client
	headInterval       time.Duration
	newStore           func(testing.TB) store.Store
	slowNode           *slowNode
}

func newMemoryStore(testing.TB) store.Store { return memory.New() }

// newPostgresStore returns a store in a schema of its own, over pgx's pool.
func newPostgresStore(t testing.TB) store.Store {
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

// newRateTest returns a rateTest whose node makes blocks.
func newRateTest(t testing.TB, s *testChain, accounts, each int) *rateTest {
	r := &rateTest{TB: t, chain: s, newStore: newMemoryStore, paymentsPerAccount: each, calls: &callCounter{countByOp: map[string]int{}, timeByOp: map[string]time.Duration{}}}
	for i := range accounts {
		a := evmtest.Named("rate" + strconv.Itoa(i))
		r.chain.control.fund(a.Address(), evmtest.Ether(1000))
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
func (r *rateTest) mine() {
	if on, is := r.chain.control.(gethControl); is {
		if err := on.node.Seal(); err != nil {
			r.Error(err)
		}
		return
	}
	r.callNode(nil, "evm_mine")
}

// callNode is testChain.call for several goroutines.
func (r *rateTest) callNode(out any, method string, params ...any) {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		r.Error(err)
		return
	}
	resp, err := r.chain.http.Post(r.chain.url, "application/json", bytes.NewReader(body))
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

// signPayments returns the next signed payments, by account.
func (r *rateTest) signPayments() (all [][]batch.Batch) {
	for _, a := range r.accounts {
		var lane []batch.Batch
		for i := range uint64(r.paymentsPerAccount) {
			lane = append(lane, r.chain.newPayment(a, r.nonce+i, 1))
		}
		all = append(all, lane)
	}
	r.nonce += uint64(r.paymentsPerAccount)
	return all
}

// runBareLoop sends the payments in one loop for each account, and returns how long it took.
func (r *rateTest) runBareLoop(all [][]batch.Batch) time.Duration {
	began := time.Now()
	var lanes sync.WaitGroup
	for i, lane := range all {
		lanes.Go(func() {
			for _, b := range lane {
				r.callNode(nil, "eth_sendRawTransaction", toHex(b.Payload))
			}
			for { // until the last payment is deep
				var head, count string
				r.callNode(&head, "eth_blockNumber")
				n, err := strconv.ParseUint(head[2:], 16, 64)
				if err != nil {
					r.Error(err)
					return
				}
				r.callNode(&count, "eth_getTransactionCount", r.accounts[i].Address(), fmt.Sprintf("0x%x", max(n, rateDepth)-rateDepth))
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

// commitCounter counts committed batches.
type commitCounter struct {
	remaining atomic.Int64
	done      chan struct{}
}

func (c *commitCounter) Observe(_ context.Context, e batch.Event) {
	if e.State == batch.Committed && c.remaining.Add(-1) == 0 {
		close(c.done)
	}
}

// callCounter adds up calls to the ledger.
type callCounter struct {
	mu        sync.Mutex
	countByOp map[string]int
	timeByOp  map[string]time.Duration
	idCount   int // the number of ids that were asked about
}

// ObserveCall implements batch.CallObserver.
func (c *callCounter) ObserveCall(_ context.Context, call batch.Call) {
	if call.Part != "ledger" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countByOp[call.Op]++
	c.timeByOp[call.Op] += call.Took
	if call.Op == "statuses" {
		c.idCount += call.Items
	}
}

func (c *callCounter) meanMillis(op string) float64 {
	return float64(c.timeByOp[op].Microseconds()) / 1000 / float64(max(c.countByOp[op], 1))
}

// describeForgotten returns the accounts whose next transaction anvil keeps among those that wait
// for an earlier one. It never mines such a transaction
// (docs/ledgers/evm.md#22-what-an-acceptance-is-worth).
func (r *rateTest) describeForgotten() string {
	var pool struct{ Queued map[string]map[string]any }
	r.callNode(&pool, "txpool_content")
	var out strings.Builder
	for _, a := range r.accounts {
		var count string
		r.callNode(&count, "eth_getTransactionCount", a.Address(), "latest")
		next, err := strconv.ParseUint(count[2:], 16, 64)
		require.NoError(r, err)
		if _, ok := pool.Queued[strings.ToLower(a.Address())][strconv.FormatUint(next, 10)]; ok {
			fmt.Fprintf(&out, "the node has nonce %d of %s, its next, and does not mine it\n", next, a.Address())
		}
	}
	return out.String()
}

// runRunner sends the payments through a Runner, and returns how long it took.
func (r *rateTest) runRunner(all [][]batch.Batch) time.Duration {
	var batches []batch.Batch
	for i := range all[0] {
		for _, lane := range all {
			batches = append(batches, lane[i])
		}
	}
	seen := &commitCounter{done: make(chan struct{})}
	seen.remaining.Store(int64(len(batches)))
	client, err := evm.New(r.chain.url, r.chain.chain, &evm.Options{Finality: evm.After(rateDepth), Client: r.client, HeadInterval: r.headInterval})
	require.NoError(r, err)
	defer client.CloseIdleConnections()
	runner, err := dltbatch.New(r.newStore(r), client, &dltbatch.Options{Strategy: queuer.Pipelined(16), Observer: seen, Calls: r.calls})
	require.NoError(r, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	require.NoError(r, runner.Add(ctx, batches...)) // the payments are added before the time starts, as those of the bare loop are signed before
	began := time.Now()
	go func() { done <- runner.Run(ctx) }()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	select {
	case <-seen.done:
	case <-limit.C:
		r.Errorf("%d of %d are not committed: %+v\n%s", seen.remaining.Load(), len(batches), runner.Health(), r.describeForgotten())
	}
	took := time.Since(began)
	stop()
	require.NoError(r, <-done)
	return took
}
