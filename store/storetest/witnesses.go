package storetest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func witnessTests() []test {
	return []test{
		{name: "what was decided before the doubt began, latest first", run: witnessDecided},
		{name: "only before it in its lane", run: witnessEarlier},
		{name: "not what became final since", run: witnessSince},
		{name: "none without a doubt", run: witnessNoDoubt},
		{name: "within reach", run: witnessReach},
	}
}

// witnesses asks, with the row's number and without, and compares with the model.
func (f *fixture) witnesses(id batch.ID, limit int) []batch.ID {
	f.Helper()
	f.needs(store.CanFindWitnesses)
	s := f.rows[id]
	var want []batch.ID
	if s.row.DoubtAttempt != 0 {
		before := f.inOrder(func(w *shadow) bool {
			return w.b.Service == s.b.Service && (w.created.Before(s.created) || (w.created.Equal(s.created) && w.b.ID < id))
		})
		slices.Reverse(before)
		for _, w := range before[:min(len(before), store.WitnessReach)] {
			if w.row.Final() && w.row.State != batch.Rejected && w.row.FinalAt.Before(s.row.DoubtSince) && len(want) < limit {
				want = append(want, w.b.ID)
			}
		}
	}
	for _, ref := range []store.Ref{s.ref, {Key: s.b.Key()}} {
		got := must(f.st.Witnesses(f.ctx, ref, limit))(f)
		require.Equal(f, append([]batch.ID{}, want...), append([]batch.ID{}, got...), "witnesses of %s", id)
	}
	return want
}

// witnessLane makes a lane whose batches ended in a known way.
func witnessLane(f *fixture, s batch.ServiceID) {
	p := batch.ID(s)
	f.add(bt(s, p+"9"), bt(s, p+"8"), bt(s, p+"7"), bt(s, p+"6"), bt(s, p+"5"), bt(s, p+"4"))
	f.take(p+"9", p+"8", p+"7", p+"6")
	f.each(f.submitted, store.Refused, p+"7")
	f.each(f.submitted, store.Accepted, p+"9", p+"8", p+"6")
	f.each(f.monitored, store.IsCommitted, p+"9", p+"6")
	invalid := f.monitored(p+"8", store.IsInvalid)
	invalid.Settle = 0
	f.written(invalid)
	f.pass(1)
}

func witnessDecided(f *fixture) {
	witnessLane(f, "s")
	witnessLane(f, "t")
	f.take("s4")
	assert.Equal(f, []batch.ID{"s6", "s8", "s9"}, f.witnesses("s4", 10), "a live claim is unresolved, too")
	f.each(f.submitted, store.Doubtful, "s4")
	assert.Equal(f, []batch.ID{"s6", "s8", "s9"}, f.witnesses("s4", 10))
	assert.Equal(f, []batch.ID{"s6", "s8"}, f.witnesses("s4", 2))
	assert.Empty(f, f.witnesses("s4", 0))
	f.each(f.monitored, store.NoTrace, "s4")
	assert.Len(f, f.witnesses("s4", 10), 3)
	for _, ref := range []store.Ref{{Key: batch.Key{Service: "s", ID: "none"}}, {Key: batch.Key{Service: "t", ID: "s4"}}} {
		assert.Empty(f, must(f.st.Witnesses(f.ctx, ref, 9))(f))
	}
}

func witnessEarlier(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "c"))
	f.take("a", "c")
	f.each(f.submitted, store.Accepted, "a", "c")
	f.each(f.monitored, store.IsCommitted, "a", "c")
	f.pass(1)
	f.take("b")
	assert.Equal(f, []batch.ID{"a"}, f.witnesses("b", 9))
}

func witnessSince(f *fixture) {
	f.add(bt("s", "early"), bt("s", "open"), bt("s", "unsettled"), bt("s", "late"), bt("s", "b"))
	f.take("early", "open", "unsettled", "late")
	f.each(f.submitted, store.Accepted, "early", "open", "unsettled", "late")
	f.each(f.monitored, store.IsCommitted, "early")
	f.each(f.monitored, store.IsInvalid, "unsettled")
	f.pass(1)
	f.take("b")
	f.pass(1)
	f.each(f.monitored, store.IsCommitted, "late")
	f.each(f.submitted, store.Doubtful, "b")
	f.pass(1)
	assert.Equal(f, []batch.ID{"early"}, f.witnesses("b", 9))
	f.each(f.monitored, store.NoTrace, "b")
	f.take("b")
	assert.Equal(f, []batch.ID{"early"}, f.witnesses("b", 9), "the first unresolved attempt counts, not the last")
	f.each(f.submitted, store.Doubtful, "b")
	f.each(f.monitored, store.NotCommitted, "b")
	f.pass(1)
	f.take("b")
	assert.Equal(f, []batch.ID{"late", "early"}, f.witnesses("b", 9), "a new doubt")
}

func witnessNoDoubt(f *fixture) {
	witnessLane(f, "s")
	assert.Empty(f, f.witnesses("s5", 9), "never attempted")
	f.take("s5")
	f.each(f.submitted, store.Failed, "s5")
	assert.Empty(f, f.witnesses("s5", 9))
	assert.Empty(f, f.witnesses("s9", 9), "final")
	assert.Empty(f, f.witnesses("s6", 9))
}

func witnessReach(f *fixture) {
	f.committed(bt("s", "far"), bt("s", "near"))
	bs := many("s", "b", store.WitnessReach-1)
	f.add(bs...)
	f.add(bt("s", "last"))
	f.take("last")
	assert.Equal(f, []batch.ID{"near"}, f.witnesses("last", 9))
}
