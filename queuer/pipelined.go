package queuer

import "github.com/dltbatch/dltbatch/batch"

// Pipelined keeps up to n batches of a lane under way, for ledgers that keep the order
// of submission (dlt.Traits.KeepsOrder): Pipelined(32), say. The batches of a run are posted
// one after the other, each once the one before is accepted, and none waits for a commit. A
// failed batch stops its run: the rest of the run goes back, and nothing overtakes the failed
// batch. Nothing of a lane leaves while the answer to an attempt is not known, and no batch
// overtakes an earlier batch that failed, was lost, or was decided against and may yet be
// committed.
//
// An accepted batch cannot be called back. If it turns out invalid, the batches after it go on, as
// they would with [Serial]. While the ledger has no trace of it, nothing of its lane leaves. If
// the ledger loses it after all, it is sent again only once all batches that left with it are
// decided or lost, too, so that batches lost together go again in order. A batch whose last
// attempt failed waits likewise, because the ledger may have been down
// ([batch.LaneBatch.MayFollow]). Neither waits where its prepared bytes keep its place
// ([batch.LaneBatch.Numbered]). If a batch then comes behind committed batches, that is reported
// as [batch.EventOrderBreach]. So is a batch that the ledger called invalid and executes after
// all; on Splinter a batch that is rolled back, by a timeout or a crash of one of the circuit's
// nodes, is such a batch. Where such breaches are unacceptable, use [Serial].
//
// Run refuses Pipelined on a ledger that does not keep order. If several ledgers share a
// Runner, a lane of a ledger that does not keep order is served as by [Serial].
func Pipelined(n int) Strategy {
	return markBuiltin(Strategy{
		Name: namePipelined, Window: n, Select: pipelineDepth(n).chooseRuns, Wants: pipelineDepth(n).wantedBatches, ReliesOnOrder: true,
	})
}

// pipelineDepth is how many batches may be under way.
type pipelineDepth int

// chooseRuns picks one run: the batches behind the accepted ones, up to the first that is not
// ready.
func (n pipelineDepth) chooseRuns(lane batch.Lane) []batch.Run {
	if !lane.KeepsOrder {
		return selectSerial(lane)
	}
	from, end := n.positionsToSend(lane)
	if end == from {
		return nil
	}
	run := make(batch.Run, 0, end-from)
	for p := from; p < end; p++ {
		run = append(run, p)
	}
	return []batch.Run{run}
}

// wantedBatches returns how many more batches may be under way, and 0 if none may leave behind the
// accepted ones.
func (n pipelineDepth) wantedBatches(attempted batch.Lane) int {
	if !attempted.KeepsOrder {
		return serialWants(attempted)
	}
	if accepted, behind, ok := acceptedFront(attempted); ok && !behind {
		return max(0, int(n)-accepted)
	}
	return 0
}

// acceptedFront returns how many batches at the front of a lane are accepted, and whether other
// batches may leave behind them. behind is true if batches are accepted behind one that must be
// sent again. Only that batch may leave then, if it is numbered.
func acceptedFront(lane batch.Lane) (accepted int, behind, ok bool) {
	for p, b := range lane.Batches {
		switch {
		case b.State.Claimable():
		case b.State != batch.Pending && b.State != batch.Valid:
			return accepted, behind, false // no answer yet, or Invalid and perhaps committed later
		case p > accepted:
			behind = true
		default:
			accepted++
		}
	}
	return accepted, behind, true
}

// positionsToSend returns the positions that may leave: those behind the accepted batches, up to
// the first that is not ready.
func (n pipelineDepth) positionsToSend(lane batch.Lane) (from, end int) {
	accepted, behind, ok := acceptedFront(lane)
	if !ok {
		return 0, 0
	}
	for end = accepted; end < len(lane.Batches) && end < int(n) && lane.Batches[end].Ready; end++ {
		switch b := lane.Batches[end]; {
		case behind && !b.Numbered: // it would come behind the batches accepted later
			return accepted, end
		case accepted > 0 && !b.MayFollow(): // the accepted batches may yet turn out to be lost
			return accepted, end
		}
	}
	return accepted, end
}
