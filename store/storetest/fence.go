package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// fenceTests show that an operation applies to the record that the person saw, or not at all.
func fenceTests() []test {
	return []test{
		{name: "a decision about one attempt is none about the next", run: testFenceDecide},
		{name: "what has moved on since is left as it is", run: testFenceAll},
		{name: "to look is not to move", run: testFenceLook},
		{name: "a batch that was added again is another", run: testFenceAgain},
		{name: "nobody has seen a record without a version", run: testFenceNone},
		{name: "a pause that nobody saw is not ended", run: testFencePause},
		{name: "a halt that nobody saw is not released", run: testFenceHalt},
		{name: "of those who saw the same, one ends it", run: testFenceControlRace},
	}
}

// readRecord returns the record of a batch, as a person sees it.
func (f *fixture) readRecord(id batch.ID) batch.Record {
	f.Helper()
	return f.get(id)
}

// requireMovedOn checks that an operation was refused, and that the error has the present record.
func (f *fixture) requireMovedOn(err error, now batch.Record) {
	f.Helper()
	require.ErrorIs(f, err, batch.ErrMovedOn)
	require.NotErrorIs(f, err, batch.ErrNotAllowed)
	require.NotErrorIs(f, err, batch.ErrInDoubt)
	var movedOnErr *batch.MovedOnError
	require.ErrorAs(f, err, &movedOnErr)
	assert.Equal(f, now, withNearTimesOf(f, now, movedOnErr.Now))
}

func testFenceDecide(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	first := f.readRecord("a") // the person asks the ledger, which does not have the batch
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	second := f.readRecord("a")
	require.Equal(f, first.State, second.State, "it looks the same")
	for _, ruling := range batch.Rulings() {
		_, err := f.store.Decide(f.ctx, first, ruling, byWithReason("it is not there"))
		f.requireMovedOn(err, f.get("a"))
	}
	assert.Empty(f, f.history("a"))
	require.NoError(f, f.decide("a", batch.NotExecutedSendAgain, "looked again"))
	_, err := f.store.Decide(f.ctx, second, batch.WasCommitted, byWithReason("another person")) // the other person saw the same record
	f.requireMovedOn(err, f.get("a"))
}

// testFenceAll: in every standing, whether the operation is allowed there or not, an older version
// and a future version are refused in the same way.
func testFenceAll(f *fixture) {
	for name, id := range f.makeOneOfEach() {
		now := f.get(id)
		for _, version := range []int64{now.Version - 1, now.Version + 1} {
			if version < 1 {
				continue
			}
			seen := batch.Record{Key: now.Key, Version: version}
			for what, do := range map[string]func() (batch.Record, error){
				"cancel":  func() (batch.Record, error) { return f.store.Cancel(f.ctx, seen, byWithReason("")) },
				"requeue": func() (batch.Record, error) { return f.store.Requeue(f.ctx, seen, store.Requeue{}, byWithReason("")) },
				"decide": func() (batch.Record, error) {
					return f.store.Decide(f.ctx, seen, batch.NotExecutedSendAgain, byWithReason(""))
				},
				"withdraw": func() (batch.Record, error) { return f.store.Withdraw(f.ctx, seen, byWithReason("")) },
				"acquit":   func() (batch.Record, error) { return f.store.Acquit(f.ctx, seen, byWithReason("")) },
			} {
				_, err := do()
				assert.ErrorIs(f, err, batch.ErrMovedOn, "%s, %s", name, what)
				f.requireMovedOn(err, now)
			}
		}
		f.get(id)
		f.history(id)
	}
}

// testFenceLook: the monitor's reads of a batch (Pending, Checked) do not outdate the record that
// a person saw.
func testFenceLook(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.passUnits(1)
	seen := f.readRecord("a")
	f.pending(1, f.units(0.5))
	f.setNextCheck(f.units(1.5), "a")
	f.passUnits(2)
	f.pending(1, f.units(0.5))
	assert.Equal(f, batch.Committed, must(f.store.Decide(f.ctx, seen, batch.WasCommitted, byWithReason("it is there")))(f).State)
}

func testFenceAgain(f *fixture) {
	f.add(newBatch("s", "a"))
	seen := f.readRecord("a")
	require.NoError(f, f.cancel("a", "not wanted"))
	f.passUnits(1)
	require.Equal(f, 1, f.prune(f.units(0.5), false))
	f.add(newBatch("s", "a"))
	now := f.readRecord("a")
	require.Equal(f, seen.Version, now.Version)
	_, err := f.store.Cancel(f.ctx, seen, byWithReason("not wanted"))
	f.requireMovedOn(err, now)
	assert.Contains(f, err.Error(), "added again")
	f.get("a")
	_, err = f.store.Cancel(f.ctx, now, byWithReason("not wanted"))
	require.NoError(f, err)
}

