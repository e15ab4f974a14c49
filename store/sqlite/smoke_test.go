package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func serial(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

func newBatch(service string, n int) batch.Batch {
	return batch.Batch{
		ID: batch.ID(fmt.Sprintf("%0128x", n)), Service: batch.ServiceID(service), Payload: fmt.Appendf(nil, "payload %d", n),
		Transactions: []batch.Transaction{{ID: fmt.Sprintf("%0127xf", n), FamilyName: "intkey", FamilyVersion: "1.0", SignerPublicKey: "02"}},
	}
}

var forever = store.Resend{HarmlessFor: 1<<63 - 1}

func query(lanes ...batch.ServiceID) store.ClaimQuery {
	return store.ClaimQuery{Lanes: lanes, Limit: 100, Window: 4, TTL: time.Minute,
		Resend: func(batch.ServiceID) store.Resend { return forever }}
}

// A batch's whole way, as the engine takes it.
func TestWholeWay(t *testing.T) {
	s, clk, _ := fresh(t)
	ctx := t.Context()
	a, b := newBatch("x", 1), newBatch("x", 2)
	require.NoError(t, s.Add(ctx, a, b))
	lanes, err := s.Lanes(ctx, store.LanesQuery{Start: true, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []batch.ServiceID{"x"}, lanes)
	got, err := s.Claim(ctx, query("x"), serial)
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
	c := got.Runs[0].Batches[0]
	require.Equal(t, a.Key(), c.Key)
	payloads, err := s.Payloads(ctx, []store.Ref{c.Ref})
	require.NoError(t, err)
	require.Equal(t, [][]byte{a.Payload}, payloads)
	again, err := s.Claim(ctx, query("x"), serial)
	require.NoError(t, err)
	require.Empty(t, again.Runs)
	applied, err := s.Record(ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter, Check: time.Second}})
	require.NoError(t, err)
	require.Equal(t, store.Written, applied[0].Result)
	due, err := s.Pending(ctx, store.PendingQuery{Limit: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.Empty(t, due)
	clk.step(2 * time.Second)
	due, err = s.Pending(ctx, store.PendingQuery{Limit: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.NoError(t, s.Checked(ctx, []store.Due{{Ref: due[0].Ref, In: 0}}))
	due, err = s.Pending(ctx, store.PendingQuery{Limit: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, due, 1)
	applied, err = s.Record(ctx, []store.Outcome{{Ref: due[0].Ref, Version: due[0].Version, Finding: store.IsCommitted, By: batch.ByMonitor}})
	require.NoError(t, err)
	require.Equal(t, store.Written, applied[0].Result)
	rec, err := s.Get(ctx, a.Key())
	require.NoError(t, err)
	require.Equal(t, batch.Committed, rec.State)
	require.True(t, rec.Final())
	all, next, err := s.List(ctx, store.ListQuery{})
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, all, 2)
	name, err := s.Ledger(ctx, "sawtooth")
	require.NoError(t, err)
	require.Equal(t, "sawtooth", name)
	p, err := s.Prune(ctx, store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
	require.NoError(t, err)
	require.Equal(t, store.Pruned{Batches: 1}, p)
	require.NoError(t, s.Add(ctx, a))
	rec, err = s.Get(ctx, a.Key())
	require.NoError(t, err)
	require.Equal(t, batch.Committed, rec.State)
	require.False(t, rec.PrunedAt.IsZero())
}
