package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// byWithReason returns the author of the acts in this suite, with a reason.
func byWithReason(reason string) batch.By { return batch.By{Actor: "somebody", Reason: reason} }

func (f *fixture) cancel(id batch.ID, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionCancel, By: byWithReason(reason)},
		func(seen batch.Record) (batch.Record, error) {
			return f.store.Cancel(f.ctx, seen, byWithReason(reason))
		},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, reason) })
}

// requeue requeues a batch.
func (f *fixture) requeue(id batch.ID, quiet time.Duration) error {
	f.Helper()
	q := store.Requeue{Quiet: quiet}
	err := f.operate(id, batch.Act{Action: batch.ActionRequeue, By: byWithReason("once more")},
		func(seen batch.Record) (batch.Record, error) {
			return f.store.Requeue(f.ctx, seen, q, byWithReason("once more"))
		},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
	f.batches[id].ref.Row = 0 // the store may have given the batch another number
	return err
}

func (f *fixture) decide(id batch.ID, ruling batch.Ruling, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionDecide, By: byWithReason(reason)},
		func(seen batch.Record) (batch.Record, error) {
			return f.store.Decide(f.ctx, seen, ruling, byWithReason(reason))
		},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, ruling, reason) })
}

func (f *fixture) withdraw(id batch.ID) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionWithdraw, By: byWithReason("not any more")},
		func(seen batch.Record) (batch.Record, error) {
			return f.store.Withdraw(f.ctx, seen, byWithReason("not any more"))
		},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Withdraw(now) })
}

func (f *fixture) acquit(id batch.ID) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionAcquit, By: byWithReason("seen")},
		func(seen batch.Record) (batch.Record, error) {
			return f.store.Acquit(f.ctx, seen, byWithReason("seen"))
		},
		func(r store.Row, _ time.Time) (store.Row, error) { return r.Acquit() })
}

// operate does a person's act in the store and the model, and compares the results. It returns the
// store's error.
func (f *fixture) operate(
	id batch.ID, asked batch.Act, do func(batch.Record) (batch.Record, error), rule func(store.Row, time.Time) (store.Row, error),
) error {
	f.Helper()
	f.endWithout(store.CanOperate)
	s := f.batches[id]
	now := f.now()
	next, want := rule(s.row, now)
	// Key and version are all that a person's record must have.
	rec, err := do(batch.Record{Key: s.batch.Key(), Version: s.row.Version})
	f.requireSameError(want, err)
	if err == nil {
		s.acts = store.KeepAct(s.acts, store.BatchAct(asked, s.batch.Key(), s.row, next, now))
		s.row = next
		f.requireSameRecord(s, rec)
	}
	f.get(id)
	f.history(id)
	return err
}

// steer changes a control, and compares it with the model.
func (f *fixture) steer(st store.Steering) batch.Control {
	f.Helper()
	f.endWithout(store.CanControl)
	st.By = byWithReason("why " + string(st.Action))
	now := f.now()
	model := st
	model.Seen = f.control(st.Scope).Version
	want, act, changes, err := model.Apply(f.control(st.Scope), now)
	require.NoError(f, err)
	seen, err := f.store.Control(f.ctx, st.Scope)
	require.NoError(f, err)
	st.Seen = seen.Version
	got, changed, err := f.store.Steer(f.ctx, st)
	require.NoError(f, err)
	require.Equal(f, changes, changed, "%s of %s", st.Action, st.Scope)
	f.controls[st.Scope] = want
	if changed {
		f.laneActs[st.Scope] = store.KeepAct(f.laneActs[st.Scope], act)
	}
	f.requireSameControlAs(want, got)
	f.requireSameControl(st.Scope)
	return got
}

func (f *fixture) pause(scope batch.Scope) {
	f.Helper()
	f.steer(store.Steering{Scope: scope, Action: batch.ActionPause})
}

func (f *fixture) resume(scope batch.Scope) {
	f.Helper()
	f.steer(store.Steering{Scope: scope, Action: batch.ActionResume})
}

func (f *fixture) release(service batch.ServiceID) {
	f.Helper()
	f.steer(store.Steering{Scope: batch.Only(service), Action: batch.ActionRelease})
}

func (f *fixture) setPolicy(service batch.ServiceID, p batch.Policy) {
	f.Helper()
	f.steer(store.Steering{Scope: batch.Only(service), Action: batch.ActionSetPolicy, Policy: p})
}

// control returns a control of the model.
func (f *fixture) control(scope batch.Scope) batch.Control {
	c := f.controls[scope]
	c.Scope = scope
	return c
}

