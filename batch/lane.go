package batch

import (
	"fmt"
	"slices"
)

// Lane is what a strategy sees of one service: all batches that were ever
// attempted and are not final, and the first that wait, in order. One that is under way
// counts as earlier than any that became visible after it; one that waits again stands
// where it was added, unless that is behind more than the strategy sees.
type Lane struct {
	Service ServiceID
	Batches []Waiting
	// KeepsOrder says that the strategy declared to rely on its ledger's keeping the
	// order of submission, and that the ledger does so for this service: what was
	// accepted, Pending or Valid, does not hold up what comes after it.
	KeepsOrder bool
}

// Waiting is one open batch of a lane, without its payload.
type Waiting struct {
	ID      ID
	State   State
	Attempt int  // claims so far
	Ready   bool // Queued, Delayed or Unknown, and its not-before time has passed
	// Footprint is empty where the store does not know it.
	Footprint Footprint
}

// Run is the positions of one lane's batches that are posted one after the other;
// it stops at its first failure.
type Run []int

// Check reports the first thing in a strategy's answer that would break the order
// of the lane: a position that is not ready, is named twice or is out of order, or
// one that passes an earlier open batch it conflicts with and that is not an
// earlier position of the same run (docs/design.md#how-a-claim-works). Where the lane's
// ledger keeps the order of submission an earlier batch that was accepted may be
// passed, and none may be sent again behind a later one that is under way.
func (l Lane) Check(runs []Run) error { return l.CheckIn(new(Footprints), runs) }

// CheckIn is Check in a set that is used for nothing else meanwhile, and left
// empty: for one who checks often.
func (l Lane) CheckIn(scratch *Footprints, runs []Run) error {
	taken := make([]int, len(l.Batches)) // 1 + the run that took it
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

// checkOrder looks for what passes a conflict. All of one run count as one, so that
// they may stand behind each other. It costs what reading the footprints does: a
// lane of many batches is checked inside the claiming transaction.
func (l Lane) checkOrder(before *Footprints, runs []Run, taken []int) error {
	end := 0 // behind the last position that is taken
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
		if l.inTheWay(b) {
			before.add(b.Footprint, owner(1+len(runs)+q))
		}
	}
	for p, b := range l.Batches[:end] {
		switch {
		case l.inTheWay(b) || l.passable(b):
		case taken[p] == 0:
			before.add(b.Footprint, owner(1+len(runs)+p))
		case before.add(b.Footprint, owner(taken[p])):
			return l.passes(p, taken)
		}
	}
	if l.KeepsOrder {
		return l.checkBehind(before, taken)
	}
	return nil
}

// inTheWay reports whether a batch holds up what it conflicts with wherever it stands: it
// is under way, and what was let go first by another strategy may stand behind.
func (l Lane) inTheWay(b Waiting) bool { return !b.State.Claimable() && !l.passable(b) }

// passable reports whether what comes after an open batch need not wait for it.
func (l Lane) passable(b Waiting) bool {
	return l.KeepsOrder && (b.State == Pending || b.State == Valid)
}

// checkBehind looks for what would be sent again behind a later one that is under way
// and may yet turn out to be lost, too. Then both go again, in their order.
func (l Lane) checkBehind(later *Footprints, taken []int) error {
	const picked, under = owner(1), owner(2)
	later.Reset()
	found := false
	for p, run := range slices.Backward(taken) {
		switch b := l.Batches[p]; {
		case !b.State.Claimable():
			found = true
			later.add(b.Footprint, under)
		case found && run != 0 && later.add(b.Footprint, picked):
			return fmt.Errorf("dltbatch: lane %q: position %d would follow a later one that is under way and conflicts", l.Service, p)
		}
	}
	return nil
}

// passes names the first batch that position p passes and must not.
func (l Lane) passes(p int, taken []int) error {
	for q, b := range l.Batches {
		earlier := q < p && taken[q] != taken[p] && !l.passable(b)
		if (earlier || l.inTheWay(b)) && b.Footprint.Conflicts(l.Batches[p].Footprint) {
			return fmt.Errorf("dltbatch: lane %q: position %d passes %d, which is %s and conflicts", l.Service, p, q, b.State)
		}
	}
	return fmt.Errorf("dltbatch: lane %q: position %d passes one that conflicts", l.Service, p)
}
