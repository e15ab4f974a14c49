package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

var errMaybeBreach = errors.New("the store's answer was lost: the batch may have been final before")

// answerAfterLostReply returns the answer to an outcome whose first answer from the store may have
// been lost. The second answer has the row as it is now, and not how the first write found it. A
// breach or halt that is possible is reported, since nothing else reports it.
func (r *Run) answerAfterLostReply(ctx context.Context, w inhand.Recorded) store.Applied {
	a := w.Applied
	if a.From != a.Row.State {
		return a // the second write made the change
	}
	switch moved := a.Row.Version == w.Version+1; { // the row was open when it was asked about, or claimed
	case moved && w.Was != nil:
		a.From = w.Was.State
	case moved && w.By == batch.BySubmitter:
		a.From = batch.Submitting
	case r.wasFinalBefore(ctx, w.Key, a.Row):
		a.From = batch.Invalid
		if a.Row.State == batch.Committed {
			a.Breach, a.Err = true, errMaybeBreach
		}
	}
	a.Halt = w.Halt // the store's second answer has no halt
	a.Stuck = a.Stuck || calledAPerson(w)
	a.Halted = a.Governs() && (a.Halted || r.mayHalt(ctx, a, w.Policy))
	return a
}

// reportMovedOn reports the events of an outcome whose first answer may have been lost, if the row
// has changed further before the repeated write, which was fenced. Nothing else reports them. The
// row, its reports and acts, and the lane's control show whether the first write was made.
func (r *Run) reportMovedOn(ctx context.Context, w inhand.Recorded) {
	row := w.Applied.Row
	event := batch.Event{
		Kind: batch.EventState, Key: w.Key, State: row.State, From: batch.Submitting, By: w.By, Attempt: w.Attempt,
		Err: asError(w.Error), TraceParent: w.Applied.TraceParent,
	}
	ended := w.Finding == store.Refused
	if w.Was != nil {
		event.From = w.Was.State
		next, would := w.Was.Apply(w.Outcome, time.Now())
		ended = would.Result == store.Written && next.Final()
	}
	if ended {
		if event.State, ended = r.finalStateMade(ctx, w); ended {
			event.Kind = batch.EventFinal
			r.Report(event)
		}
	}
	if ended || w.Halt != "" {
		if c, err := r.control(ctx, w.Key.Service); err == nil && !c.HaltedAt.IsZero() && c.HaltedBy == w.Key.ID {
			r.reportHalt(event, c.HaltReason)
		}
	}
	if calledAPerson(w) {
		event.Kind, event.State, event.Err = batch.EventDecision, row.State, errors.New(row.Decision)
		r.Report(event)
	}
}

// calledAPerson reports whether an outcome called a person, as far as its row shows.
func calledAPerson(w inhand.Recorded) bool {
	may := w.Finding == store.Undecidable || w.StuckAfter > 0
	return may && w.Applied.Row.Called() && (w.Was == nil || !w.Was.Called())
}

// finalStateMade reports whether an outcome made its batch final, and in which state. The batch is
// final still, or a person requeued it after the outcome's report was stored.
func (r *Run) finalStateMade(ctx context.Context, w inhand.Recorded) (state batch.State, ended bool) {
	if row := w.Applied.Row; row.Final() {
		return row.State, row.State != batch.Committed // the commit was reported as final
	}
	reports, acts, err := r.reportsAndActs(ctx, w.Key)
	if err != nil {
		return 0, false
	}
	for _, act := range acts {
		if act.Action == batch.ActionRequeue && slices.ContainsFunc(reports, func(b batch.Report) bool {
			return b.Attempt == w.Attempt && !b.At.After(act.At) && (w.Report == nil || b.Instance == w.Report.Instance && b.Kind == w.Report.Kind)
		}) {
			return act.From, true
		}
	}
	return 0, false
}

// wasFinalBefore reports whether the batch of a row may have been final before. The store then has
// a report of a verdict against it or of an attempt that used up its budget, or an operator's act.
// If the store gives no answer in time, that is reported as trouble.
func (r *Run) wasFinalBefore(ctx context.Context, key batch.Key, row store.Row) bool {
	reports, acts, err := r.reportsAndActs(ctx, key)
	switch {
	case ctx.Err() != nil: // many replies were lost: one trouble is better than a breach for each batch
		r.Trouble("lost reply", fmt.Errorf("was %s final before it was committed? %w", key, err))
		return false
	case err != nil:
		return true
	}
	return len(acts) > 0 || slices.ContainsFunc(reports, func(b batch.Report) bool {
		return row.Spent > 0 || b.Kind == batch.KindRejected || b.Kind == batch.KindInvalid || b.Kind == batch.KindExhausted
	})
}

// mayHalt reports whether an outcome has halted its lane, or may have.
func (r *Run) mayHalt(ctx context.Context, a store.Applied, by batch.Policy) bool {
	c, err := r.control(ctx, a.Key.Service)
	if err != nil {
		return !errors.Is(err, store.ErrUnsupported) // a store without controls halts nothing
	}
	a, _ = a.Enforce(c, by, time.Now())
	return !c.HaltedAt.IsZero() && (a.Halted || c.HaltedBy == a.Key.ID)
}

// reportsAndActs returns the stored reports of a batch's attempts, and the acts of operators on
// the batch.
func (r *Run) reportsAndActs(ctx context.Context, key batch.Key) (reports []batch.Report, acts []batch.Act, err error) {
	err = r.readUntilDone(ctx, "lost reply", func(ctx context.Context) (err error) {
		if reports, err = r.store.Attempts(ctx, key); err == nil {
			acts, err = r.store.History(ctx, key)
		}
		return err
	})
	return reports, acts, err
}

// control returns the control of a lane.
func (r *Run) control(ctx context.Context, s batch.ServiceID) (c batch.Control, err error) {
	err = r.readUntilDone(ctx, "lost reply", func(ctx context.Context) (err error) {
		c, err = r.store.Control(ctx, batch.Only(s))
		return err
	})
	return c, err
}

// readUntilDone reads from the store for an event, and repeats a failed read until ctx is done.
func (r *Run) readUntilDone(ctx context.Context, what string, from func(context.Context) error) error {
	return loop.Retry(ctx, func(err error) { r.Trouble(what, err) }, func() error {
		err := from(ctx)
		if errors.Is(err, store.ErrUnsupported) || errors.Is(err, batch.ErrNotFound) {
			return loop.Final(err)
		}
		return err
	})
}
