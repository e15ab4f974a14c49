package engine

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// nextCounts returns the new counts after a read of s. accepted is when the ledger last took a
// batch of this process.
func nextCounts(c health.Counts, now time.Time, s store.Stats, accepted time.Time) health.Counts {
	if s.At.IsZero() {
		return health.Counts{}
	}
	n := health.Counts{ReadAt: now, Age: s.Age, Waiting: s.Open[batch.Queued] + s.Open[batch.Delayed], Undecided: s.Undecided, Halted: s.Halted, RefusedOrders: s.RefusedOrders}
	n.UndecidedSince, n.HaltedSince = nonzeroSince(n.Undecided, c.UndecidedSince, now), nonzeroSince(n.Halted, c.HaltedSince, now)
	if n.RefusedOrders > 0 {
		n.RefusedSince = now.Add(s.OldestRefused.Sub(s.At.Add(s.Age)))
	}
	if !nothingMoves(n.Waiting, s) {
		return n
	}
	n.StandingSince = now
	if !c.StandingSince.IsZero() {
		n.StandingSince = c.StandingSince
	}
	if accepted.After(n.StandingSince) {
		n.StandingSince = accepted
	}
	return n
}

// nonzeroSince returns since when n has not been zero, or the zero time if n is zero. before is
// its value at the last read.
func nonzeroSince(n int, before, now time.Time) time.Time {
	switch {
	case n == 0:
		return time.Time{}
	case before.IsZero():
		return now
	}
	return before
}

// nothingMoves reports whether batches wait and nothing shows that one moves. If as many lanes are
// paused or halted as have open batches, the waiting batches may all be in those lanes.
func nothingMoves(waiting int, s store.Stats) bool {
	inHand := s.Open[batch.Pending] + s.Open[batch.Valid]
	if waiting == 0 || inHand > 0 || s.AllPaused || s.Lanes <= s.Paused+s.Halted {
		return false
	}
	for _, i := range s.Instances {
		for _, f := range i.Flows {
			if i.Live && f.Final > 0 {
				return false
			}
		}
	}
	return true
}
