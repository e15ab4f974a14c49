package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlrow"
	"github.com/dltbatch/dltbatch/store"
)

// freshLanesError says that lanes have to be made before they can be locked.
type freshLanesError []batch.ServiceID

func (f freshLanesError) Error() string {
	return fmt.Sprintf("%d lanes were never claimed from", len(f))
}

// Claim is [store.Engine].Claim: one transaction (design section 6). If choose
// panics, nothing is claimed. If another transaction gets in its way choose is asked
// again, and its earlier answer forgotten.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	const op = "claim"
	for try := 1; ; try++ {
		var claimed store.Claimed
		var fresh freshLanesError
		err := s.tx(ctx, op, func(ctx context.Context, t *session) (err error) {
			// Lanes that appear while this goes on are found by the next claim.
			claimed, fresh, err = t.claim(ctx, q, choose, try > 1)
			if err == nil && len(fresh) > 0 {
				return fresh
			}
			return err
		})
		if len(fresh) == 0 {
			if err != nil {
				return store.Claimed{}, err
			}
			return claimed, nil
		}
		if err := s.enlist(ctx, op, fresh); err != nil {
			return store.Claimed{}, err
		}
	}
}

func (t *session) claim(ctx context.Context, q store.ClaimQuery, choose store.Choose, all bool) (out store.Claimed, fresh freshLanesError, err error) {
	q.Window = max(1, q.Window)
	lanes, left := distinct(q.Lanes), q.Limit
	var changed []*stored
	for len(lanes) > 0 && left > 0 {
		// Lanes are read together, but not many more than the limit lets through.
		some := lanes[:min(len(lanes), max(left/q.Window, 8), 500)]
		lanes = lanes[len(some):]
		got, locked, unknown, us, err := t.lock(ctx, some)
		if err != nil {
			return out, nil, err
		}
		if len(unknown) > 0 && !all {
			_, more, err := t.standing(ctx, lanes) // so that this happens once
			return out, append(unknown, more...), err
		}
		out.Locked = append(out.Locked, locked...)
		now := sqlrow.FromMicro(us)
		if len(locked) > 0 {
			held := make(map[batch.ServiceID]bool, len(locked))
			for _, s := range locked {
				held[s] = true
			}
			some = slices.DeleteFunc(slices.Clone(some), func(s batch.ServiceID) bool { return held[s] })
		}
		rows, err := t.windows(ctx, got, q.Window)
		if err != nil {
			return out, nil, err
		}
		var fresh []*stored
		for i, service := range some {
			if left <= 0 {
				out.Left = append(out.Left, some[i:]...)
				break
			}
			if len(rows[service]) == 0 {
				continue
			}
			lane, err := laneRows(rows[service])
			if err != nil {
				return out, nil, err
			}
			plan := store.PlanLane(service, lane, now, q, left, choose)
			for _, s := range apply(plan.Changed, rows[service]) {
				if s.taken(now, q.TTL, q.Instance) {
					fresh = append(fresh, s)
				} else {
					changed = append(changed, s)
				}
			}
			left -= plan.Claims
			out.Runs = append(out.Runs, plan.Runs...)
			if plan.More {
				out.Left = append(out.Left, service)
			}
			out.NextReady = sooner(out.NextReady, plan.NextReady)
		}
		if err := t.take(ctx, fresh, now, q.TTL, q.Instance); err != nil {
			return out, nil, err
		}
	}
	out.Left = append(out.Left, lanes...)
	return out, nil, t.save(ctx, changed)
}

func distinct(lanes []batch.ServiceID) []batch.ServiceID {
	seen := make(map[batch.ServiceID]struct{}, len(lanes))
	once := make([]batch.ServiceID, 0, len(lanes))
	for _, s := range lanes {
		if _, twice := seen[s]; !twice {
			seen[s] = struct{}{}
			once = append(once, s)
		}
	}
	return once
}

// windows reads what a claim sees of these lanes, each in order.
func (t *session) windows(ctx context.Context, services []batch.ServiceID, window int) (map[batch.ServiceID][]*stored, error) {
	return t.windowsBy(ctx, sqlAttempted, sqlWaiting, services, window)
}

