package batch

import (
	"fmt"
	"slices"
)

// Lane is a strategy's view of one service: all batches that were attempted and are not final,
// and the first waiting ones, in order. A batch in flight counts as earlier than any batch
// that became visible after it. A batch that waits again stands where it was added, unless
// that place is farther back than the strategy sees.
type Lane struct {
	Service ServiceID
	Batches []LaneBatch
	// KeepsOrder is true if the strategy relies on the ledger to keep the order of submission, and
	// the ledger does so for this service. Then an accepted batch, Pending or Valid, does not hold
	// up the batches after it.
	KeepsOrder bool
}

// LaneBatch is one open batch of a lane, without its payload.
type LaneBatch struct {
	ID      ID
	State   State
	Attempt int  // number of claims so far
	Ready   bool // whether the state is Queued, Delayed or Unknown, and the not-before time has passed
	// Failed is true if the last attempt failed for another reason than the ledger's own answer
	// about it (busy, not yet, or no effect). The ledger may have been down, and may have lost
	// batches that it had accepted.
	Failed bool
	// Numbered is true if the batch keeps prepared bytes that fix its place in the order in which
	// the ledger executes the lane's batches (dlt.Traits.PreparesInOrder). Whenever it is sent
	// again, it is executed before all batches that stand behind it.
	Numbered bool
	// Footprint is empty if the store does not know it.
	Footprint Footprint
}

// Run holds the positions of one lane's batches that are posted one after the other. It stops
// at its first failure.
type Run []int

// Check reports the first position in a strategy's answer that would break the order of the lane.
// A position must be ready, named once and in order. It must not pass an earlier open batch that
// it conflicts with, unless that batch is earlier in the same run
// (docs/design.md#how-a-claim-works). If the lane's ledger keeps the order of submission, a
// position may pass an accepted batch, unless it was lost or its last attempt failed: then the
// ledger may have lost the accepted batch, too. And a batch may not be sent again behind a later
// one in flight. Neither holds for a batch that is numbered ([LaneBatch.Numbered]).
func (l Lane) Check(runs []Run) error { return l.CheckIn(new(Footprints), runs) }

// CheckIn is Check with a scratch set, for frequent callers. Nothing else may use the set
// meanwhile; CheckIn leaves it empty.
func (l Lane) CheckIn(scratch *Footprints, runs []Run) error {
	taken := make([]int, len(l.Batches)) // 1 + the number of the run that took the position; 0 for none
	for r, run := range runs {
		last := -1
		for _, p := range run {
			switch {
			case p < 0 || p >= len(l.Batches):
				return fmt.Errorf("dltbatch: lane %q: position %d of %d batches", l.Service, p, len(l.Batches))
			case p <= last:
				return fmt.Errorf("dltbatch: lane %q: position %d after %d", l.Service, p, last)
			case taken[p] != 0:
				return fmt.Errorf("dltbatch: lane %q: position %d twice", l.Service, p)
			case !l.Batches[p].State.Claimable() || !l.Batches[p].Ready:
				return fmt.Errorf("dltbatch: lane %q: position %d is %s and not ready", l.Service, p, l.Batches[p].State)
			}
			taken[p], last = r+1, p
		}
	}
	return l.checkOrder(scratch, runs, taken)
}

// checkOrder looks for a position that passes a batch with which it conflicts. All positions of
// one run count as one, so that they may follow each other. It takes no longer than reading the
// footprints: a lane of many batches is checked within the claiming transaction.
func (l Lane) checkOrder(before *Footprints, runs []Run, taken []int) error {
	end := 0 // the position after the last one that is taken
	for p, r := range taken {
		if r != 0 {
			end = p + 1
		}
	}
	if end == 0 {
		return nil
	}
	before.Reset()
	defer before.Reset()
	for q, b := range l.Batches {
		if l.blocksLane(b) {
			before.add(b.Footprint, owner(1+len(runs)+q))
		}
	}
	for p, b := range l.Batches[:end] {
		switch {
		case l.blocksLane(b) || l.mayBePassed(b):
		case taken[p] == 0:
			before.add(b.Footprint, owner(1+len(runs)+p))
		case before.add(b.Footprint, owner(taken[p])):
			return l.passedBatch(p, taken)
		}
	}
	if !l.KeepsOrder {
		return nil
	}
	if err := l.checkLost(before, taken); err != nil {
		return err
	}
	return l.checkBehind(before, taken)
}

// blocksLane reports whether a batch blocks conflicting batches wherever it stands. A batch in
// flight does, because another strategy may have sent it ahead of its place.
func (l Lane) blocksLane(b LaneBatch) bool { return !b.State.Claimable() && !l.mayBePassed(b) }

// mayBePassed reports whether later batches need not wait for an open batch.
func (l Lane) mayBePassed(b LaneBatch) bool {
	return l.KeepsOrder && (b.State == Pending || b.State == Valid)
}

// MayFollow reports whether a waiting batch may leave behind accepted ones, where the ledger keeps
// the order of submission. A batch that was lost, or whose last attempt failed, may not: both may
// come of a restart of the ledger, which lost the accepted batches as well. It waits until each of
// them is decided or known to be lost; then all that were lost go again in their order. One that
// is numbered need not wait.
func (b LaneBatch) MayFollow() bool { return b.Numbered || b.State != Unknown && !b.Failed }

// checkLost looks for a batch that would follow an accepted one and must not.
func (l Lane) checkLost(accepted *Footprints, taken []int) error {
	const picked, under = owner(1), owner(2)
	accepted.Reset()
	for p, run := range taken {
		switch b := l.Batches[p]; {
		case l.mayBePassed(b):
			accepted.add(b.Footprint, under)
		case run != 0 && !b.MayFollow() && accepted.add(b.Footprint, picked):
			return fmt.Errorf("dltbatch: lane %q: position %d was lost or failed, and would follow an accepted batch that conflicts", l.Service, p)
		}
	}
	return nil
}

// checkBehind looks for a batch that would be sent again behind a later, conflicting one in
// flight. The ledger may have lost the later one, too, and both are then sent again in their
// order. A batch that is numbered keeps its place.
func (l Lane) checkBehind(later *Footprints, taken []int) error {
	const picked, under = owner(1), owner(2)
	later.Reset()
	found := false
	for p, run := range slices.Backward(taken) {
		switch b := l.Batches[p]; {
		case !b.State.Claimable():
			found = true
			later.add(b.Footprint, under)
		case found && run != 0 && !b.Numbered && later.add(b.Footprint, picked):
			return fmt.Errorf("dltbatch: lane %q: position %d would follow a later batch that is under way and conflicts", l.Service, p)
		}
	}
	return nil
}

// passedBatch returns an error that names the first batch that position p must not pass.
func (l Lane) passedBatch(p int, taken []int) error {
	for q, b := range l.Batches {
		earlier := q < p && taken[q] != taken[p] && !l.mayBePassed(b)
		if (earlier || l.blocksLane(b)) && b.Footprint.Conflicts(l.Batches[p].Footprint) {
			return fmt.Errorf("dltbatch: lane %q: position %d passes %d, which is %s and conflicts", l.Service, p, q, b.State)
		}
	}
	return fmt.Errorf("dltbatch: lane %q: position %d passes a batch that conflicts", l.Service, p)
}
