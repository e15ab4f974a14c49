package integration

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// benchStore has no clock of its own, because that would cost time.
func benchStore(b *testing.B, d driver) (*postgres.Store, *space) {
	b.Helper()
	s := newSpace(b, d)
	s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
	st, _ := s.store()
	return st, s
}

func benchBatches(n, lanes int) []batch.Batch {
	bs := make([]batch.Batch, n)
	for i := range bs {
		p := make([]byte, 1536)
		rand.Read(p)
		bs[i] = batch.Batch{ID: batch.ID(hex.EncodeToString(p[:64])), Service: benchLane(i % lanes), Payload: p}
	}
	return bs
}

func benchLane(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane%04d", i)) }

func BenchmarkAdd(b *testing.B) {
	for _, d := range []driver{pooled, pgx, libpq, pooledBounced, pgxBounced, pqBounced} {
		for _, n := range []int{1, 500, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", d.name, n), func(b *testing.B) {
				st, _ := benchStore(b, d)
				all := 0
				for b.Loop() {
					b.StopTimer()
					bs := benchBatches(n, 100)
					b.StartTimer()
					require.NoError(b, st.Add(b.Context(), bs...))
					all += n
				}
				b.ReportMetric(float64(all)/b.Elapsed().Seconds(), "batches/s")
			})
		}
	}
}

// An AddTx with its transaction.
func BenchmarkAddTx(b *testing.B) {
	for _, d := range []driver{pooled, pgx} {
		for _, n := range []int{100, 500} {
			b.Run(fmt.Sprintf("%s/%d", d.name, n), func(b *testing.B) {
				s := newSpace(b, d)
				s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
				a := s.app()
				all := 0
				for b.Loop() {
					b.StopTimer()
					bs := benchBatches(n, 100)
					b.StartTimer()
					x := a.mustBegin(b)
					require.NoError(b, a.addTx(b.Context(), x, bs...))
					require.NoError(b, x.commit())
					all += n
				}
				b.ReportMetric(float64(all)/b.Elapsed().Seconds(), "batches/s")
			})
		}
	}
}

// A round takes the fronts of 500 lanes, loads their payloads, records them as
// accepted and then as committed.
func BenchmarkRound(b *testing.B) {
	const lanes = 500
	for _, d := range []driver{pooled, pgx, libpq} {
		b.Run(d.name, func(b *testing.B) {
			st, _ := benchStore(b, d)
			parts := map[string]time.Duration{}
			rounds := 0
			for b.Loop() {
				if rounds%20 == 0 {
					b.StopTimer()
					require.NoError(b, st.Add(b.Context(), benchBatches(lanes*20, lanes)...))
					b.StartTimer()
				}
				benchRound(b, st, lanes, parts)
				rounds++
			}
			b.ReportMetric(float64(rounds*lanes)/b.Elapsed().Seconds(), "batches/s")
			for name, took := range parts {
				b.ReportMetric(float64(took.Microseconds())/float64(rounds), name+"-us")
			}
		})
	}
}

func benchRound(b testing.TB, st *postgres.Store, lanes int, parts map[string]time.Duration) {
	ctx := b.Context()
	part := func(name string, do func()) {
		start := time.Now()
		do()
		parts[name] += time.Since(start)
	}
	q := store.ClaimQuery{Limit: lanes, Window: 1, TTL: time.Minute}
	for i := range lanes {
		q.Lanes = append(q.Lanes, benchLane(i))
	}
	var refs []store.Ref
	var outcomes []store.Outcome
	part("claim", func() {
		got, err := st.Claim(ctx, q, front)
		require.NoError(b, err)
		for _, r := range got.Runs {
			for _, c := range r.Batches {
				refs = append(refs, c.Ref)
				outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter})
			}
		}
		require.Len(b, refs, lanes)
	})
	part("payloads", func() {
		_, err := st.Payloads(ctx, refs)
		require.NoError(b, err)
	})
	record := func() {
		applied, err := st.Record(ctx, outcomes)
		require.NoError(b, err)
		for _, a := range applied {
			require.Equal(b, store.Written, a.Result)
		}
	}
	part("accepted", record)
	part("pending", func() {
		due, err := st.Pending(ctx, store.PendingQuery{Limit: lanes, Lease: time.Minute})
		require.NoError(b, err)
		require.Len(b, due, lanes)
	})
	for i := range outcomes {
		outcomes[i].Version++
		outcomes[i].Finding, outcomes[i].By = store.IsCommitted, batch.ByMonitor
	}
	part("committed", record)
	part("lanes", func() {
		_, err := st.Lanes(ctx, store.LanesQuery{Start: true, Limit: lanes})
		require.NoError(b, err)
	})
}

// front takes the first batch of a lane.
func front(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}
