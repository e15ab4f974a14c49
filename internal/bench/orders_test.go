package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// orderStores are the stores that keep orders; all stores do.
var orderStores = []struct {
	name string
	open func(testing.TB) store.Store
}{
	{"memory", func(testing.TB) store.Store { return memory.New() }},
	{"sqlite", openSQLite},
	{"postgres", openPostgres},
}

// wallet is an Engine and a Runner with their default options, before a participant that
// takes 50 ms for a submission and almost no time for other requests.
type wallet struct {
	participant *cantontest.Participant
	engine      *autobatch.Engine
}

func newWallet(b testing.TB, st store.Store, o autobatch.Options) *wallet {
	w := &wallet{participant: cantontest.Start(b, &cantontest.Options{
		CompleteAfter: time.Millisecond,
		Fault: func(at cantontest.Point) (f cantontest.Fault) {
			if at.Operation == cantontest.OpSubmit {
				f.Delay = 50 * time.Millisecond
			}
			return f
		},
	})}
	ledger, err := canton.New(w.participant.URL(), &canton.Options{UserID: "bench"})
	require.NoError(b, err)
	builder, err := canton.NewOrderBuilder(func(_ context.Context, o batch.Order) (canton.OrderCommands, error) {
		var t cantontest.Transfer
		err := json.Unmarshal(o.Payload, &t)
		return canton.OrderCommands{Commands: []json.RawMessage{t.Command()}}, err
	}, nil)
	require.NoError(b, err)
	var runner *dltbatch.Runner
	o.Wake = func(party batch.ServiceID) { runner.Wake(party) }
	w.engine, err = autobatch.New(st.(store.Orders), builder, &o)
	require.NoError(b, err)
	runner, err = dltbatch.New(st, ledger, &dltbatch.Options{Observer: w.engine})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { assert.NoError(b, runner.Run(ctx)) })
	both.Go(func() { assert.NoError(b, w.engine.Run(ctx)) })
	b.Cleanup(func() {
		stop()
		both.Wait()
		ledger.CloseIdleConnections()
	})
	return w
}

func transfer(b testing.TB, party, i int) batch.Order {
	id := fmt.Sprintf("transfer-%d", i)
	payload, err := json.Marshal(cantontest.Transfer{To: "Bank::1220", Amount: 1, Note: id})
	require.NoError(b, err)
	return batch.Order{ID: batch.OrderID(id), Party: batch.ServiceID(fmt.Sprintf("party-%d::1220", party)), Payload: payload}
}

// await waits until all orders are confirmed.
func (w *wallet) await(b testing.TB, orders []batch.Order) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, o := range orders {
		all.Go(func() { w.confirmed(ctx, b, o) })
	}
	all.Wait()
}

func (w *wallet) confirmed(ctx context.Context, b testing.TB, o batch.Order) {
	rec, err := w.engine.Await(ctx, o.ID)
	if assert.NoError(b, err) {
		assert.Equal(b, batch.OrderConfirmed, rec.State)
	}
}

// BenchmarkOrders measures how many transfers of one party a second are confirmed, one in a
// submission and up to a hundred, from Add to the last of them. Their number does not depend
// on b.N.
func BenchmarkOrders(b *testing.B) {
	for _, st := range orderStores {
		rates := map[int]float64{}
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/max=%d", st.name, size), func(b *testing.B) {
				w := newWallet(b, st.open(b), autobatch.Options{MaxSize: size})
				orders := make([]batch.Order, 50*size)
				for i := range orders {
					orders[i] = transfer(b, 0, i)
				}
				b.ResetTimer()
				require.NoError(b, w.engine.Add(context.Background(), orders...))
				w.await(b, orders)
				b.StopTimer()
				rates[size] = float64(len(orders)) / b.Elapsed().Seconds()
				b.ReportMetric(rates[size], "transfers/s")
				b.ReportMetric(0, "ns/op")
				if rates[1] > 0 && size > 1 {
					b.ReportMetric(rates[size]/rates[1], "times")
				}
			})
		}
	}
}

// BenchmarkOrderLatency measures an order's time from its Add to the POST that it leaves
// with, and to its outcome, 50 ms of it the submission: 5 a second of one party, and 200 a
// second of four. Each order is added alone, as by a handler of requests.
func BenchmarkOrderLatency(b *testing.B) {
	const lasts = 6 * time.Second
	for _, st := range orderStores {
		for _, load := range []struct {
			name          string
			parties, rate int
		}{{"low", 1, 5}, {"high", 4, 200}} {
			b.Run(st.name+"/"+load.name, func(b *testing.B) {
				w := newWallet(b, st.open(b), autobatch.Options{})
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				orders := make([]batch.Order, int(lasts.Seconds())*load.rate)
				for i := range orders {
					orders[i] = transfer(b, i%load.parties, i)
				}
				begin := time.Now()
				due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(load.rate)) }
				confirmed, place := make([]time.Duration, len(orders)), map[string]int{}
				var all sync.WaitGroup
				for i, o := range orders {
					place[string(o.ID)] = i
					time.Sleep(time.Until(due(i)))
					all.Go(func() {
						if assert.NoError(b, w.engine.Add(ctx, o)) {
							w.confirmed(ctx, b, o)
							confirmed[i] = time.Since(due(i)) // the adder's own delay counts, too
						}
					})
				}
				all.Wait()
				var left []time.Duration
				posts := 0
				for _, e := range w.participant.Journal() {
					if e.Kind != cantontest.Posted {
						continue
					}
					posts++
					for _, t := range e.Transfers {
						left = append(left, e.At.Sub(due(place[t.Note])))
					}
				}
				require.Equal(b, len(orders), len(left), "each left once")
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(len(orders))/float64(posts), "transfers/submission")
				quantiles(b, "left", left)
				quantiles(b, "confirmed", confirmed)
			})
		}
	}
}

func quantiles(b *testing.B, what string, took []time.Duration) {
	slices.SortFunc(took, cmp.Compare)
	for _, q := range []int{50, 99} {
		b.ReportMetric(took[(len(took)-1)*q/100].Seconds()*1000, fmt.Sprintf("%s-p%d-ms", what, q))
	}
}