// windowsBy reads what was attempted, and then the first of what waits. They are two
// statements: nothing moves from the one part to the other but by a claim, which would
// hold the lane.
func (t *session) windowsBy(ctx context.Context, sqlAttempted, sqlWaiting string, services []batch.ServiceID, window int) (map[batch.ServiceID][]*stored, error) {
	if len(services) == 0 {
		return map[batch.ServiceID][]*stored{}, nil
	}
	names := texts(services)
	open, err := query(ctx, t, func(s *stored) []any {
		return slices.Concat(s.batchCols.dest(), []any{&s.encodedFootprint}, s.rowCols.dest())
	}, sqlAttempted, names)
	if err != nil {
		return nil, err
	}
	queued, err := queryMany(ctx, t, min(len(services)*window, 1000), func(s *stored) []any {
		return append(s.batchCols.dest(), &s.encodedFootprint, &s.version, &s.requeued, &s.place)
	}, sqlWaiting, names, int64(window))
	if err != nil {
		return nil, err
	}
	lanes := make(map[batch.ServiceID][]*stored, len(services))
	attempted, waiting := make([]*stored, 0, len(open)), make([]*stored, 0, len(queued))
	for i := range open {
		open[i].unpack()
		if open[i].now.Attempted() {
			attempted = append(attempted, &open[i])
		} else { // it was put at the end
			waiting = append(waiting, &open[i])
		}
	}
	appendInOrder(lanes, attempted, len(attempted))
	for i := range queued {
		queued[i].unpackWaiting()
		waiting = append(waiting, &queued[i])
	}
	appendInOrder(lanes, waiting, window)
	return lanes, nil
}

// appendInOrder puts rows in order and appends up to most of them to each lane.
func appendInOrder(lanes map[batch.ServiceID][]*stored, rows []*stored, most int) {
	slices.SortFunc(rows, func(a, b *stored) int {
		return cmp.Or(cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.headerSignature, b.headerSignature))
	})
	taken := map[batch.ServiceID]int{}
	for _, s := range rows {
		service := s.key().Service
		if taken[service]++; taken[service] <= most {
			lanes[service] = append(lanes[service], s)
		}
	}
}

// taken reports whether a row is claimed for the first time, and sqlTake writes it.
func (s *stored) taken(now time.Time, ttl time.Duration, instance string) bool {
	w, n, expires := s.was, s.now, now.Add(ttl)
	return placeOf(w) == inWaiting && s.place != "" && n.State == batch.Submitting && n.Version == w.Version+1 && n.Attempt == 1 &&
		n.Failures == 0 && n.ClaimExpires.Equal(expires) && n.NextCheck.Equal(expires) && n.NotBefore.IsZero() && n.AskedAt.IsZero() &&
		n.LastPost.IsZero() && n.SettlesAt.IsZero() && n.FinalAt.IsZero() && n.DoubtAttempt == 1 && n.DoubtSince.Equal(now) &&
		n.Resends == 0 && n.ClaimedBy == instance && !n.AtEnd && !n.Refused && n.Requeued == w.Requeued && n.Error == nil && n.Decision == "" && len(n.Receipts) == 0
}

// take writes rows that were taken.
func (t *session) take(ctx context.Context, rows []*stored, now time.Time, ttl time.Duration, instance string) error {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b *stored) int { return cmp.Compare(a.seq, b.seq) })
	c := columns(rows)
	n, err := t.exec(ctx, sqlTake, textArray(len(rows), func(i int) string { return rows[i].place }), c.ints(seqOf), c.ints(wasOf),
		c.ints(func(s *stored) int64 { return int64(s.now.Spent) }),
		c.ints(func(s *stored) int64 { return sqlrow.ToMicro(s.now.ResendUntil) }),
		int64(batch.Submitting), sqlrow.ToMicro(now.Add(ttl)), sqlrow.ToMicro(now), instance)
	if err == nil && n != int64(len(rows)) {
		err = fmt.Errorf("%w: %d rows claimed, want %d", errMoved, n, len(rows))
	}
	return err
}

func laneRows(found []*stored) ([]store.LaneRow, error) {
	rows := make([]store.LaneRow, len(found))
	for i, s := range found {
		footprint, err := sqlrow.DecodeFootprint(s.encodedFootprint)
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", s.key(), err)
		}
		rows[i] = store.LaneRow{Ref: s.ref(), Row: s.now, Budget: s.budget(), Footprint: footprint}
	}
	return rows, nil
}

// apply gives the rows that were loaded what a plan makes of them, and returns those.
func apply(changed []store.LaneRow, loaded []*stored) []*stored {
	rows := make([]*stored, len(changed))
	for i, r := range changed {
		s := loaded[slices.IndexFunc(loaded, func(s *stored) bool { return s.seq == r.Ref.Row })]
		s.now = r.Row
		rows[i] = s
	}
	return rows
}

// sooner is the shorter of two times to wait; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
