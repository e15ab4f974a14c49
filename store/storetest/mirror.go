package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Each method of this file does the same to the store and to the model, and compares the results.

// add adds batches, which the store must accept.
func (f *fixture) add(bs ...batch.Batch) {
	f.Helper()
	now := f.now()
	require.NoError(f, f.store.Add(f.ctx, bs...))
	f.addToModel(now, bs...)
}

// addToModel adds batches to the model that the store has accepted at the time now.
func (f *fixture) addToModel(now time.Time, bs ...batch.Batch) {
	f.Helper()
	last := map[batch.ServiceID]time.Time{}
	for _, s := range f.batches {
		if s.created.After(last[s.batch.Service]) {
			last[s.batch.Service] = s.created
		}
	}
	for _, b := range bs {
		if _, pruned := f.tombstones[b.ID]; pruned || f.batches[b.ID] != nil {
			continue
		}
		if f.withChange(b) != nil || f.tombstoneOf(b) != nil {
			f.requireAbsent(b)
			continue
		}
		r := must(f.store.Get(f.ctx, b.Key()))(f)
		require.True(f, r.CreatedAt.After(last[b.Service]), "%s is not behind what its lane has", b.Key())
		last[b.Service] = r.CreatedAt
		require.False(f, r.CreatedAt.Before(now.Add(-f.timeUnit/8)), "%s is created at %s", b.Key(), r.CreatedAt)
		require.Equal(f, r.CreatedAt.Truncate(time.Microsecond), r.CreatedAt, "to the microsecond, in UTC")
		s := &modelBatch{batch: b, created: r.CreatedAt, ref: store.Ref{Key: b.Key()}, row: store.NewRow()}
		f.batches[b.ID] = s
		f.requireSameRecord(s, r)
	}
}

// withChange returns the model's batch that has b's DataChangeID, or nil.
func (f *fixture) withChange(b batch.Batch) *modelBatch {
	for _, s := range f.batches {
		if b.DataChangeID != "" && s.batch.DataChangeID == b.DataChangeID && s.batch.Service == b.Service {
			return s
		}
	}
	return nil
}

// modelBatches returns those batches of the model for which keep is true, by order key.
func (f *fixture) modelBatches(keep func(*modelBatch) bool) []*modelBatch {
	var found []*modelBatch
	for _, s := range f.batches {
		if keep(s) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *modelBatch) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.batch.ID, b.batch.ID))
	})
	return found
}

// window returns the rows that a claim must read of a lane.
func (f *fixture) window(service batch.ServiceID, n int) []store.LaneRow {
	var attempted, queued []store.LaneRow
	for _, s := range f.modelBatches(func(s *modelBatch) bool { return s.batch.Service == service && !s.row.Final() }) {
		r := store.LaneRow{Ref: s.lastReturnedRef(), Row: s.row, Budget: s.batch.Budget, Footprint: s.batch.Footprint, Size: len(s.batch.Payload)}
		if s.row.Attempted() {
			attempted = append(attempted, r)
		} else if len(queued) < n {
			queued = append(queued, r)
		}
	}
	return append(attempted, queued...)
}

