package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// What a person does is done to what the person saw, or not at all.
func fenceTests() []test {
	return []test{
		{name: "a decision about one attempt is none about the next", run: fenceDecide},
		{name: "what has moved on since is left as it is", run: fenceAll},
		{name: "to look is not to move", run: fenceLook},
		{name: "nobody has seen a record without a version", run: fenceNone},
	}
}

// see is what a person who looks at a batch sees of it.
func (f *fixture) see(id batch.ID) batch.Record {
	f.Helper()
	return f.get(id)
}

// movedOn checks that an operation was refused, with the record as it is now.
func (f *fixture) movedOn(err error, now batch.Record) {
	f.Helper()
	require.ErrorIs(f, err, batch.ErrMovedOn)
	require.NotErrorIs(f, err, batch.ErrNotAllowed)
	require.NotErrorIs(f, err, batch.ErrInDoubt)
	var moved *batch.MovedOnError
	require.ErrorAs(f, err, &moved)
	assert.Equal(f, now, like(f, now, moved.Now))
}

func fenceDecide(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Doubtful, "a")
	first := f.see("a") // and looks at the ledger, where it is not
	f.each(f.monitored, store.NoTrace, "a")
	f.take("a")
	f.each(f.submitted, store.Doubtful, "a")
	second := f.see("a")
	require.Equal(f, first.State, second.State, "it looks the same")
	for _, to := range []batch.State{batch.Unknown, batch.Rejected, batch.Committed} {
		_, err := f.st.Decide(f.ctx, first, to, by("it is not there"))
		f.movedOn(err, f.get("a"))
	}
	assert.Empty(f, f.history("a"))
	require.NoError(f, f.decide("a", batch.Unknown, "looked again"))
	_, err := f.st.Decide(f.ctx, second, batch.Committed, by("another person")) // who saw the same
	f.movedOn(err, f.get("a"))
}

// fenceAll: from every standing, whether the operation would be allowed there or not, an
// older version and one that is not reached yet are refused alike.
func fenceAll(f *fixture) {
	for name, id := range f.oneOfEach() {
		now := f.get(id)
		for _, version := range []int64{now.Version - 1, now.Version + 1} {
			if version < 1 {
				continue
			}
			seen := batch.Record{Key: now.Key, Version: version}
			for what, do := range map[string]func() (batch.Record, error){
				"cancel":  func() (batch.Record, error) { return f.st.Cancel(f.ctx, seen, by("")) },
				"requeue": func() (batch.Record, error) { return f.st.Requeue(f.ctx, seen, store.Requeue{}, by("")) },
				"at end":  func() (batch.Record, error) { return f.st.Requeue(f.ctx, seen, store.Requeue{AtEnd: true}, by("")) },
				"decide":  func() (batch.Record, error) { return f.st.Decide(f.ctx, seen, batch.Unknown, by("")) },
				"acquit":  func() (batch.Record, error) { return f.st.Acquit(f.ctx, seen, by("")) },
			} {
				_, err := do()
				assert.ErrorIs(f, err, batch.ErrMovedOn, "%s, %s", name, what)
				f.movedOn(err, now)
			}
		}
		f.get(id)
		f.history(id)
	}
}

// fenceLook: that a monitor asks about a batch, and reports again what is known of it, is
// no reason to look again.
func fenceLook(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Doubtful, "a")
	f.pass(1)
	seen := f.see("a")
	f.pending(1, f.u(0.5))
	f.checked(f.u(1.5), "a")
	f.pass(2)
	f.pending(1, f.u(0.5))
	rec, err := f.st.Decide(f.ctx, seen, batch.Committed, by("it is there"))
	require.NoError(f, err)
	assert.Equal(f, batch.Committed, rec.State)
}

func fenceNone(f *fixture) {
	f.add(bt("s", "a"))
	for _, seen := range []batch.Record{{Key: bt("s", "a").Key()}, {Key: bt("s", "a").Key(), Version: -1}, {}} {
		_, err := f.st.Cancel(f.ctx, seen, by(""))
		var in *batch.InputError
		require.ErrorAs(f, err, &in)
		assert.Equal(f, "Record.Version", in.Field)
	}
	f.get("a")
}
