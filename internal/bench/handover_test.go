package bench

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

func openPostgres(b testing.TB) store.Store {
	db, err := sql.Open("postgres", pgtest.Start(b))
	require.NoError(b, err)
	db.SetMaxOpenConns(16) // each Add wants one; a server has a hundred
	db.SetMaxIdleConns(16)
	schema := fmt.Sprintf("bench%d", time.Now().UnixNano())
	b.Cleanup(func() {
		_, _ = db.Exec(`DROP SCHEMA ` + schema + ` CASCADE`)
		db.Close()
	})
	st, err := postgres.New(db, &postgres.Options{Schema: schema})
	require.NoError(b, err)
	require.NoError(b, st.Migrate(context.Background()))
	return st
}

// questions counts status requests.
type questions struct {
	http.RoundTripper
	n atomic.Int64
}

func (q *questions) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "batch_statuses") {
		q.n.Add(1)
	}
	return q.RoundTripper.RoundTrip(r)
}

// moment is when a lane's batch was committed, or its next one came in.
type moment struct {
	at        time.Time
	committed bool
	id        batch.ID
}

// hand is a ledger whose commits and posts are known to the microsecond.
type hand struct {
	ledger  dlt.Ledger
	batches []batch.Batch
	moments func() []moment
	close   func()
}

// 100 lanes and 200 batches a second: each lane commits twice a second. A Sawtooth
// node takes five batches into each of forty blocks a second; a Scabbard service
// commits on its own.
const (
	handLanes = 100
	handPace  = 500 * time.Millisecond
	handBlock = 5
)

func sawtoothHand(b testing.TB, n int, q *questions) hand {
	node := sawtoothtest.Start(b, &sawtoothtest.Options{
		BlockInterval: handPace * handBlock / handLanes, MaxBatchesPerBlock: handBlock, PublishDelay: -1, SkipVerify: true, PoolLimit: 1_000_000,
	})
	ledger, err := sawtooth.New(node.URL(), &sawtooth.Options{Client: &http.Client{Transport: q}})
	require.NoError(b, err)
	return hand{ledger, signed(b, n, handLanes), func() (out []moment) {
		for _, e := range node.Journal() {
			switch e.Kind {
			case sawtoothtest.PostStart, sawtoothtest.BlockCommitted:
				for _, id := range e.Batches {
					out = append(out, moment{e.Time, e.Kind == sawtoothtest.BlockCommitted, id})
				}
			}
		}
		return out
	}, ledger.CloseIdleConnections}
}

func splinterHand(b testing.TB, n int, q *questions) hand {
	// A circuit each, since services of one circuit wait for each other.
	circuits := make([]splintertest.Circuit, handLanes)
	for i := range circuits {
		circuits[i] = splintertest.Circuit{ID: fmt.Sprintf("aaaaa-%05d", i), Services: []string{"a000"}}
	}
	net := splintertest.Start(b, &splintertest.Options{Addrs: []string{"127.0.0.1:0"}, CommitInterval: handPace, Circuits: circuits})
	ledger, err := splinter.New(net.URL(0), &splinter.Options{Client: &http.Client{Transport: q}})
	require.NoError(b, err)
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(b, err)
	batches := make([]batch.Batch, n)
	for i := range batches {
		payload, address := splintertest.Set(fmt.Sprintf("n%d", i%handLanes), int64(i))
		batches[i], err = sawtooth.Build(key, net.Service(i%handLanes), sawtooth.Transaction{
			FamilyName: "sabre", FamilyVersion: "0.5", Nonce: fmt.Sprint(time.Now().UnixNano(), i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(b, err)
	}
	return hand{ledger, batches, func() (out []moment) {
		for _, e := range net.Journal() {
			committed := e.Kind == splintertest.Executed && e.Word == "Committed"
			if committed || e.Kind == splintertest.PostStart {
				out = append(out, moment{e.Time, committed, e.Batches[0]})
			}
		}
		return out
	}, ledger.CloseIdleConnections}
}

// BenchmarkHandOver measures a lane's hand-over: from the ledger's commit to the
// POST of the lane's next batch, at 200 batches a second over 100 lanes, with the
// ledger's events and with polling alone.
func BenchmarkHandOver(b *testing.B) {
	for _, l := range []struct {
		name string
		make func(testing.TB, int, *questions) hand
	}{{"sawtooth", sawtoothHand}, {"splinter", splinterHand}} {
		for _, st := range []struct {
			name string
			open func(testing.TB) store.Store
		}{{"sqlite", openSQLite}, {"postgres", openPostgres}} {
			for _, streams := range []int{0, -1} {
				b.Run(fmt.Sprintf("%s/%s/events=%t", l.name, st.name, streams == 0), func(b *testing.B) {
					n := max(b.N, 10*handLanes)
					q := &questions{RoundTripper: &http.Transport{MaxIdleConnsPerHost: 128}}
					h := l.make(b, n, q)
					defer h.close()
					runner, err := dltbatch.New(st.open(b), h.ledger, &dltbatch.Options{Streams: streams})
					require.NoError(b, err)
					ctx, stop := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- runner.Run(ctx) }()
					service := map[batch.ID]batch.ServiceID{}
					for _, x := range h.batches {
						service[x.ID] = x.Service
					}
					b.ResetTimer()
					for group := range slices.Chunk(h.batches, 500) {
						require.NoError(b, runner.Add(ctx, group...))
					}
					require.NoError(b, runner.Idle(ctx))
					b.StopTimer()
					stop()
					require.NoError(b, <-done)

					var took []time.Duration
					last := map[batch.ServiceID]time.Time{}
					for _, m := range h.moments() {
						s := service[m.id]
						if m.committed {
							last[s] = m.at
						} else if at, ok := last[s]; ok {
							took = append(took, m.at.Sub(at))
							delete(last, s)
						}
					}
					require.NotEmpty(b, took)
					slices.Sort(took)
					ms := func(q int) float64 { return took[(len(took)-1)*q/100].Seconds() * 1000 }
					b.ReportMetric(ms(50), "p50-ms")
					b.ReportMetric(ms(99), "p99-ms")
					b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "batches/s")
					b.ReportMetric(float64(q.n.Load())/float64(n), "questions/batch")
				})
			}
		}
	}
}
