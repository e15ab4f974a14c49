package dltbatch

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// notices inform the Runner and its observer about claims and outcomes.
type notices struct {
	r       *Runner
	reliant bool // the strategy relies on the ledger's order
}

// claimed informs about a run that is about to be posted.
func (n *notices) claimed(ctx context.Context, run store.ClaimedRun) {
	n.reportSentBehind(ctx, run)
	for _, c := range run.Batches {
		n.r.report(batch.Event{Kind: batch.EventClaimed, Key: c.Key, State: batch.Submitting, Attempt: c.Attempt})
	}
}

// written informs about an outcome that the store has answered about.
func (n *notices) written(ctx context.Context, w inhand.Recorded) {
	if w.Again && w.Applied.Result == store.Written {
		w.Applied = n.lostReply(ctx, w)
	}
	key, row := w.Key, w.Applied.Row
	switch w.Applied.Result {
	case store.Bad:
		n.r.trouble("store", w.Applied.Err)
		return
	case store.Held: // it is written again
		return
	case store.Gone, store.Fenced:
		n.r.o.Logger.DebugContext(context.Background(), "late outcome changed nothing", attrs(key, w.Finding.String())...)
		return
	}
	if row.State == batch.Committed {
		n.r.health.halt(key.Service, false)
	}
	if row.State == batch.Committed && w.Applied.From == batch.Committed && !w.Again {
		n.r.final(key) // somebody else recorded it, and reports it
		return
	}
	if w.By == batch.BySubmitter && w.Finding == store.IsCommitted && w.Applied.From == batch.Submitting { // two outcomes in one
		n.r.report(batch.Event{Kind: batch.EventState, Key: key, State: batch.Pending, Attempt: row.Attempt})
	}
	breach := n.overtaken(ctx, w.Outcome, w.Applied)
	event := eventOf(w, breach)
	if breach != nil && row.State != batch.Committed {
		n.r.breach(key, row.State, row.Attempt, breach)
	}
	switch {
	case row.Final():
		n.r.final(key)
	case w.Finding == store.Accepted:
		n.r.health.halt(key.Service, false) // somebody released it
	}
	if w.Finding == store.IsPending && w.Applied.From == batch.Pending {
		return // no state changed; the row keeps which node has shown the batch
	}
	n.r.report(event)
	if w.Applied.Halted && w.Applied.Result == store.Written {
		event.Kind = batch.EventHalted
		if w.Applied.Halt != "" {
			event.Err = errors.New(w.Applied.Halt)
			n.r.health.halt(key.Service, true)
		}
		n.r.report(event)
	}
	if row.Quarantined && event.Kind == batch.EventFinal {
		event.Kind = batch.EventQuarantined
		n.r.report(event)
	}
}

// eventOf returns the observer's event for an outcome that was written.
func eventOf(w inhand.Recorded, breach error) batch.Event {
	row := w.Applied.Row
	event := batch.Event{Kind: batch.EventState, Key: w.Key, State: row.State, Attempt: row.Attempt, Err: asError(row.Error)}
	switch {
	case w.Applied.Breach:
		event.Kind = batch.EventOrderBreach
		if w.Applied.Err != nil {
			event.Err = w.Applied.Err
		}
	case breach != nil && row.State == batch.Committed:
		event.Kind, event.Err = batch.EventOrderBreach, breach
	case row.Final():
		event.Kind = batch.EventFinal
	case w.Finding == store.Doubtful || (row.State == batch.Submitting && w.Finding != store.Undecidable):
		event.Kind = batch.EventInDoubt
	case w.Finding == store.Undecidable || w.Applied.Stuck:
		event.Kind, event.Err = batch.EventDecision, errors.New(row.Decision)
	}
	return event
}

func asError(e *batch.SubmissionError) error {
	if e == nil {
		return nil
	}
	return e
}
