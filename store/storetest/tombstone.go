package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// tomb is the model of a tombstone.
type tomb struct {
	b       batch.Batch
	remains batch.Record
}

// tombOf returns the tombstone in the model under the batch's DataChangeID, or nil.
func (f *fixture) tombOf(b batch.Batch) *tomb {
	for _, t := range f.tombs {
		if b.DataChangeID != "" && t.b.DataChangeID == b.DataChangeID && t.b.Service == b.Service {
			return t
		}
	}
	return nil
}

// ended reports whether an Add of these batches names one that has ended without taking effect,
// and is removed. Each has its own payload under its id and its DataChangeID.
func (f *fixture) ended(bs ...batch.Batch) bool {
	type changeKey struct {
		service batch.ServiceID
		change  string
	}
	ids, changes := map[batch.ID]bool{}, map[changeKey]bool{}
	for _, b := range bs {
		key := changeKey{b.Service, b.DataChangeID}
		if f.rows[b.ID] != nil || f.changed(b) != nil || ids[b.ID] || b.DataChangeID != "" && changes[key] {
			continue
		}
		t := f.tombs[b.ID]
		if t == nil {
			t = f.tombOf(b)
		}
		if t == nil {
			ids[b.ID], changes[key] = true, true
		} else if t.remains.State != batch.Committed {
			return true
		}
	}
	return false
}

// remains compares a record with the model's tombstone.
func (f *fixture) remains(got batch.Record) {
	f.Helper()
	t := f.tombs[got.ID]
	require.NotNil(f, t, "%s has a tombstone", got.Key)
	want := t.remains
	require.Equal(f, want, like(f, want, got), "what remains of %s", got.Key)
}

// refuses adds batches of which one has ended, and returns the tombstone of that one.
func (f *fixture) refuses(bs ...batch.Batch) batch.Record {
	f.Helper()
	err := f.st.Add(f.ctx, bs...)
	var ended *batch.EndedError
	require.ErrorAs(f, err, &ended)
	require.ErrorIs(f, err, batch.ErrEnded)
	require.NotErrorIs(f, err, batch.ErrConflict, "the bytes are the same")
	f.remains(ended.Record)
	return ended.Record
}

func tombstoneTests() []test {
	return []test{
		{name: "a batch that took effect is stored already, for ever", run: tombCommitted},
		{name: "a batch that did not take effect is refused, with how it ended", run: tombEnded},
		{name: "the caller's key is kept, too", run: tombChange},
		{name: "a batch that is stored under its key asks no tombstone", run: tombStored},
		{name: "without a tombstone nothing is left", run: tombNone},
	}
}

// buriesEach brings a batch of each kind of end, and removes all with tombstones.
func (f *fixture) buriesEach() map[batch.ID]batch.State {
	f.Helper()
	f.add(bt("s", "refused"), bt("s", "cancelled"), bt("s", "committed"), bt("s", "invalid"))
	f.take("refused", "committed", "invalid")
	f.each(f.submitted, store.Refused, "refused")
	f.each(f.submitted, store.Accepted, "committed", "invalid")
	f.each(f.monitored, store.IsCommitted, "committed")
	o := f.monitored("invalid", store.IsInvalid)
	o.Settle = 0
	f.record(o)
	ends := map[batch.ID]batch.State{"refused": batch.Rejected, "committed": batch.Committed, "invalid": batch.Invalid}
	if f.has(store.CanOperate) {
		require.NoError(f, f.cancel("cancelled", "not now"))
		ends["cancelled"] = batch.Rejected
	}
	f.pass(1)
	require.Equal(f, len(ends), f.prune(0, true))
	return ends
}

func tombCommitted(f *fixture) {
	f.buriesEach()
	b := bt("s", "committed")
	f.add(b, bt("s", "new"), b)
	r := must(f.st.Get(f.ctx, b.Key()))(f)
	f.remains(r)
	assert.Equal(f, batch.Committed, r.State)
	assert.True(f, r.Final())
	assert.False(f, r.PrunedAt.IsZero())
	assert.Nil(f, r.Error)
	final, missing := f.finals(b.Key(), bt("t", "committed").Key())
	assert.Equal(f, []batch.ID{"committed"}, final)
	assert.Equal(f, []batch.Key{bt("t", "committed").Key()}, missing)
	assert.Equal(f, []batch.ID{"new"}, laneIDs(f.view("s", 9)))
}

