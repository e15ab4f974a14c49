package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// The methods of this file do the same to the store and to the model, and compare.

// add stores batches that must be accepted.
func (f *fixture) add(bs ...batch.Batch) {
	f.Helper()
	now := f.now()
	require.NoError(f, f.st.Add(f.ctx, bs...))
	f.added(now, bs...)
}

// added takes batches into the model that the store has accepted at now.
func (f *fixture) added(now time.Time, bs ...batch.Batch) {
	f.Helper()
	last := map[batch.ServiceID]time.Time{}
	for _, s := range f.rows {
		if s.created.After(last[s.b.Service]) {
			last[s.b.Service] = s.created
		}
	}
	for i, b := range bs {
		if _, pruned := f.tombs[b.ID]; pruned || f.rows[b.ID] != nil {
			continue
		}
		if f.changed(b) != nil || slices.ContainsFunc(bs[:i], func(o batch.Batch) bool {
			return b.DataChangeID != "" && o.Service == b.Service && o.DataChangeID == b.DataChangeID
		}) {
			f.absent(b)
			continue
		}
		r, err := f.st.Get(f.ctx, b.Key())
		require.NoError(f, err)
		require.True(f, r.CreatedAt.After(last[b.Service]), "%s is not behind what its lane has", b.Key())
		last[b.Service] = r.CreatedAt
		require.False(f, r.CreatedAt.Before(now.Add(-f.unit/8)), "%s is created at %s", b.Key(), r.CreatedAt)
		require.Equal(f, r.CreatedAt.Truncate(time.Microsecond), r.CreatedAt, "to the microsecond, in UTC")
		s := &shadow{b: b, created: r.CreatedAt, ref: store.Ref{Key: b.Key()}, row: store.NewRow()}
		f.rows[b.ID] = s
		f.sameRecord(s, r)
	}
}

// changed is what the model holds of a batch's DataChangeID.
func (f *fixture) changed(b batch.Batch) *shadow {
	for _, s := range f.rows {
		if b.DataChangeID != "" && s.b.DataChangeID == b.DataChangeID && s.b.Service == b.Service {
			return s
		}
	}
	return nil
}

// inOrder returns what the model holds and keep selects, by order key.
func (f *fixture) inOrder(keep func(*shadow) bool) []*shadow {
	var found []*shadow
	for _, s := range f.rows {
		if keep(s) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *shadow) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.b.ID, b.b.ID))
	})
	return found
}

// window is what a claim must see of a lane.
func (f *fixture) window(service batch.ServiceID, n int) []store.LaneRow {
	var attempted, queued []store.LaneRow
	for _, s := range f.inOrder(func(s *shadow) bool { return s.b.Service == service && !s.row.Final() }) {
		r := store.LaneRow{Ref: s.ref, Row: s.row, Budget: s.b.Budget, Footprint: s.b.Footprint}
		if s.row.Attempted() {
			attempted = append(attempted, r)
		} else if len(queued) < n {
			queued = append(queued, r)
		}
	}
	return append(attempted, queued...)
}

// claim claims, and compares the lanes shown and everything returned.
func (f *fixture) claim(q store.ClaimQuery, choose store.Choose) store.Claimed {
	f.Helper()
	var shown, want []batch.Lane
	now := f.now()
	got, err := f.st.Claim(f.ctx, q, func(l batch.Lane) []batch.Run {
		if len(l.Batches) > 0 {
			shown = append(shown, l)
		}
		return choose(l)
	})
	require.NoError(f, err)
	require.Empty(f, got.Locked, "nobody else claims")

	var model store.Claimed
	left := q.Limit
	for _, service := range q.Lanes {
		if left == 0 {
			model.Left = append(model.Left, service)
			continue
		}
		rows := f.window(service, q.Window)
		if q.Wants != nil {
			n := 0
			for n < len(rows) && rows[n].Row.Attempted() {
				n++
			}
			rows = rows[:min(len(rows), n+store.Wanted(service, rows[:n], now, q))]
		}
		if len(rows) == 0 || f.closed(service) {
			continue
		}
		plan := store.PlanLane(service, rows, now, q, left, func(l batch.Lane) []batch.Run {
			want = append(want, l)
			return choose(l)
		})
		left -= plan.Claims
		for _, r := range plan.Changed {
			f.rows[r.Key.ID].row = r.Row
		}
		model.Runs = append(model.Runs, plan.Runs...)
		if plan.More {
			model.Left = append(model.Left, service)
		}
		if plan.NextReady > 0 && (model.NextReady == 0 || plan.NextReady < model.NextReady) {
			model.NextReady = plan.NextReady
		}
	}
	f.sameLanes(want, shown)
	f.sameClaimed(model, got)
	for _, run := range got.Runs {
		for _, c := range run.Batches {
			f.rows[c.Key.ID].ref, f.rows[c.Key.ID].was = c.Ref, c.Was
		}
	}
	return got
}

