package sqlite

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Two ids with the same hash are two ids: the second is refused with an error, and never taken for
// the first, even if both batches have the same payload.
func TestTwoIDsOfOneHash(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	first, second := newBatch("a", 1), newBatch("a", 2)
	second.Payload = first.Payload
	require.NoError(t, s.Add(ctx, first))
	_, err := s.db.Exec(`UPDATE dltbatch_batches SET id_hash = ?`, idHash(second.ID))
	require.NoError(t, err)

	for name, b := range map[string]batch.Batch{
		"alike": second, "other bytes": {ID: second.ID, Service: "a", Payload: []byte("p")},
		"a change": {ID: second.ID, Service: "a", Payload: first.Payload, DataChangeID: "c"},
	} {
		err := s.Add(ctx, b)
		require.ErrorIs(t, err, batch.ErrConflict, name)
		require.ErrorContains(t, err, string(first.ID), name)
	}
	other := newBatch("a", 3)
	require.ErrorIs(t, s.Add(ctx, other, second), batch.ErrConflict)
	_, err = s.Get(ctx, other.Key())
	require.ErrorIs(t, err, batch.ErrNotFound, "all of a call or none")

	ref := store.Ref{Key: second.Key()}
	_, err = s.Get(ctx, second.Key())
	require.ErrorIs(t, err, batch.ErrNotFound)
	_, err = s.Look(ctx, second.Key(), 1)
	require.ErrorIs(t, err, batch.ErrNotFound)
	_, err = s.History(ctx, second.Key())
	require.ErrorIs(t, err, batch.ErrNotFound)
	_, err = s.Cancel(ctx, batch.Record{Key: second.Key(), Version: 1}, batch.By{Actor: "test", Reason: "why"})
	require.ErrorIs(t, err, batch.ErrNotFound)
	_, missing, err := s.Finals(ctx, []batch.Key{second.Key()})
	require.NoError(t, err)
	assert.Equal(t, []batch.Key{second.Key()}, missing)
	payloads, err := s.Payloads(ctx, []store.Ref{ref})
	require.NoError(t, err)
	assert.Nil(t, payloads[0])
	kept, err := s.KeepPrepared(ctx, []store.Prepared{{Ref: ref, Version: 1, Bytes: []byte("p")}})
	require.NoError(t, err)
	assert.Equal(t, []bool{false}, kept)
	applied, err := s.Record(ctx, []store.Outcome{{Ref: ref, Version: 1, Finding: store.IsCommitted, By: batch.ByMonitor}})
	require.NoError(t, err)
	assert.Equal(t, store.Gone, applied[0].Result)
	rows, _, err := s.List(ctx, store.ListQuery{})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, batch.Queued, rows[0].State)
	assert.Equal(t, first.Key(), rows[0].Key)
}

// The database itself stores an id only once, even if other code writes to it.
func TestIDIsHeldOnce(t *testing.T) {
	s, _, _ := newTestStore(t)
	b := newBatch("a", 1)
	require.NoError(t, s.Add(t.Context(), b))
	_, err := s.db.Exec(`INSERT INTO dltbatch_batches SELECT seq + 1, id_hash, header_signature, 'b', created_at, data_change_id,
		signer_public_key, trace, payload_hash, budget_attempts, budget_every_try, footprint, trace_parent, tags FROM dltbatch_batches`)
	require.ErrorContains(t, err, "UNIQUE constraint failed: dltbatch_batches.id_hash")
}

// A copy of the data may lack SQLite's own table of assigned numbers. Add then does not assign the
// number of a stored batch.
func TestAddWithATakenNumber(t *testing.T) {
	s, _, _ := newTestStore(t)
	first, second := newBatch("a", 1), newBatch("a", 2)
	require.NoError(t, s.Add(t.Context(), first))
	_, err := s.db.Exec(`DELETE FROM sqlite_sequence`)
	require.NoError(t, err)
	second.DataChangeID = "c"
	require.NoError(t, s.Add(t.Context(), second))
	for _, b := range []batch.Batch{first, second} {
		_, err = s.Get(t.Context(), b.Key())
		require.NoError(t, err)
	}
	require.NoError(t, s.Add(t.Context(), first), "which is known")
}

// idHash returns the key by which batches are looked up.
func idHash(id batch.ID) []byte {
	h := sqlstore.IDHash(id)
	return h[:]
}
