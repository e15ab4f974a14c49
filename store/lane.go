package store

import (
	"bytes"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// LaneRow is one open batch of a lane as a driver loads it for a claim.
type LaneRow struct {
	Ref       // its Created is part of the order key
	Row       Row
	Budget    batch.Budget
	Footprint batch.Footprint
	Size      int // the bytes of the payload: see [ClaimQuery].Bytes
}

// Plan is the effect of a claim on one lane.
type Plan struct {
	// Changed are the rows that are to be written back in this state. PlanLane changes its
	// argument in the same way.
	Changed []LaneRow
	Runs    []ClaimedRun
	Claims  int  // the number of batches in Runs
	Bytes   int  // the bytes of their payloads
	More    bool // true if the limit kept batches of this lane from being claimed
	// NextReady is the time until the first waiting batch becomes ready; 0 if none becomes ready
	// later.
	NextReady time.Duration
}

// PlanLane decides which batches a claim takes from a lane. rows are all its open batches that
// were ever attempted ([Row.Attempted]), and the first waiting batches, q.Window or as many as
// [Wanted] returns, both sorted by order key. choose sees them as [ClaimQuery.InOrder] returns
// them. This is a claim's whole decision as a pure function, so that all drivers decide the same.
func PlanLane(service batch.ServiceID, rows []LaneRow, now time.Time, q ClaimQuery, limit int, choose Choose) Plan {
	var p Plan
	var rule Resend
	if q.Resend != nil {
		rule = q.Resend(service)
	}
	for i := range rows {
		r := &rows[i]
		r.Row = r.Row.AsOf(now)
		if r.pastResend(now, q.TTL, rule) {
			r.Row = r.Row.backToMonitor(now)
			p.Changed = append(p.Changed, *r)
		}
		if wait := r.Row.NotBefore.Sub(now); r.Row.State.Claimable() && wait > 0 && (p.NextReady == 0 || wait < p.NextReady) {
			p.NextReady = wait
		}
	}
	order := inOrder(rows, q.isNumbered(service), func(attempted []LaneRow) int { return Wanted(service, attempted, now, q) })
	lane := batch.Lane{Service: service, Batches: make([]batch.LaneBatch, len(order))}
	for i, at := range order {
		lane.Batches[i] = rows[at].asWaiting(now, q.isNumbered(service))
	}
	room := inFlightRoom(rows, q, service)
	taken := make([]bool, len(order))
	for _, run := range choose(lane) {
		claimed := ClaimedRun{Service: service}
		for _, pos := range run {
			if pos < 0 || pos >= len(order) || taken[pos] || !lane.Batches[pos].Ready {
				break // a run is posted in order, so the positions after a bad one are not claimed either
			}
			if p.Claims >= room {
				break // More stays false: the lane goes on only after one of its batches is final
			}
			if p.Claims == limit {
				p.More = true
				break
			}
			r := &rows[order[pos]]
			if q.Bytes > 0 && p.Claims > 0 && r.Size > q.Bytes-p.Bytes {
				p.More = true
				break
			}
			p.Bytes += r.Size
			claim := Claim{
				Ref: r.Ref, From: r.Row.State, Failures: r.Row.Failures, Budget: q.budget(r.Key.Service, r.Budget),
				Doubt: r.Row.DoubtAttempt != 0, Again: !r.Row.LastPost.IsZero() && !r.Row.Requeued,
				Prepared: bytes.Clone(r.Row.Prepared), Withdrawn: r.Row.Withdrawn,
			}
			r.Row = r.Row.withWaitPutOff(now, q.StuckAfter).Claim(now, q.TTL, rule)
			r.Row.Version += int64(q.Salt)
			r.Row.ClaimedBy = q.Instance
			if claim.Budget.EveryTry {
				r.Row.Spent++ // spent before the attempt, so that an attempt that a crash cuts off counts, too
			}
			claim.Version, claim.Attempt, claim.Spent = r.Row.Version, r.Row.Attempt, r.Row.Spent
			was := r.Row
			claim.Was = &was
			taken[pos] = true
			p.Claims++
			p.Changed = append(p.Changed, *r)
			claimed.Batches = append(claimed.Batches, claim)
		}
		if len(claimed.Batches) > 0 {
			p.Runs = append(p.Runs, claimed)
		}
	}
	if q.isNumbered(service) {
		for i := range p.Runs {
			p.Runs[i].Prepared = preparedOutsideRun(rows, p.Runs[i])
		}
	}
	return p
}

// preparedOutsideRun returns the prepared bytes of a lane's batches that are not in a run.
func preparedOutsideRun(rows []LaneRow, run ClaimedRun) (all [][]byte) {
	for i := range rows {
		r := &rows[i]
		if len(r.Row.Prepared) > 0 && !slices.ContainsFunc(run.Batches, func(c Claim) bool { return c.Key == r.Key }) {
			all = append(all, bytes.Clone(r.Row.Prepared))
		}
	}
	return all
}

// Wanted returns how many waiting batches of a lane a claim has to read in addition to attempted,
// which are all its attempted batches ([Row.Attempted]) in order. It returns q.Window, or less if
// q.Wants says so; [PlanLane] decides the same with that many as with q.Window. If an attempted
// batch waits again, it returns at least 1, so that this batch's place among the waiting ones is
// known.
func Wanted(service batch.ServiceID, attempted []LaneRow, now time.Time, q ClaimQuery) int {
	window := max(1, q.Window)
	if q.Wants == nil {
		return window
	}
	var rule Resend
	if q.Resend != nil {
		rule = q.Resend(service)
	}
	lane := batch.Lane{Service: service, Batches: make([]batch.LaneBatch, len(attempted))}
	numbered := q.isNumbered(service)
	if numbered {
		attempted = slices.SortedStableFunc(slices.Values(attempted), func(a, b LaneRow) int { return a.compareNumbers(&b) })
	}
	least := 0
	for i, r := range attempted {
		r.Row = r.Row.AsOf(now)
		if r.pastResend(now, q.TTL, rule) {
			r.Row = r.Row.backToMonitor(now)
		}
		lane.Batches[i] = r.asWaiting(now, numbered)
		if r.Row.State.Claimable() {
			least = 1
		}
	}
	return max(least, min(q.Wants(lane), window))
}

func (r *LaneRow) asWaiting(now time.Time, numbered bool) batch.LaneBatch {
	return batch.LaneBatch{
		ID: r.Key.ID, State: r.Row.State, Attempt: r.Row.Attempt, Ready: r.Row.isReady(now), Failed: r.Row.lastAttemptFailed(),
		Numbered: numbered && len(r.Row.Prepared) > 0, Footprint: r.Footprint,
	}
}

// inFlightRoom returns how many more batches of a lane may be under way.
func inFlightRoom(rows []LaneRow, q ClaimQuery, service batch.ServiceID) int {
	if q.MaxInFlight == nil {
		return len(rows)
	}
	most := q.MaxInFlight(service)
	if most <= 0 {
		return len(rows)
	}
	for i := range rows {
		if !rows[i].Row.State.Claimable() {
			most--
		}
	}
	return most
}