// claim claims, and compares the lanes that it is shown, and the result, with the model.
func (f *fixture) claim(q store.ClaimQuery, choose store.Choose) store.Claimed {
	f.Helper()
	var shown, want []batch.Lane
	now := f.now()
	got, err := f.store.Claim(f.ctx, q, func(l batch.Lane) []batch.Run {
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
		if len(rows) == 0 || f.isClosed(service) {
			continue
		}
		plan := store.PlanLane(service, rows, now, q, left, func(l batch.Lane) []batch.Run {
			want = append(want, l)
			return choose(l)
		})
		left = model.Add(service, plan, &q, left)
		for _, r := range plan.Changed {
			f.batches[r.Key.ID].row = r.Row
		}
	}
	f.requireSameLanes(want, shown)
	f.requireSameClaimed(model, got)
	for _, run := range got.Runs {
		for _, c := range run.Batches {
			f.batches[c.Key.ID].ref, f.batches[c.Key.ID].lastReturned = c.Ref, c.Was
		}
	}
	return got
}

// claimExactly claims exactly these batches, where a resend is always harmless.
func (f *fixture) claimExactly(want ...batch.ID) []store.Claim {
	f.Helper()
	return f.claimExactlyBy(resendRule(f.units(1000.5), 0), want...)
}

func (f *fixture) claimExactlyBy(rule func(batch.ServiceID) store.Resend, want ...batch.ID) []store.Claim {
	f.Helper()
	var lanes []batch.ServiceID
	for _, id := range want {
		if s := f.batches[id].batch.Service; !slices.Contains(lanes, s) {
			lanes = append(lanes, s)
		}
	}
	got := f.claim(store.ClaimQuery{Lanes: lanes, Limit: len(want), Window: 2000, TTL: f.units(1.5), Resend: rule}, chooseOnly(want...))
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

// submitterOutcome returns an outcome of the submitter for the batch's present version.
func (f *fixture) submitterOutcome(id batch.ID, finding store.Finding) store.Outcome {
	s := f.batches[id]
	was := s.lastReturned
	if s.passedCount++; s.passedCount%3 == 2 || was == nil || was.Version != s.row.Version {
		was = nil // often enough to test outcomes with and without Was
	}
	o := store.Outcome{
		Ref: s.ref, Version: s.row.Version, Was: was, By: batch.BySubmitter, Attempt: s.row.Attempt, Finding: finding,
		Back: batch.Queued, Check: f.units(0.5), Settle: f.units(5.5),
	}
	if finding == store.Failed {
		o.Delay = f.units(2.5)
	}
	return o
}

// monitorOutcome returns an outcome of the monitor about the batch as a whole.
func (f *fixture) monitorOutcome(id batch.ID, finding store.Finding) store.Outcome {
	o := f.submitterOutcome(id, finding)
	if o.By, o.Attempt = batch.ByMonitor, 0; finding == store.IsVoid {
		o.Prepared = f.batches[id].row.Prepared
	}
	return o
}

// record records outcomes, and compares each result with the model.
func (f *fixture) record(outcomes ...store.Outcome) []store.Applied {
	f.Helper()
	now := f.now()
	got := must(f.store.Record(f.ctx, outcomes))(f)
	require.Len(f, got, len(outcomes))
	for i, o := range outcomes {
		want := store.Applied{Ref: o.Ref, Result: store.Gone}
		if s := f.batches[o.Key.ID]; s != nil && s.batch.Key() == o.Key {
			want = f.apply(s, o, now)
		}
		f.requireSameApplied(want, got[i], o)
	}
	return got
}

// apply applies an outcome to a batch and its lane in the model.
func (f *fixture) apply(s *modelBatch, o store.Outcome, now time.Time) store.Applied {
	_, a := s.row.Apply(o, now)
	if a.Result != store.Written {
		return a
	}
	if f.hasAbilities(store.CanControl) {
		scope := batch.Only(s.batch.Service)
		a, f.controls[scope] = a.Enforce(f.control(scope), o.Policy, now)
	}
	if r, ok := o.Reported(a, now); ok {
		s.reports = store.KeepReport(s.reports, r)
	}
	s.row = a.Row
	return a
}

// recordAll records outcomes that must all be Written.
func (f *fixture) recordAll(outcomes ...store.Outcome) []store.Applied {
	f.Helper()
	got := f.record(outcomes...)
	for i, a := range got {
		require.Equal(f, store.Written, a.Result, "%s of %s: %v", outcomes[i].Finding, outcomes[i].Key, a.Err)
	}
	return got
}

// recordEach records the same finding about several batches.
func (f *fixture) recordEach(by func(batch.ID, store.Finding) store.Outcome, finding store.Finding, about ...batch.ID) {
	f.Helper()
	var os []store.Outcome
	for _, id := range about {
		os = append(os, by(id, finding))
	}
	f.recordAll(os...)
}

// pending calls Pending, and compares the rows with the model.
func (f *fixture) pending(limit int, lease time.Duration) []store.InFlight {
	f.Helper()
	return f.pendingBy(store.PendingQuery{Limit: limit, Lease: lease})
}

// pendingOf calls Pending for the rows of these services that the monitor owns, and compares them
// with the model.
func (f *fixture) pendingOf(limit int, lease time.Duration, services ...batch.ServiceID) []store.InFlight {
	f.Helper()
	return f.pendingBy(store.PendingQuery{Limit: limit, Lease: lease, Services: append([]batch.ServiceID{}, services...)})
}

func (f *fixture) pendingBy(q store.PendingQuery) []store.InFlight {
	f.Helper()
	f.tick()
	now := f.now()
	limit, lease := q.Limit, q.Lease
	got := must(f.store.Pending(f.ctx, q))(f)
	due := f.modelBatches(func(s *modelBatch) bool {
		if q.Services != nil {
			return s.row.Monitored(now) && slices.Contains(q.Services, s.batch.Service)
		}
		return q.Due(s.row, now)
	})
	slices.SortStableFunc(due, func(a, b *modelBatch) int { return a.row.AskedAt.Compare(b.row.AskedAt) })
	due = due[:min(limit, len(due))]
	want := make([]store.InFlight, 0, len(due))
	for _, s := range due {
		asked := s.row.AskedAt
		if s.row = s.row.Leased(now, lease); s.row.Monitored(now) {
			f := s.row.InFlight(s.lastReturnedRef(), s.batch.Budget, now)
			f.AskedAgo = s.row.AskedAgo(asked, now)
			want = append(want, f)
		}
	}
	f.requireSameInFlight(want, got)
	for _, r := range got {
		f.batches[r.Key.ID].ref, f.batches[r.Key.ID].lastReturned = r.Ref, r.Was
	}
	return got
}

// setNextCheck calls Checked: the next question comes after in.
func (f *fixture) setNextCheck(in time.Duration, about ...batch.ID) {
	f.Helper()
	now := f.now()
	var due []store.Due
	for _, id := range about {
		s := f.batches[id]
		due = append(due, store.Due{Ref: s.ref, In: in})
		if s.row.Monitored(now) {
			s.row.NextCheck = now.Add(in)
		}
	}
	require.NoError(f, f.store.Checked(f.ctx, due))
}
