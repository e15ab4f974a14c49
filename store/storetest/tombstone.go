package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// modelTombstone is the model of a tombstone.
type modelTombstone struct {
	batch  batch.Batch
	record batch.Record
}

// tombstoneOf returns the model's tombstone that has the batch's DataChangeID, or nil.
func (f *fixture) tombstoneOf(b batch.Batch) *modelTombstone {
	for _, t := range f.tombstones {
		if b.DataChangeID != "" && t.batch.DataChangeID == b.DataChangeID && t.batch.Service == b.Service {
			return t
		}
	}
	return nil
}

// addFindsEnded reports whether one of these batches was removed after it had ended without taking
// effect. Batches with the same id or DataChangeID have the same payload.
func (f *fixture) addFindsEnded(bs ...batch.Batch) bool {
	type changeKey struct {
		service batch.ServiceID
		change  string
	}
	ids, changes := map[batch.ID]bool{}, map[changeKey]bool{}
	for _, b := range bs {
		key := changeKey{b.Service, b.DataChangeID}
		if f.batches[b.ID] != nil || f.withChange(b) != nil || ids[b.ID] || b.DataChangeID != "" && changes[key] {
			continue
		}
		t := f.tombstones[b.ID]
		if t == nil {
			t = f.tombstoneOf(b)
		}
		if t == nil {
			ids[b.ID], changes[key] = true, true
		} else if t.record.State != batch.Committed {
			return true
		}
	}
	return false
}

// requireSameAsTombstone compares a record with the model's tombstone.
func (f *fixture) requireSameAsTombstone(got batch.Record) {
	f.Helper()
	t := f.tombstones[got.ID]
	require.NotNil(f, t, "%s has a tombstone", got.Key)
	want := t.record
	require.Equal(f, want, withNearTimesOf(f, want, got), "what remains of %s", got.Key)
}

// requireAddRefused adds batches of which one has ended, and returns the record of its tombstone.
func (f *fixture) requireAddRefused(bs ...batch.Batch) batch.Record {
	f.Helper()
	err := f.store.Add(f.ctx, bs...)
	var endedErr *batch.EndedError
	require.ErrorAs(f, err, &endedErr)
	require.ErrorIs(f, err, batch.ErrEnded)
	require.NotErrorIs(f, err, batch.ErrConflict, "the bytes are the same")
	f.requireSameAsTombstone(endedErr.Record)
	return endedErr.Record
}

func tombstoneTests() []test {
	return []test{
		{name: "a batch that took effect is stored already, for ever", run: testTombCommitted},
		{name: "a batch that did not take effect is refused, with how it ended", run: testTombEnded},
		{name: "the caller's key is kept, too", run: testTombChange},
		{name: "a batch that is stored under its key asks no tombstone", run: testTombStored},
		{name: "without a tombstone nothing is left", run: testTombNone},
	}
}

// buryEach makes a batch with each kind of end, and removes all of them with tombstones.
func (f *fixture) buryEach() map[batch.ID]batch.State {
	f.Helper()
	f.add(newBatch("s", "refused"), newBatch("s", "cancelled"), newBatch("s", "committed"), newBatch("s", "invalid"))
	f.claimExactly("refused", "committed", "invalid")
	f.recordEach(f.submitterOutcome, store.Refused, "refused")
	f.recordEach(f.submitterOutcome, store.Accepted, "committed", "invalid")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "committed")
	o := f.monitorOutcome("invalid", store.IsInvalid)
	o.Settle = 0
	f.record(o)
	ends := map[batch.ID]batch.State{"refused": batch.Rejected, "committed": batch.Committed, "invalid": batch.Invalid}
	if f.hasAbilities(store.CanOperate) {
		require.NoError(f, f.cancel("cancelled", "not now"))
		ends["cancelled"] = batch.Rejected
	}
	f.passUnits(1)
	require.Equal(f, len(ends), f.prune(0, true))
	return ends
}

func testTombCommitted(f *fixture) {
	f.buryEach()
	b := newBatch("s", "committed")
	f.add(b, newBatch("s", "new"), b)
	r := must(f.store.Get(f.ctx, b.Key()))(f)
	f.requireSameAsTombstone(r)
	assert.Equal(f, batch.Committed, r.State)
	assert.True(f, r.Final())
	assert.False(f, r.PrunedAt.IsZero())
	assert.Nil(f, r.Error)
	final, missing := f.finals(b.Key(), newBatch("t", "committed").Key())
	assert.Equal(f, []batch.ID{"committed"}, final)
	assert.Equal(f, []batch.Key{newBatch("t", "committed").Key()}, missing)
	assert.Equal(f, []batch.ID{"new"}, laneIDs(f.viewLane("s", 9)))
}

