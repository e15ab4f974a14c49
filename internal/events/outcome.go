package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// Claimed reports a run that is about to be posted.
func (r *Run) Claimed(ctx context.Context, run store.ClaimedRun) {
	r.reportSentBehind(ctx, run)
	for _, c := range run.Batches {
		r.Report(batch.Event{Kind: batch.EventClaimed, Key: c.Key, State: batch.Submitting, From: c.From, By: batch.ByQueuer, Attempt: c.Attempt, Again: c.Again, SinceAdded: waitedFor(c), TraceParent: c.TraceParent})
	}
}

// Written reports the store's answer to an outcome: written, fenced, or held back.
func (r *Run) Written(ctx context.Context, w inhand.Recorded) {
	if w.Again && w.Applied.Result == store.Written {
		w.Applied = r.answerAfterLostReply(ctx, w)
	}
	key, row := w.Key, w.Applied.Row
	switch w.Applied.Result {
	case store.Bad:
		r.Trouble("store", w.Applied.Err)
		return
	case store.Held: // the outcome is written again
		return
	case store.Gone, store.Fenced:
		late := attributes(batch.Event{Key: key, Attempt: w.Attempt})
		r.log.LogAttrs(ctx, slog.LevelDebug, lineLate, append(late, slog.String("finding", w.Finding.String()))...)
		if w.Again && w.Applied.Result == store.Fenced {
			r.reportMovedOn(ctx, w)
		}
		return
	}
	if w.Finding == store.HasReceipts { // the commit was reported already
		return
	}
	if row.State == batch.Committed {
		r.conditions.setReleased(key.Service)
	}
	if row.State == batch.Committed && w.Applied.From == batch.Committed && !w.Again {
		r.options.Final(key) // another process recorded it, and reports it
		return
	}
	if w.By == batch.BySubmitter && w.Finding == store.IsCommitted && w.Applied.From == batch.Submitting { // acceptance and commit in one
		accepted := batch.Event{Kind: batch.EventState, Key: key, State: batch.Pending, From: batch.Submitting, By: w.By, Attempt: row.Attempt, TraceParent: w.Applied.TraceParent}
		accepted.SinceAdded = timeBetween(w.Applied.Created, row.LastPost)
		addPost(&accepted, w.Outcome)
		r.Report(accepted)
	}
	breach := r.overtakenError(ctx, w.Outcome, w.Applied)
	event := eventOf(w, breach)
	event.TakenOver = r.wasTakenOver(w)
	if breach != nil && row.State != batch.Committed {
		also := event
		also.Kind, also.Err = batch.EventOrderBreach, breach
		r.Report(also)
	}
	switch {
	case row.Final():
		r.options.Final(key)
	case w.Finding == store.Accepted:
		r.conditions.setReleased(key.Service) // the lane was released
	}
	if w.Applied.Stuck || !changedNoState(w) {
		r.Report(event)
	}
	switch {
	case w.Applied.Halted:
		r.reportHalt(event, w.Applied.Halt)
	case row.Quarantined && event.Kind == batch.EventFinal:
		event.Kind = batch.EventQuarantined
		r.Report(event)
	}
}

// reportHalt reports that a batch halted its lane: by the policy or, if why says so, because the
// ledger took the batch back again and again.
func (r *Run) reportHalt(event batch.Event, why string) {
	event.Kind = batch.EventHalted
	if why != "" {
		event.Err = errors.New(why)
		r.conditions.setHalted(event.Key.Service)
	}
	r.Report(event)
}

// changedNoState reports whether an outcome changed no state. It may have changed which node has
// shown the batch, put off the deadline, or given the reason why a person, who was called before,
// has to decide about this attempt, too.
func changedNoState(w inhand.Recorded) bool {
	switch w.Finding {
	case store.IsPending:
		return w.Applied.From == batch.Pending
	case store.IsValid: // a rollback is counted
		return w.Applied.From == batch.Valid
	case store.PutOff, store.Undecidable:
		return true
	}
	return false
}

// wasTakenOver reports whether the outcome is the first about an attempt that another instance
// left behind.
func (r *Run) wasTakenOver(w inhand.Recorded) bool {
	was := w.Was
	return was != nil && w.By == batch.ByMonitor && was.State == batch.Submitting && was.ClaimedBy != r.options.Instance &&
		!was.ClaimExpires.Equal(was.LastPost) && !was.Undecided()
}

// eventOf returns the event for an outcome that was written.
func eventOf(w inhand.Recorded, breach error) batch.Event {
	row := w.Applied.Row
	event := batch.Event{
		Kind: batch.EventState, Key: w.Key, State: row.State, From: w.Applied.From, By: w.By, Attempt: row.Attempt, Err: asError(row.Error),
		TraceParent: w.Applied.TraceParent,
	}
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
	case w.Applied.Stuck:
		event.Kind, event.Err = batch.EventDecision, errors.New(row.Decision)
		if w.Error != nil {
			event.Err = w.Error // the error has the same text
		}
	case w.Finding == store.Doubtful || (row.State == batch.Submitting && w.Finding != store.Undecidable):
		event.Kind = batch.EventInDoubt
	}
	at := w.Applied.At
	if row.Final() {
		at = row.FinalAt
	}
	event.SinceAdded = timeBetween(w.Applied.Created, at)
	if !w.Query.Answered.IsZero() {
		event.QueryTook, event.SinceQuery = w.Query.Took, time.Since(w.Query.Answered)
	}
	switch {
	case w.By == batch.ByMonitor:
		event.SincePosted = timeBetween(row.LastPost, at)
	case w.Finding != store.IsCommitted:
		addPost(&event, w.Outcome)
	case !w.Post.Answered.IsZero(): // the row has only the time of the write
		event.SincePosted = time.Since(w.Post.Answered)
	}
	return event
}

// addPost adds the POST whose answer caused an event to the event.
func addPost(e *batch.Event, o store.Outcome) {
	e.Took, e.InRequest = o.Post.Took, o.Post.Batches
	if !o.Post.Answered.IsZero() {
		e.SinceAnswered = time.Since(o.Post.Answered)
	}
	if o.Report != nil {
		addPostError(e, *o.Report)
	}
}

// timeBetween returns the time from one moment of the database's clock to another. It is 0 if one
// of them is not known, or if the clock was put back in between.
func timeBetween(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from))
}

// waitedFor returns the time from Add to the claim.
func waitedFor(c store.Claim) time.Duration {
	if c.Was == nil {
		return 0
	}
	return timeBetween(c.Created, c.Was.ClaimExpires.Add(-c.Was.ClaimTTL))
}

func asError(e *batch.SubmissionError) error {
	if e == nil {
		return nil
	}
	return e
}