func tombEnded(f *fixture) {
	for id, state := range f.buriesEach() {
		if state == batch.Committed {
			continue
		}
		b := bt("s", id)
		r := f.refuses(bt("s", "new"), b, bt("s", "newer"))
		f.absent(bt("s", "new"), bt("s", "newer"))
		assert.Equal(f, b.Key(), r.Key)
		assert.Equal(f, state, r.State)
		got, err := f.st.Get(f.ctx, b.Key())
		require.NoError(f, err)
		f.remains(got)
		f.finals(b.Key())
		if f.has(store.CanOperate) {
			_, err = f.st.Requeue(f.ctx, got, store.Requeue{}, by("once more"))
			require.ErrorIs(f, err, batch.ErrNotFound, "nobody acts on what is removed")
		}
		other := b
		other.Payload = []byte("other")
		require.ErrorIs(f, f.st.Add(f.ctx, other), batch.ErrConflict)
		require.ErrorIs(f, f.st.Add(f.ctx, bt("t", id)), batch.ErrConflict)
	}
	if _, err := f.st.Get(f.ctx, bt("s", "cancelled").Key()); f.has(store.CanOperate) {
		require.NoError(f, err)
		assert.Equal(f, batch.KindCancelled, f.tombs["cancelled"].remains.Error.Kind)
	}
	assert.NotContains(f, laneIDs(f.view("s", 9)), batch.ID("new"))
}

func findRemoved(f *fixture) {
	f.add(ch("s", "a", "paid", "p"), ch("s", "b", "refused", "q"))
	f.take("a", "b")
	f.each(f.submitted, store.Accepted, "a")
	f.each(f.monitored, store.IsCommitted, "a")
	f.each(f.submitted, store.Refused, "b")
	f.pass(1)
	require.Equal(f, 2, f.prune(0, true))
	for id, change := range map[batch.ID]string{"a": "paid", "b": "refused"} {
		for _, q := range []store.FindQuery{
			{ID: id}, {ID: id, Begins: true}, {DataChangeID: change}, {DataChangeID: change[:3], Begins: true}, {Service: service("s"), DataChangeID: change},
		} {
			assert.Equal(f, []batch.ID{id}, f.found(q), "%+v", q)
		}
		for _, q := range []store.FindQuery{{ID: id + "2"}, {Service: service("t"), DataChangeID: change}, {DataChangeID: string(id)}} {
			assert.Empty(f, f.found(q), "%+v", q)
		}
	}
	f.add(ch("s", "ax", "", "r"))
	assert.Equal(f, []batch.ID{"ax"}, f.found(store.FindQuery{ID: "ax"}))
	assert.Equal(f, []batch.ID{"a", "ax"}, f.found(store.FindQuery{ID: "a", Begins: true}))
}

func tombChange(f *fixture) {
	f.add(ch("s", "a", "paid", "p"), ch("s", "b", "refused", "q"))
	f.take("a", "b")
	f.each(f.submitted, store.Accepted, "a")
	f.each(f.monitored, store.IsCommitted, "a")
	f.each(f.submitted, store.Refused, "b")
	f.pass(1)
	require.Equal(f, 2, f.prune(0, true))
	f.add(ch("s", "a2", "paid", "p"), ch("s", "new", "", "r"), ch("s", "a3", "paid", "p"))
	f.absent(ch("s", "a2", "paid", "p"), ch("s", "a3", "paid", "p"))
	assert.Equal(f, batch.ID("b"), f.refuses(ch("s", "b2", "refused", "q"), ch("s", "newer", "", "r")).ID)
	f.changeConflict(ch("s", "a4", "paid", "other"))
	f.changeConflict(ch("s", "b4", "refused", "other"))
	f.add(ch("t", "a5", "paid", "other"), ch("s", "a6", "PAID", "other"))
	assert.ElementsMatch(f, []batch.ID{"new", "a5", "a6"}, f.stored())
}

func tombStored(f *fixture) {
	f.add(ch("s", "a", "", "p"))
	f.take("a")
	f.each(f.submitted, store.Refused, "a")
	f.pass(1)
	require.Equal(f, 1, f.prune(0, true))
	f.add(ch("s", "b", "key", "p"), ch("s", "a", "key", "p")) // a is known as b, by this call
	f.add(ch("s", "a", "key", "p"))
	f.refuses(ch("s", "a", "", "p"))
	require.ErrorIs(f, f.st.Add(f.ctx, ch("s", "a", "key", "q")), batch.ErrConflict)
	assert.Equal(f, []batch.ID{"b"}, f.stored())
}

func tombNone(f *fixture) {
	f.add(ch("s", "a", "key", "p"))
	f.take("a")
	f.each(f.submitted, store.Refused, "a")
	f.pass(1)
	require.Equal(f, 1, f.prune(0, false))
	f.absent(ch("s", "a", "key", "p"))
	f.add(ch("s", "a", "key", "p"))
	assert.Equal(f, batch.Queued, f.get("a").State)
}