func testTombEnded(f *fixture) {
	for id, state := range f.buryEach() {
		if state == batch.Committed {
			continue
		}
		b := newBatch("s", id)
		r := f.requireAddRefused(newBatch("s", "new"), b, newBatch("s", "newer"))
		f.requireAbsent(newBatch("s", "new"), newBatch("s", "newer"))
		assert.Equal(f, b.Key(), r.Key)
		assert.Equal(f, state, r.State)
		got, err := f.store.Get(f.ctx, b.Key())
		require.NoError(f, err)
		f.requireSameAsTombstone(got)
		f.finals(b.Key())
		if f.hasAbilities(store.CanOperate) {
			_, err = f.store.Requeue(f.ctx, got, store.Requeue{}, byWithReason("once more"))
			require.ErrorIs(f, err, batch.ErrNotFound, "nobody acts on what is removed")
		}
		other := b
		other.Payload = []byte("other")
		require.ErrorIs(f, f.store.Add(f.ctx, other), batch.ErrConflict)
		require.ErrorIs(f, f.store.Add(f.ctx, newBatch("t", id)), batch.ErrConflict)
	}
	if _, err := f.store.Get(f.ctx, newBatch("s", "cancelled").Key()); f.hasAbilities(store.CanOperate) {
		require.NoError(f, err)
		assert.Equal(f, batch.KindCancelled, f.tombstones["cancelled"].record.Error.Kind)
	}
	assert.NotContains(f, laneIDs(f.viewLane("s", 9)), batch.ID("new"))
}

func testFindRemoved(f *fixture) {
	f.add(newKeyedBatch("s", "a", "paid", "p"), newKeyedBatch("s", "b", "refused", "q"))
	f.claimExactly("a", "b")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	f.recordEach(f.submitterOutcome, store.Refused, "b")
	f.passUnits(1)
	require.Equal(f, 2, f.prune(0, true))
	for id, change := range map[batch.ID]string{"a": "paid", "b": "refused"} {
		for _, q := range []store.FindQuery{
			{ID: id}, {ID: id, Begins: true}, {DataChangeID: change}, {DataChangeID: change[:3], Begins: true}, {Service: servicePtr("s"), DataChangeID: change},
		} {
			assert.Equal(f, []batch.ID{id}, f.findIDs(q), "%+v", q)
		}
		for _, q := range []store.FindQuery{{ID: id + "2"}, {Service: servicePtr("t"), DataChangeID: change}, {DataChangeID: string(id)}} {
			assert.Empty(f, f.findIDs(q), "%+v", q)
		}
	}
	f.add(newKeyedBatch("s", "ax", "", "r"))
	assert.Equal(f, []batch.ID{"ax"}, f.findIDs(store.FindQuery{ID: "ax"}))
	assert.Equal(f, []batch.ID{"a", "ax"}, f.findIDs(store.FindQuery{ID: "a", Begins: true}))
}

func testTombChange(f *fixture) {
	f.add(newKeyedBatch("s", "a", "paid", "p"), newKeyedBatch("s", "b", "refused", "q"))
	f.claimExactly("a", "b")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	f.recordEach(f.submitterOutcome, store.Refused, "b")
	f.passUnits(1)
	require.Equal(f, 2, f.prune(0, true))
	f.add(newKeyedBatch("s", "a2", "paid", "p"), newKeyedBatch("s", "new", "", "r"), newKeyedBatch("s", "a3", "paid", "p"))
	f.requireAbsent(newKeyedBatch("s", "a2", "paid", "p"), newKeyedBatch("s", "a3", "paid", "p"))
	assert.Equal(f, batch.ID("b"), f.requireAddRefused(newKeyedBatch("s", "b2", "refused", "q"), newKeyedBatch("s", "newer", "", "r")).ID)
	f.requireChangeConflict(newKeyedBatch("s", "a4", "paid", "other"))
	f.requireChangeConflict(newKeyedBatch("s", "b4", "refused", "other"))
	f.add(newKeyedBatch("t", "a5", "paid", "other"), newKeyedBatch("s", "a6", "PAID", "other"))
	assert.ElementsMatch(f, []batch.ID{"new", "a5", "a6"}, f.storedIDs())
}

func testTombStored(f *fixture) {
	f.add(newKeyedBatch("s", "a", "", "p"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Refused, "a")
	f.passUnits(1)
	require.Equal(f, 1, f.prune(0, true))
	f.add(newKeyedBatch("s", "b", "key", "p"), newKeyedBatch("s", "a", "key", "p")) // this call stores b, and so a counts as stored
	f.add(newKeyedBatch("s", "a", "key", "p"))
	f.requireAddRefused(newKeyedBatch("s", "a", "", "p"))
	require.ErrorIs(f, f.store.Add(f.ctx, newKeyedBatch("s", "a", "key", "q")), batch.ErrConflict)
	assert.Equal(f, []batch.ID{"b"}, f.storedIDs())
}

func testTombNone(f *fixture) {
	f.add(newKeyedBatch("s", "a", "key", "p"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Refused, "a")
	f.passUnits(1)
	require.Equal(f, 1, f.prune(0, false))
	f.requireAbsent(newKeyedBatch("s", "a", "key", "p"))
	f.add(newKeyedBatch("s", "a", "key", "p"))
	assert.Equal(f, batch.Queued, f.get("a").State)
}
