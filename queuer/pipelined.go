package queuer

import "github.com/dltbatch/dltbatch/batch"

// Pipelined keeps up to so many batches of a lane under way, for ledgers that keep the
// order of submission (dlt.Traits.KeepsOrder): Pipelined(32), say. The batches of a
// run are posted one after the other, each once the one before is accepted, and
// nothing waits for a commit. Whatever fails stops its run, what follows in it goes
// back, and nothing overtakes it: nothing of a lane leaves while the outcome of one
// attempt of it is not known, nor while one that failed, was lost or was decided
// against and may yet be committed stands before it.
//
// What has been accepted is beyond recall. If an earlier batch turns out invalid, those
// after it go on, as they would with [Serial]. If the ledger loses one after all, it is
// sent again only once all that had left with it is decided or lost, too, so that what
// was lost together goes again in order; that it comes behind others which were
// committed is reported as [batch.EventOrderBreach], as is one that the ledger said was
// invalid and executes after all. On Splinter a batch that is rolled back, by a timeout or a
// crash of one of the circuit's nodes, is such a one. Where that must not be, use [Serial].
//
// Run refuses it on a ledger that does not keep order. A lane of which the ledger does
// not (several may share a Runner) is served as by [Serial].
type Pipelined int

// OrderReliant is a [Strategy] that may let batches leave before those ahead of them
// are final, and relies on the ledger's keeping the order of submission for that.
type OrderReliant interface {
	Strategy
	// ReliesOnOrder reports whether it does. The lanes that it is shown say whether the
	// ledger does its part (batch.Lane.KeepsOrder).
	ReliesOnOrder() bool
}

// ReliesOnOrder reports whether a strategy is [OrderReliant] and says that it is.
func ReliesOnOrder(s Strategy) bool {
	o, ok := s.(OrderReliant)
	return ok && o.ReliesOnOrder()
}

// Window returns how many batches may be under way.
func (n Pipelined) Window() int { return int(n) }

// ReliesOnOrder returns true.
func (Pipelined) ReliesOnOrder() bool { return true }

// Select picks, as one run, what follows all that was accepted, up to the first that is
// not ready.
func (n Pipelined) Select(lane batch.Lane) []batch.Run {
	if !lane.KeepsOrder {
		return Serial{}.Select(lane)
	}
	from, end := n.span(lane)
	if end == from {
		return nil
	}
	run := make(batch.Run, 0, end-from)
	for p := from; p < end; p++ {
		run = append(run, p)
	}
	return []batch.Run{run}
}

// Wants returns how many more may be under way, if what was accepted lets them.
func (n Pipelined) Wants(attempted batch.Lane) int {
	if !attempted.KeepsOrder {
		return Serial{}.Wants(attempted)
	}
	if accepted, ok := inFront(attempted); ok {
		return max(0, int(n)-accepted)
	}
	return 0
}

// inFront returns how many batches at the front of a lane are accepted, and whether others
// may leave behind them.
func inFront(lane batch.Lane) (accepted int, ok bool) {
	for p, b := range lane.Batches {
		switch {
		case b.State.Claimable():
		case b.State != batch.Pending && b.State != batch.Valid:
			return accepted, false // unacknowledged, or invalid and perhaps committed yet
		case p > accepted:
			return accepted, false // one that must go again stands before it
		default:
			accepted++
		}
	}
	return accepted, true
}

// span returns the positions that may leave: of all that follow what was accepted those
// that are ready, up to the first that is not.
func (n Pipelined) span(lane batch.Lane) (from, end int) {
	accepted, ok := inFront(lane)
	if !ok {
		return 0, 0
	}
	for end = accepted; end < len(lane.Batches) && end < int(n) && lane.Batches[end].Ready; end++ {
		if accepted > 0 && lane.Batches[end].State == batch.Unknown {
			break // lost, as those before it may yet turn out to be
		}
	}
	return accepted, end
}
