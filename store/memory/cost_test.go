package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// chooseSerially takes the first batch of a lane if it is ready.
func chooseSerially(l batch.Lane) []batch.Run {
	if len(l.Batches) > 0 && l.Batches[0].Ready {
		return []batch.Run{{0}}
	}
	return nil
}

func newFilledStore(t testing.TB, n int) *Store {
	s := New()
	for at := 0; at < n; at += 1000 {
		bs := make([]batch.Batch, min(1000, n-at))
		for i := range bs {
			bs[i] = batch.Batch{Service: "s", ID: batch.ID(fmt.Sprintf("%d-%d", n, at+i)), Payload: []byte("p")}
		}
		require.NoError(t, s.Add(t.Context(), bs...))
	}
	return s
}

// deliverOne claims a waiting batch, and records it as accepted and then as committed.
func deliverOne(t testing.TB, s *Store) {
	ctx := t.Context()
	got, err := s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, chooseSerially)
	require.NoError(t, err)
	c := got.Runs[0].Batches[0]
	for _, o := range []store.Outcome{
		{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted},
		{Ref: c.Ref, Version: c.Version + 1, By: batch.ByMonitor, Finding: store.IsCommitted},
	} {
		_, err = s.Pending(ctx, store.PendingQuery{Limit: 1})
		require.NoError(t, err)
		applied, err := s.Record(ctx, []store.Outcome{o})
		require.NoError(t, err)
		require.Equal(t, store.Written, applied[0].Result)
	}
}

// A claim or a check does not read final and waiting batches, which are in none of the structures
// that it reads (docs/design.md#promise-9-cost).
func TestFinishedAndWaitingAreOutOfTheWay(t *testing.T) {
	s := newFilledStore(t, 3000)
	for range 2000 {
		deliverOne(t, s)
	}
	assert.Empty(t, s.inFlight)
	assert.Zero(t, s.lanes["s"].attempted.len())
	assert.Equal(t, 1000, s.lanes["s"].queued.len())
	assert.Len(t, s.window("s", func([]store.LaneRow) int { return 4 }), 4)
	assert.Equal(t, 2000, s.final.len())
}

// A lane leaves nothing in memory after its batches were pruned.
func TestPrunedLanesAreForgotten(t *testing.T) {
	s := New()
	for i := range 500 {
		service := batch.ServiceID(fmt.Sprint(i))
		require.NoError(t, s.Add(t.Context(), batch.Batch{Service: service, ID: batch.ID(service), Payload: []byte("p")}))
		_, err := s.Cancel(t.Context(), batch.Record{Key: batch.Key{Service: service, ID: batch.ID(service)}, Version: 1}, batch.By{Actor: "test"})
		require.NoError(t, err)
	}
	p, err := s.Prune(t.Context(), store.PruneQuery{})
	require.NoError(t, err)
	assert.Equal(t, store.Pruned{Batches: 500}, p)
	assert.Empty(t, s.lanes)
	assert.Empty(t, s.byID)
	assert.Zero(t, s.all.len())
	for range 2 { // the first reader notices the empty lanes, and the second removes them
		lanes, err := s.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 10})
		require.NoError(t, err)
		assert.Empty(t, lanes)
	}
	assert.Empty(t, s.openLaneNames.sorted)
}

// BenchmarkOne measures the cost of a batch, which must not depend on the number of waiting and of
// final batches.
func BenchmarkOne(b *testing.B) {
	for _, backlog := range []int{10_000, 300_000} {
		b.Run(fmt.Sprintf("backlog=%d", backlog), func(b *testing.B) {
			s := newFilledStore(b, backlog)
			left := backlog
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if left--; left == 0 {
					b.StopTimer()
					s, left = newFilledStore(b, backlog), backlog
					b.StartTimer()
				}
				deliverOne(b, s)
			}
		})
	}
}
