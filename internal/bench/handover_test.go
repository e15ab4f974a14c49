package bench

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
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

// hand is a ledger whose commits and posts are known to the microsecond, and the batches to
// send to it.
type hand struct {
	node    node
	client  client
	batches []batch.Batch
	close   func()
}

const handLanes = 100

func transport() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
}

// sawtoothHand is a node that makes forty blocks a second.
func sawtoothHand(b testing.TB, n, rate int) hand {
	x := startNode(b, "-block", "25ms", "-per-block", fmt.Sprint(rate/40), "-publish-delay", "-1ns", "-skip-verify",
		"-pool-limit", "1000000", "-journal")
	ledger, err := sawtooth.New(x.url, &sawtooth.Options{Client: transport()})
	require.NoError(b, err)
	return hand{x, ledger, signed(b, n, handLanes), ledger.CloseIdleConnections}
}

// splinterHand is a service for each lane, which commits on its own.
func splinterHand(b testing.TB, n, rate int) hand {
	x := startNode(b, "-ledger", "splinter", "-circuits", fmt.Sprint(handLanes),
		"-block", (handLanes * time.Second / time.Duration(rate)).String(), "-journal")
	ledger, err := splinter.New(x.url, &splinter.Options{Client: transport()})
	require.NoError(b, err)
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(b, err)
	batches := make([]batch.Batch, n)
	for i := range batches {
		payload, address := splintertest.Set(fmt.Sprintf("n%d", i%handLanes), int64(i))
		service := batch.ServiceID(fmt.Sprintf("aaaaa-%05d::a000", i%handLanes))
		batches[i], err = sawtooth.Build(key, service, sawtooth.Transaction{
			FamilyName: "sabre", FamilyVersion: "0.5", Nonce: fmt.Sprint(time.Now().UnixNano(), i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(b, err)
	}
	return hand{x, ledger, batches, ledger.CloseIdleConnections}
}

// BenchmarkHandOver measures a lane's hand-over: from the ledger's commit to the POST of the
// lane's next batch, over 100 lanes that all commit at one rate, with the ledger's events and
// with polling alone. The ledger is a process of its own.
func BenchmarkHandOver(b *testing.B) {
	for _, l := range []struct {
		name string
		make func(b testing.TB, n, rate int) hand
	}{{"sawtooth", sawtoothHand}, {"splinter", splinterHand}} {
		for _, st := range []struct {
			name string
			open func(testing.TB) store.Store
		}{{"sqlite", openSQLite}, {"postgres", openPostgres}} {
			for _, streams := range []int{0, -1} {
				for _, rate := range []int{200, 1000} {
					b.Run(fmt.Sprintf("%s/%s/events=%t/rate=%d", l.name, st.name, streams == 0, rate), func(b *testing.B) {
						n := max(b.N, 10*handLanes)
						h := l.make(b, n, rate)
						defer h.close()
						handOver(b, h, st.open(b), streams)
					})
				}
			}
		}
	}
}

func handOver(b *testing.B, h hand, st store.Store, streams int) {
	t := &tap{client: h.client, of: map[batch.ID]*steps{}}
	runner, err := dltbatch.New(st, t, &dltbatch.Options{Streams: streams, Observer: t})
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
	t.handOvers(h.node.stop(), service, streams == 0).report(b)
	n := float64(len(h.batches))
	b.ReportMetric(n/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(t.questions)/n, "questions/batch")
	b.ReportMetric(0, "ns/op")
}
