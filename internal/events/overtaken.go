package events

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// reportSentBehind reports, before they are sent, the batches of a run that the ledger had
// accepted and lost, and that are sent again behind others. It asks the store until ctx is done,
// and after that reports that this may be so: the requests need the rest of the claim's time.
func (r *Run) reportSentBehind(ctx context.Context, run store.ClaimedRun) {
	if !r.reliesOnOrder {
		return
	}
	forgets := r.traits(run.Service).ResendHarmlessFor != dlt.Forever
	for i, c := range run.Batches {
		if !c.Again || r.keepsPlace(run.Service, c.Prepared) {
			continue
		}
		if err := r.sentBehindError(ctx, run, i, forgets); err != nil {
			r.Report(batch.Event{
				Kind: batch.EventOrderBreach, Key: c.Key, State: batch.Submitting, Attempt: c.Attempt, Err: err, SinceAdded: waitedFor(c),
			})
		}
	}
}

// sentBehindError returns an error if the i-th batch of a run is sent again behind a batch of its
// lane that was executed, or may have been. A batch that was lost, too, was not executed: it waits
// to be sent again in its turn. Only if the ledger forgets batches that it has reported may it
// have no trace of an executed batch, so that the doubt about that batch is open.
func (r *Run) sentBehindError(ctx context.Context, run store.ClaimedRun, i int, forgets bool) error {
	if in := run.InDoubtAfter(i); forgets && in != "" {
		return fmt.Errorf("sent again, perhaps behind %s, which is in doubt and was to come after it", in)
	}
	return r.behindError(ctx, run.Batches[i].Key, "sent again", func(b batch.Record) bool {
		return b.State == batch.Committed || forgets && b.State == batch.Unknown && !b.DoubtSince.IsZero()
	})
}

// overtakenError returns an error if the ledger executes a batch that it had declared Invalid, or
// that counted as lost, and batches sent after it may have been executed before it. It is nil for
// a batch that keeps its place.
func (r *Run) overtakenError(ctx context.Context, o store.Outcome, a store.Applied) error {
	if !r.reliesOnOrder || o.By != batch.ByMonitor {
		return nil
	}
	to := a.Row.State
	again := to == batch.Committed || to == batch.Pending || to == batch.Valid
	if !again || (a.From != batch.Invalid && !a.From.Claimable()) || r.keepsPlace(o.Key.Service, o.Prepared) {
		return nil
	}
	return r.behindError(ctx, o.Key, fmt.Sprintf("was %s, and the ledger executes it after all", a.From), func(b batch.Record) bool {
		return b.State == batch.Committed || b.State == batch.Pending || b.State == batch.Valid || b.State == batch.Submitting
	})
}

// keepsPlace reports whether the prepared bytes of a batch give it its place in the order of its
// lane: whenever it is sent again or executed, no later batch is executed before it.
func (r *Run) keepsPlace(s batch.ServiceID, prepared []byte) bool {
	return len(prepared) > 0 && r.traits(s).PreparesInOrder
}

// behindError returns an error that names a batch for which is is true, and that this batch
// follows although it should precede it. It returns nil if there is none. It asks the store, so it
// is called for few batches. Without an answer until ctx is done it returns an error, because
// there may be such a batch.
func (r *Run) behindError(ctx context.Context, key batch.Key, why string, is func(batch.Record) bool) error {
	var ahead batch.ID
	perhaps := ""
	err := r.readUntilDone(ctx, "order", func(ctx context.Context) (err error) {
		ahead, err = store.Ahead(ctx, r.store, key, func(b batch.Record) bool {
			if !is(b) {
				return false
			}
			if perhaps = ""; b.State != batch.Committed {
				perhaps = "perhaps "
			}
			return true
		})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s, perhaps behind others: %w", why, err)
	case ahead != "":
		return fmt.Errorf("%s, %sbehind %s, which was to come after it", why, perhaps, ahead)
	}
	return nil
}