// take claims exactly these batches, under a rule that a resend is always harmless.
func (f *fixture) take(want ...batch.ID) []store.Claim {
	f.Helper()
	return f.takeBy(resend(f.u(1000.5), 0), want...)
}

func (f *fixture) takeBy(rule func(batch.ServiceID) store.Resend, want ...batch.ID) []store.Claim {
	f.Helper()
	var lanes []batch.ServiceID
	for _, id := range want {
		if s := f.rows[id].b.Service; !slices.Contains(lanes, s) {
			lanes = append(lanes, s)
		}
	}
	got := f.claim(store.ClaimQuery{Lanes: lanes, Limit: len(want), Window: 2000, TTL: f.u(1.5), Resend: rule}, the(want...))
	byID := map[batch.ID]store.Claim{}
	for _, run := range got.Runs {
		for _, c := range run.Batches {
			byID[c.Key.ID] = c
		}
	}
	claims := make([]store.Claim, len(want))
	for i, id := range want {
		c, ok := byID[id]
		require.True(f, ok, "%s is not claimed", id)
		claims[i] = c
	}
	return claims
}

// submitted is an outcome of the batch's present version by the submitter.
func (f *fixture) submitted(id batch.ID, finding store.Finding) store.Outcome {
	s := f.rows[id]
	was := s.was
	if s.told++; s.told%3 == 2 || was == nil || was.Version != s.row.Version {
		was = nil // often enough for both ways
	}
	return store.Outcome{
		Ref: s.ref, Version: s.row.Version, Was: was, By: batch.BySubmitter, Attempt: s.row.Attempt, Finding: finding,
		Back: batch.Queued, Delay: f.u(2.5), Check: f.u(0.5), Settle: f.u(5.5),
	}
}

// monitored is one by the monitor, about the batch as a whole.
func (f *fixture) monitored(id batch.ID, finding store.Finding) store.Outcome {
	o := f.submitted(id, finding)
	o.By, o.Attempt = batch.ByMonitor, 0
	return o
}

// record records, and compares what became of each outcome.
func (f *fixture) record(outcomes ...store.Outcome) []store.Applied {
	f.Helper()
	now := f.now()
	got, err := f.st.Record(f.ctx, outcomes)
	require.NoError(f, err)
	require.Len(f, got, len(outcomes))
	for i, o := range outcomes {
		want := store.Applied{Ref: o.Ref, Result: store.Gone}
		if s := f.rows[o.Key.ID]; s != nil && s.b.Key() == o.Key {
			want = f.apply(s, o, now)
		}
		f.sameApplied(want, got[i], o)
	}
	return got
}

// apply is what becomes of a batch, and of its lane, by an outcome.
func (f *fixture) apply(s *shadow, o store.Outcome, now time.Time) store.Applied {
	_, a := s.row.Apply(o, now)
	if a.Result != store.Written {
		return a
	}
	scope := batch.Only(s.b.Service)
	a, f.controls[scope] = a.Enforce(f.control(scope), o.Policy, now)
	if r, ok := o.Reported(a, now); ok {
		s.reports = store.KeepReport(s.reports, r)
	}
	s.row = a.Row
	return a
}

// written records outcomes that must all be applied.
func (f *fixture) written(outcomes ...store.Outcome) []store.Applied {
	f.Helper()
	got := f.record(outcomes...)
	for i, a := range got {
		require.Equal(f, store.Written, a.Result, "%s of %s: %v", outcomes[i].Finding, outcomes[i].Key, a.Err)
	}
	return got
}

