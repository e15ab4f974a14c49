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
	for _, b := range bs {
		if _, pruned := f.tombs[b.ID]; pruned || f.rows[b.ID] != nil {
			continue
		}
		if f.changed(b) != nil || f.tombOf(b) != nil {
			f.absent(b)
			continue
		}
		r := must(f.st.Get(f.ctx, b.Key()))(f)
		require.True(f, r.CreatedAt.After(last[b.Service]), "%s is not behind what its lane has", b.Key())
		last[b.Service] = r.CreatedAt
		require.False(f, r.CreatedAt.Before(now.Add(-f.unit/8)), "%s is created at %s", b.Key(), r.CreatedAt)
		require.Equal(f, r.CreatedAt.Truncate(time.Microsecond), r.CreatedAt, "to the microsecond, in UTC")
		s := &shadow{b: b, created: r.CreatedAt, ref: store.Ref{Key: b.Key()}, row: store.NewRow()}
		f.rows[b.ID] = s
		f.sameRecord(s, r)
	}
}

// changed returns the model's batch with b's DataChangeID, or nil.
func (f *fixture) changed(b batch.Batch) *shadow {
	for _, s := range f.rows {
		if b.DataChangeID != "" && s.b.DataChangeID == b.DataChangeID && s.b.Service == b.Service {
			return s
		}
	}
	return nil
}

// inOrder returns the model's batches that keep selects, by order key.
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

// window returns the rows that a claim must read of a lane.
func (f *fixture) window(service batch.ServiceID, n int) []store.LaneRow {
	var attempted, queued []store.LaneRow
	for _, s := range f.inOrder(func(s *shadow) bool { return s.b.Service == service && !s.row.Final() }) {
		r := store.LaneRow{Ref: s.whole(), Row: s.row, Budget: s.b.Budget, Footprint: s.b.Footprint, Size: len(s.b.Payload)}
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
	f.payloadsOf(got)

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
		left = model.Add(service, plan, &q, left)
		for _, r := range plan.Changed {
			f.rows[r.Key.ID].row = r.Row
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

// submitted returns an outcome of the batch's present version by the submitter.
func (f *fixture) submitted(id batch.ID, finding store.Finding) store.Outcome {
	s := f.rows[id]
	was := s.was
	if s.passed++; s.passed%3 == 2 || was == nil || was.Version != s.row.Version {
		was = nil // often enough for both ways
	}
	return store.Outcome{
		Ref: s.ref, Version: s.row.Version, Was: was, By: batch.BySubmitter, Attempt: s.row.Attempt, Finding: finding,
		Back: batch.Queued, Delay: f.u(2.5), Check: f.u(0.5), Settle: f.u(5.5),
	}
}

// monitored returns an outcome by the monitor, about the batch as a whole.
func (f *fixture) monitored(id batch.ID, finding store.Finding) store.Outcome {
	o := f.submitted(id, finding)
	if o.By, o.Attempt = batch.ByMonitor, 0; finding == store.IsVoid {
		o.Prepared = f.rows[id].row.Prepared
	}
	return o
}

// record records, and compares the result of each outcome.
func (f *fixture) record(outcomes ...store.Outcome) []store.Applied {
	f.Helper()
	now := f.now()
	got := must(f.st.Record(f.ctx, outcomes))(f)
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

// apply applies an outcome to a batch and its lane in the model.
func (f *fixture) apply(s *shadow, o store.Outcome, now time.Time) store.Applied {
	_, a := s.row.Apply(o, now)
	if a.Result != store.Written {
		return a
	}
	if f.has(store.CanControl) {
		scope := batch.Only(s.b.Service)
		a, f.controls[scope] = a.Enforce(f.control(scope), o.Policy, now)
	}
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

// pending asks for due rows, and compares.
func (f *fixture) pending(limit int, lease time.Duration) []store.InFlight {
	f.Helper()
	return f.asked(store.PendingQuery{Limit: limit, Lease: lease})
}

// pendingOf asks for the rows of these services that the monitor owns, and compares.
func (f *fixture) pendingOf(limit int, lease time.Duration, services ...batch.ServiceID) []store.InFlight {
	f.Helper()
	return f.asked(store.PendingQuery{Limit: limit, Lease: lease, Services: append([]batch.ServiceID{}, services...)})
}

func (f *fixture) asked(q store.PendingQuery) []store.InFlight {
	f.Helper()
	f.tick()
	now := f.now()
	limit, lease := q.Limit, q.Lease
	got := must(f.st.Pending(f.ctx, q))(f)
	due := f.inOrder(func(s *shadow) bool {
		if q.Services != nil {
			return s.row.Monitored(now) && slices.Contains(q.Services, s.b.Service)
		}
		return q.Due(s.row, now)
	})
	slices.SortStableFunc(due, func(a, b *shadow) int { return a.row.AskedAt.Compare(b.row.AskedAt) })
	due = due[:min(limit, len(due))]
	want := make([]store.InFlight, 0, len(due))
	for _, s := range due {
		asked := s.row.AskedAt
		if s.row = s.row.Leased(now, lease); s.row.Monitored(now) {
			f := s.row.InFlight(s.whole(), s.b.Budget, now)
			f.AskedAgo = s.row.AskedAgo(asked, now)
			want = append(want, f)
		}
	}
	f.sameInFlight(want, got)
	for _, r := range got {
		f.rows[r.Key.ID].ref, f.rows[r.Key.ID].was = r.Ref, r.Was
	}
	return got
}

// checked sets the time of the next question.
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