func testFenceNone(f *fixture) {
	f.add(newBatch("s", "a"))
	for _, seen := range []batch.Record{{Key: newBatch("s", "a").Key()}, {Key: newBatch("s", "a").Key(), Version: -1}, {}} {
		_, err := f.store.Cancel(f.ctx, seen, byWithReason(""))
		var inputErr *batch.InputError
		require.ErrorAs(f, err, &inputErr)
		assert.Equal(f, "Record.Version", inputErr.Field)
	}
	f.get("a")
}

// readControl returns a control, as a person sees it.
func (f *fixture) readControl(scope batch.Scope) batch.Control {
	f.Helper()
	f.endWithout(store.CanControl)
	f.requireSameControl(scope)
	c := must(f.store.Control(f.ctx, scope))(f)
	return c
}

// requireSteerMoved steers a control that has changed since it was seen, and checks that the error
// has the present control.
func (f *fixture) requireSteerMoved(seen batch.Control, action batch.Action) {
	f.Helper()
	_, changed, err := f.store.Steer(f.ctx, store.Steering{
		Scope: seen.Scope, Action: action, Policy: batch.PolicyQuarantine, By: byWithReason("as it was seen"), Seen: seen.Version,
	})
	var moved *batch.MovedOnError
	require.ErrorAs(f, err, &moved, "%s of %s", action, seen.Scope)
	require.ErrorIs(f, err, batch.ErrMovedOn)
	assert.False(f, changed)
	assert.Equal(f, seen.Version, moved.Seen)
	assert.Equal(f, f.readControl(seen.Scope), moved.Control)
}

func testFencePause(f *fixture) {
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s"), batch.Only("")} {
		never := f.readControl(scope)
		f.pause(scope)
		first := f.readControl(scope)
		f.requireSteerMoved(never, batch.ActionResume)
		f.resume(scope)
		nothing := f.readControl(scope)
		require.False(f, nothing.InEffect())
		f.requireSteerMoved(first, batch.ActionResume)
		f.pause(scope) // with another reason
		f.requireSteerMoved(first, batch.ActionResume)
		f.requireSteerMoved(nothing, batch.ActionResume)
		assert.True(f, f.readControl(scope).Closed())
		if !scope.All {
			f.requireSteerMoved(first, batch.ActionSetPolicy)
			f.setPolicy(scope.Service, batch.PolicyHalt)
			paused := f.readControl(scope)
			f.setPolicy(scope.Service, batch.PolicyContinue)
			f.requireSteerMoved(paused, batch.ActionSetPolicy)
		}
		// A pause needs no version, and changes nothing if the scope is paused already.
		before := f.readControl(scope)
		_, changed := must2(f.store.Steer(f.ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: byWithReason("at once"), Seen: 1}))(f)
		assert.False(f, changed)
		assert.Equal(f, before, f.readControl(scope))
		f.resume(scope)
	}
}

func testFenceHalt(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	open := f.readControl(batch.Only("s"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	first := f.readControl(batch.Only("s"))
	f.requireSteerMoved(open, batch.ActionSetPolicy)
	f.requireSteerMoved(open, batch.ActionRelease)
	f.release("s")
	f.claimExactly("b")
	f.refuseClaimed("b", batch.PolicyHalt)
	f.requireSteerMoved(first, batch.ActionRelease)
	assert.Equal(f, batch.ID("b"), f.readControl(batch.Only("s")).HaltedBy, "nobody has looked at that")
	f.release("s")
}

func testFenceControlRace(f *fixture) {
	for range 10 {
		f.pause(batch.Only("s"))
		seen := f.readControl(batch.Only("s"))
		st := store.Steering{Scope: seen.Scope, Action: batch.ActionResume, By: byWithReason(""), Seen: seen.Version}
		resume := func() error { _, _, err := f.store.Steer(f.ctx, st); return err }
		done := 0
		for _, err := range runAtOnce(resume, resume, resume, resume) {
			if err == nil {
				done++
				continue
			}
			require.ErrorIs(f, err, batch.ErrMovedOn)
		}
		require.Equal(f, 1, done)
		c, err := f.store.Control(f.ctx, seen.Scope)
		require.NoError(f, err)
		require.False(f, c.Closed())
		// The model is changed, too: it was resumed once.
		st.Seen = f.control(seen.Scope).Version
		want, act, _, err := st.Apply(f.control(seen.Scope), f.now())
		require.NoError(f, err)
		f.controls[seen.Scope] = want
		f.laneActs[seen.Scope] = store.KeepAct(f.laneActs[seen.Scope], act)
		f.requireSameControl(seen.Scope)
	}
}