// each records one finding about several batches.
func (f *fixture) each(by func(batch.ID, store.Finding) store.Outcome, finding store.Finding, about ...batch.ID) {
	f.Helper()
	var os []store.Outcome
	for _, id := range about {
		os = append(os, by(id, finding))
	}
	f.written(os...)
}

// pending asks for what is due, and compares.
func (f *fixture) pending(limit int, lease time.Duration) []store.InFlight {
	f.Helper()
	return f.asked(store.PendingQuery{Limit: limit, Lease: lease})
}

// pendingOf asks for what the monitor owns of these services, and compares.
func (f *fixture) pendingOf(limit int, lease time.Duration, services ...batch.ServiceID) []store.InFlight {
	f.Helper()
	return f.asked(store.PendingQuery{Limit: limit, Lease: lease, Services: append([]batch.ServiceID{}, services...)})
}

func (f *fixture) asked(q store.PendingQuery) []store.InFlight {
	f.Helper()
	f.tick()
	now := f.now()
	limit, lease := q.Limit, q.Lease
	got, err := f.st.Pending(f.ctx, q)
	require.NoError(f, err)
	due := f.inOrder(func(s *shadow) bool {
		if q.Services != nil {
			return s.row.Monitored(now) && slices.Contains(q.Services, s.b.Service)
		}
		return s.row.Monitored(now) && !s.row.NextCheck.After(now)
	})
	slices.SortStableFunc(due, func(a, b *shadow) int { return a.row.AskedAt.Compare(b.row.AskedAt) })
	due = due[:min(limit, len(due))]
	want := make([]store.InFlight, len(due))
	for i, s := range due {
		s.row = s.row.Leased(now, lease)
		want[i] = s.row.InFlight(s.ref, s.b.Budget, now)
	}
	f.sameInFlight(want, got)
	for _, r := range got {
		f.rows[r.Key.ID].ref, f.rows[r.Key.ID].was = r.Ref, r.Was
	}
	return got
}

// checked says when to ask next.
func (f *fixture) checked(in time.Duration, about ...batch.ID) {
	f.Helper()
	now := f.now()
	var due []store.Due
	for _, id := range about {
		s := f.rows[id]
		due = append(due, store.Due{Ref: s.ref, In: in})
		if s.row.Monitored(now) {
			s.row.NextCheck = now.Add(in)
		}
	}
	require.NoError(f, f.st.Checked(f.ctx, due))
}

// by is who does it in this suite, and why.
func by(reason string) batch.By { return batch.By{Actor: "somebody", Reason: reason} }

func (f *fixture) cancel(id batch.ID, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionCancel, By: by(reason)},
		func(k batch.Key) (batch.Record, error) { return f.st.Cancel(f.ctx, k, by(reason)) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, reason) })
}

// requeue puts a batch back into its old place.
func (f *fixture) requeue(id batch.ID, quiet time.Duration) error {
	f.Helper()
	return f.requeueTo(id, store.Requeue{Quiet: quiet})
}

func (f *fixture) requeueTo(id batch.ID, q store.Requeue) error {
	f.Helper()
	err := f.operate(id, batch.Act{Action: batch.ActionRequeue, By: by("once more"), AtEnd: q.AtEnd},
		func(k batch.Key) (batch.Record, error) { return f.st.Requeue(f.ctx, k, q, by("once more")) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
	f.rows[id].ref.Row = 0 // the store may have given it another
	return err
}

func (f *fixture) decide(id batch.ID, to batch.State, reason string) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionDecide, By: by(reason)},
		func(k batch.Key) (batch.Record, error) { return f.st.Decide(f.ctx, k, to, by(reason)) },
		func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, to, reason) })
}

func (f *fixture) acquit(id batch.ID) error {
	f.Helper()
	return f.operate(id, batch.Act{Action: batch.ActionAcquit, By: by("seen")},
		func(k batch.Key) (batch.Record, error) { return f.st.Acquit(f.ctx, k, by("seen")) },
		func(r store.Row, _ time.Time) (store.Row, error) { return r.Acquit() })
}

