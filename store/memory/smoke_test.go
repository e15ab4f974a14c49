package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestSmoke(t *testing.T) {
	s := memory.New()
	ctx := t.Context()
	require.NoError(t, s.Add(ctx, batch.Batch{ID: "a", Payload: []byte("1")}, batch.Batch{ID: "b", Payload: []byte("2")}))
	lanes, err := s.Lanes(ctx, store.LanesQuery{Start: true, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []batch.ServiceID{""}, lanes)
	c, err := s.Claim(ctx, store.ClaimQuery{Lanes: lanes, Limit: 10, Window: 1, TTL: time.Minute}, func(l batch.Lane) []batch.Run {
		require.Len(t, l.Batches, 1)
		return []batch.Run{{0}}
	})
	require.NoError(t, err)
	require.Len(t, c.Runs, 1)
	a, err := s.Record(ctx, []store.Outcome{{Ref: c.Runs[0].Batches[0].Ref, Version: 2, By: batch.BySubmitter, Finding: store.Accepted}})
	require.NoError(t, err)
	require.Equal(t, store.Written, a[0].Result)
	p, err := s.Pending(ctx, store.PendingQuery{Limit: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, p, 1)
	a, err = s.Record(ctx, []store.Outcome{{Ref: p[0].Ref, Version: p[0].Version, By: batch.ByMonitor, Finding: store.IsCommitted}})
	require.NoError(t, err)
	require.Equal(t, store.Written, a[0].Result)
	r, err := s.Get(ctx, batch.Key{ID: "a"})
	require.NoError(t, err)
	require.Equal(t, batch.Committed, r.State)
	n, err := s.Prune(ctx, store.PruneQuery{Tombstones: true})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
