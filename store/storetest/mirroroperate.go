package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// by returns the author of acts in this suite, with a reason.
func by(reason string) batch.By { return batch.By{Actor: "somebody", Reason: reason} }

func (f *fixture) cancel(id batch.ID, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionCancel, By: by(reason)},
		func(seen batch.Record) (batch.Record, error) { return f.st.Cancel(f.ctx, seen, by(reason)) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, reason) })
}

// requeue puts a batch back into its old place.
func (f *fixture) requeue(id batch.ID, quiet time.Duration) error {
	f.Helper()
	q := store.Requeue{Quiet: quiet}
	err := f.operate(id, batch.Act{Action: batch.ActionRequeue, By: by("once more")},
		func(seen batch.Record) (batch.Record, error) { return f.st.Requeue(f.ctx, seen, q, by("once more")) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
	f.rows[id].ref.Row = 0 // the store may have given it another number
	return err
}

func (f *fixture) decide(id batch.ID, ruling batch.Ruling, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionDecide, By: by(reason)},
		func(seen batch.Record) (batch.Record, error) { return f.st.Decide(f.ctx, seen, ruling, by(reason)) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, ruling, reason) })
}

func (f *fixture) withdraw(id batch.ID) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionWithdraw, By: by("not any more")},
		func(seen batch.Record) (batch.Record, error) { return f.st.Withdraw(f.ctx, seen, by("not any more")) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Withdraw(now) })
}

func (f *fixture) acquit(id batch.ID) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionAcquit, By: by("seen")},
		func(seen batch.Record) (batch.Record, error) { return f.st.Acquit(f.ctx, seen, by("seen")) },
		func(r store.Row, _ time.Time) (store.Row, error) { return r.Acquit() })
}

// operate carries out a person's act, and compares. The error is the store's.
func (f *fixture) operate(
	id batch.ID, asked batch.Act, do func(batch.Record) (batch.Record, error), rule func(store.Row, time.Time) (store.Row, error),
) error {
	f.Helper()
	f.needs(store.CanOperate)
	s := f.rows[id]
	now := f.now()
	next, want := rule(s.row, now)
	// The record of a person who has only the key and a version.
	rec, err := do(batch.Record{Key: s.b.Key(), Version: s.row.Version})
	f.sameError(want, err)
	if err == nil {
		s.acts = store.KeepAct(s.acts, store.BatchAct(asked, s.b.Key(), s.row, next, now))
		s.row = next
		f.sameRecord(s, rec)
	}
	f.get(id)
	f.history(id)
	return err
}