// operate does what a person asks for, and compares. The error is the store's.
func (f *fixture) operate(
	id batch.ID, asked batch.Act, do func(batch.Key) (batch.Record, error), rule func(store.Row, time.Time) (store.Row, error),
) error {
	f.Helper()
	s := f.rows[id]
	now := f.now()
	next, want := rule(s.row, now)
	rec, err := do(s.b.Key())
	f.sameError(want, err)
	if err == nil {
		s.acts = store.KeepAct(s.acts, store.BatchAct(asked, s.b.Key(), s.row, next, now))
		s.row = next
		if asked.AtEnd {
			last := s.created
			for _, o := range f.rows {
				if o.b.Service == s.b.Service && o.created.After(last) {
					last = o.created
				}
			}
			require.True(f, rec.CreatedAt.After(last), "%s is not behind what its lane has", s.b.Key())
			require.False(f, rec.CreatedAt.Before(now.Add(-f.unit/8)), "%s is put at %s", s.b.Key(), rec.CreatedAt)
			s.created = rec.CreatedAt
		}
		f.sameRecord(s, rec)
	}
	f.get(id)
	f.history(id)
	return err
}

// steer changes a control, and compares.
func (f *fixture) steer(st store.Steering) batch.Control {
	f.Helper()
	st.By = by("why " + string(st.Action))
	now := f.now()
	want, act, changes := st.Apply(f.control(st.Scope), now)
	got, changed, err := f.st.Steer(f.ctx, st)
	require.NoError(f, err)
	require.Equal(f, changes, changed, "%s of %s", st.Action, st.Scope)
	f.controls[st.Scope] = want
	if changed {
		f.steered[st.Scope] = store.KeepAct(f.steered[st.Scope], act)
	}
	require.Equal(f, want, like(f, want, got))
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

// control is the model's.
func (f *fixture) control(scope batch.Scope) batch.Control {
	c := f.controls[scope]
	c.Scope = scope
	return c
}

// closed reports whether nothing may leave a lane.
func (f *fixture) closed(service batch.ServiceID) bool {
	return f.control(batch.Everything()).Closed() || f.control(batch.Only(service)).Closed()
}

// sameControl compares a control and its history.
func (f *fixture) sameControl(scope batch.Scope) {
	f.Helper()
	want := f.control(scope)
	got, err := f.st.Control(f.ctx, scope)
	require.NoError(f, err)
	require.Equal(f, want, like(f, want, got))
	acts, err := f.st.LaneHistory(f.ctx, scope)
	require.NoError(f, err)
	f.sameActs(f.steered[scope], acts)
}

// history returns what was done to a batch, compared with the model.
func (f *fixture) history(id batch.ID) []batch.Act {
	f.Helper()
	s := f.rows[id]
	got, err := f.st.History(f.ctx, s.b.Key())
	require.NoError(f, err)
	f.sameActs(s.acts, got)
	return got
}

// attempts returns the reports of a batch, compared with the model.
func (f *fixture) attempts(id batch.ID) []batch.Report {
	f.Helper()
	s := f.rows[id]
	got, err := f.st.Attempts(f.ctx, s.b.Key())
	require.NoError(f, err)
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
	s := f.rows[id]
	got, err := f.st.Look(f.ctx, s.b.Key(), window)
	require.NoError(f, err)
	require.True(f, f.near(f.now(), got.At), "%s", got.At)
	require.Equal(f, time.UTC, got.At.Location())
	require.Equal(f, s.b.Key(), got.Ref.Key)
	f.sameRecord(s, got.Record)
	f.sameRow(s.row, got.Row)
	require.Equal(f, s.b.Budget, got.Budget)
	var want []store.LaneRow
	if !s.row.Final() {
		want = f.window(s.b.Service, window)
	}
	require.Len(f, got.Lane, len(want), "lane of %s", id)
	for i, w := range want {
		g := got.Lane[i]
		require.Equal(f, w.Key, g.Key)
		w.Row.Receipts, g.Row.Receipts = nil, nil // a claim has no use for them
		f.sameRow(w.Row, g.Row)
		require.Equal(f, w.Budget, g.Budget)
		require.True(f, sameWaiting(batch.Waiting{Footprint: w.Footprint}, batch.Waiting{Footprint: g.Footprint}))
	}
	for _, c := range []batch.Control{got.Everything, got.Service} {
		w := f.control(c.Scope)
		require.Equal(f, w, like(f, w, c))
	}
	require.Equal(f, []batch.Scope{batch.Everything(), batch.Only(s.b.Service)}, []batch.Scope{got.Everything.Scope, got.Service.Scope})
	return got
}