// isClosed reports whether a control keeps the lane's batches from leaving.
func (f *fixture) isClosed(service batch.ServiceID) bool {
	return f.control(batch.Everything()).Closed() || f.control(batch.Only(service)).Closed()
}

// requireSameControlAs compares a control with the model. The versions of the two need not be
// equal: the store's must differ after each change, and be 0 before the first.
func (f *fixture) requireSameControlAs(want, got batch.Control) {
	f.Helper()
	seen := seenVersion{model: want.Version, version: got.Version}
	got.Version = want.Version
	require.Equal(f, want, withNearTimesOf(f, want, got))
	require.Equal(f, seen.model > 0, seen.version > 0, "version %d", seen.version)
	for _, s := range f.versions[want.Scope] {
		require.Equal(f, s.model == seen.model, s.version == seen.version, "version %d, after %d", seen.version, s.version)
	}
	if !slices.Contains(f.versions[want.Scope], seen) {
		f.versions[want.Scope] = append(f.versions[want.Scope], seen)
	}
}

// seenVersion is a version of a control in the store, and the model's version at that time.
type seenVersion struct{ model, version int64 }

// requireSameControl compares a control and its history with the model.
func (f *fixture) requireSameControl(scope batch.Scope) {
	f.Helper()
	want := f.control(scope)
	f.requireSameControlAs(want, must(f.store.Control(f.ctx, scope))(f))
	f.requireSameActs(f.laneActs[scope], must(f.store.LaneHistory(f.ctx, scope))(f))
}

// history returns the acts on a batch. If the store has a history, they are compared with the
// model.
func (f *fixture) history(id batch.ID) []batch.Act {
	f.Helper()
	s := f.batches[id]
	if !f.hasAbilities(store.CanInspect) {
		return s.acts
	}
	got := must(f.store.History(f.ctx, s.batch.Key()))(f)
	f.requireSameActs(s.acts, got)
	return got
}

// attempts returns the reports of a batch, after comparing them with the model.
func (f *fixture) attempts(id batch.ID) []batch.Report {
	f.Helper()
	f.endWithout(store.CanInspect)
	s := f.batches[id]
	got := must(f.store.Attempts(f.ctx, s.batch.Key()))(f)
	require.Len(f, got, len(s.reports), "reports of %s", id)
	for i, w := range s.reports {
		g := got[i]
		require.Equal(f, w.Took, g.Took)
		require.Equal(f, w, withNearTimesOf(f, w, g), "report of %s", id)
	}
	return got
}

// look returns a batch and its lane, after comparing them with the model.
func (f *fixture) look(id batch.ID, window int) store.Look {
	f.Helper()
	f.endWithout(store.CanInspect)
	s := f.batches[id]
	got := must(f.store.Look(f.ctx, s.batch.Key(), window))(f)
	require.True(f, f.isNear(f.now(), got.At), "%s", got.At)
	require.Equal(f, time.UTC, got.At.Location())
	require.Equal(f, s.batch.Key(), got.Ref.Key)
	f.requireSameRecord(s, got.Record)
	f.requireSameRow(s.row, got.Row)
	require.Equal(f, s.batch.Budget, got.Budget)
	var want []store.LaneRow
	if !s.row.Final() {
		want = f.window(s.batch.Service, max(1, window))
	}
	f.requireSameLane(want, got.Lane)
	for _, c := range []batch.Control{got.Everything, got.Service} {
		f.requireSameControlAs(f.control(c.Scope), c)
	}
	require.Equal(f, []batch.Scope{batch.Everything(), batch.Only(s.batch.Service)}, []batch.Scope{got.Everything.Scope, got.Service.Scope})
	return got
}

// inspect compares everything that the methods of CanInspect return about a batch, if the store
// has them.
func (f *fixture) inspect(id batch.ID, window int) {
	f.Helper()
	if f.hasAbilities(store.CanInspect) {
		f.history(id)
		f.attempts(id)
		f.look(id, window)
	}
}

// requireSameLane compares the rows of a lane.
func (f *fixture) requireSameLane(want, got []store.LaneRow) {
	f.Helper()
	require.Len(f, got, len(want))
	for i, w := range want {
		g := got[i]
		require.Equal(f, w.Key, g.Key)
		w.Row.Receipts, g.Row.Receipts = nil, nil // a claim does not need receipts
		f.requireSameRow(w.Row, g.Row)
		require.Equal(f, w.Budget, g.Budget)
		require.True(f, areWaitingEqual(batch.LaneBatch{Footprint: w.Footprint}, batch.LaneBatch{Footprint: g.Footprint}))
	}
}