// steer changes a control, and compares.
func (f *fixture) steer(st store.Steering) batch.Control {
	f.Helper()
	f.needs(store.CanControl)
	st.By = by("why " + string(st.Action))
	now := f.now()
	model := st
	model.Seen = f.control(st.Scope).Version
	want, act, changes, err := model.Apply(f.control(st.Scope), now)
	require.NoError(f, err)
	seen, err := f.st.Control(f.ctx, st.Scope)
	require.NoError(f, err)
	st.Seen = seen.Version
	got, changed, err := f.st.Steer(f.ctx, st)
	require.NoError(f, err)
	require.Equal(f, changes, changed, "%s of %s", st.Action, st.Scope)
	f.controls[st.Scope] = want
	if changed {
		f.steered[st.Scope] = store.KeepAct(f.steered[st.Scope], act)
	}
	f.likeControl(want, got)
	f.sameControl(st.Scope)
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

// control returns the model's.
func (f *fixture) control(scope batch.Scope) batch.Control {
	c := f.controls[scope]
	c.Scope = scope
	return c
}

// closed reports whether nothing may leave a lane.
func (f *fixture) closed(service batch.ServiceID) bool {
	return f.control(batch.Everything()).Closed() || f.control(batch.Only(service)).Closed()
}

// likeControl compares a control. Its version differs after each change, and is 0 before the
// first.
func (f *fixture) likeControl(want, got batch.Control) {
	f.Helper()
	seen := seenVersion{model: want.Version, version: got.Version}
	got.Version = want.Version
	require.Equal(f, want, like(f, want, got))
	require.Equal(f, seen.model > 0, seen.version > 0, "version %d", seen.version)
	for _, s := range f.versions[want.Scope] {
		require.Equal(f, s.model == seen.model, s.version == seen.version, "version %d, after %d", seen.version, s.version)
	}
	if !slices.Contains(f.versions[want.Scope], seen) {
		f.versions[want.Scope] = append(f.versions[want.Scope], seen)
	}
}

// seenVersion is a version that a control had, and the model's at that time.
type seenVersion struct{ model, version int64 }

// sameControl compares a control and its history.
func (f *fixture) sameControl(scope batch.Scope) {
	f.Helper()
	want := f.control(scope)
	f.likeControl(want, must(f.st.Control(f.ctx, scope))(f))
	f.sameActs(f.steered[scope], must(f.st.LaneHistory(f.ctx, scope))(f))
}

// history returns the acts on a batch, compared with the model where the store has a history.
func (f *fixture) history(id batch.ID) []batch.Act {
	f.Helper()
	s := f.rows[id]
	if !f.has(store.CanInspect) {
		return s.acts
	}
	got := must(f.st.History(f.ctx, s.b.Key()))(f)
	f.sameActs(s.acts, got)
	return got
}

// attempts returns the reports of a batch, compared with the model.
func (f *fixture) attempts(id batch.ID) []batch.Report {
	f.Helper()
	f.needs(store.CanInspect)
	s := f.rows[id]
	got := must(f.st.Attempts(f.ctx, s.b.Key()))(f)
	require.Len(f, got, len(s.reports), "reports of %s", id)
	for i, w := range s.reports {
		g := got[i]
		require.Equal(f, w.Took, g.Took)
		require.Equal(f, w, like(f, w, g), "report of %s", id)
	}
	return got
}

// look returns a batch and its lane, compared with the model.
func (f *fixture) look(id batch.ID, window int) store.Look {
	f.Helper()
	f.needs(store.CanInspect)
	s := f.rows[id]
	got := must(f.st.Look(f.ctx, s.b.Key(), window))(f)
	require.True(f, f.near(f.now(), got.At), "%s", got.At)
	require.Equal(f, time.UTC, got.At.Location())
	require.Equal(f, s.b.Key(), got.Ref.Key)
	f.sameRecord(s, got.Record)
	f.sameRow(s.row, got.Row)
	require.Equal(f, s.b.Budget, got.Budget)
	var want []store.LaneRow
	if !s.row.Final() {
		want = f.window(s.b.Service, max(1, window))
	}
	f.sameLane(want, got.Lane)
	for _, c := range []batch.Control{got.Everything, got.Service} {
		f.likeControl(f.control(c.Scope), c)
	}
	require.Equal(f, []batch.Scope{batch.Everything(), batch.Only(s.b.Service)}, []batch.Scope{got.Everything.Scope, got.Service.Scope})
	return got
}

// inspected compares all that an Inspector says about a batch, where the store is one.
func (f *fixture) inspected(id batch.ID, window int) {
	f.Helper()
	if f.has(store.CanInspect) {
		f.history(id)
		f.attempts(id)
		f.look(id, window)
	}
}

// sameLane compares rows of a lane.
func (f *fixture) sameLane(want, got []store.LaneRow) {
	f.Helper()
	require.Len(f, got, len(want))
	for i, w := range want {
		g := got[i]
		require.Equal(f, w.Key, g.Key)
		w.Row.Receipts, g.Row.Receipts = nil, nil // a claim has no use for them
		f.sameRow(w.Row, g.Row)
		require.Equal(f, w.Budget, g.Budget)
		require.True(f, sameWaiting(batch.Waiting{Footprint: w.Footprint}, batch.Waiting{Footprint: g.Footprint}))
	}
}
