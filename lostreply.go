package dltbatch

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

var errMayBreach = errors.New("the store's answer was lost: the batch may have been final before")

// lostReply returns the store's answer to an outcome whose first answer may have been lost: the
// second answer says how the row is now, and not how the first write found it. An uncertain
// breach or halt counts as one, since nobody else reports it.
func (n *notices) lostReply(ctx context.Context, w inhand.Recorded) store.Applied {
	a := w.Applied
	if a.From != a.Row.State {
		return a // the second try wrote it
	}
	switch moved := a.Row.Version == w.Version+1; { // a row that was asked about, or claimed, was open
	case moved && w.Was != nil:
		a.From = w.Was.State
	case moved && w.By == batch.BySubmitter:
		a.From = batch.Submitting
	case n.finalBefore(ctx, w.Key, a.Row):
		a.From = batch.Invalid
		if a.Row.State == batch.Committed {
			a.Breach, a.Err = true, errMayBreach
		}
	}
	a.Halt = w.Halt // of whatever finding: the store's second answer names no halt
	a.Stuck = a.Stuck || mayCall(w) && a.Row.Called() && (w.Was == nil || !w.Was.Called())
	a.Halted = a.Governs() && (a.Halted || n.halted(ctx, a, w.Policy))
	return a
}

// movedOn reports the events of an outcome whose first answer may have been lost, where the row has
// moved on by more than this outcome before the repetition, which was fenced: nobody else reports
// them. The row, its reports and acts and the lane's control say whether the first write was done.
func (n *notices) movedOn(ctx context.Context, w inhand.Recorded) {
	row, event := w.Applied.Row, batch.Event{
		Kind: batch.EventState, Key: w.Key, State: w.Applied.Row.State, From: batch.Submitting, By: w.By, Attempt: w.Attempt,
		Err: asError(w.Error), TraceParent: w.Applied.TraceParent,
	}
	ended := w.Finding == store.Refused
	if w.Was != nil {
		event.From = w.Was.State
		next, would := w.Was.Apply(w.Outcome, time.Now())
		ended = would.Result == store.Written && next.Final()
	}
	if ended {
		if event.State, ended = n.ended(ctx, w); ended {
			event.Kind = batch.EventFinal
			n.r.report(event)
		}
	}
	if ended || w.Halt != "" {
		n.reportHalt(ctx, w, event)
	}
	if mayCall(w) && row.Called() && (w.Was == nil || !w.Was.Called()) {
		event.Kind, event.State, event.Err = batch.EventDecision, row.State, errors.New(row.Decision)
		n.r.report(event)
	}
}

// mayCall reports whether an outcome may call a person.
func mayCall(w inhand.Recorded) bool { return w.Finding == store.Undecidable || w.StuckAfter > 0 }

// ended reports whether an outcome made its batch final, and in which state: the row still is, or a
// person requeued the batch since the outcome's report was stored.
func (n *notices) ended(ctx context.Context, w inhand.Recorded) (state batch.State, ended bool) {
	if row := w.Applied.Row; row.Final() {
		return row.State, row.State != batch.Committed // the commit was reported as final
	}
	var reports []batch.Report
	var acts []batch.Act
	err := n.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		if reports, err = n.r.engine.Store().Attempts(ctx, w.Key); err == nil {
			acts, err = n.r.engine.Store().History(ctx, w.Key)
		}
		return err
	})
	if err != nil {
		return 0, false
	}
	for _, act := range acts {
		if act.Action == batch.ActionRequeue && slices.ContainsFunc(reports, func(r batch.Report) bool {
			return r.Attempt == w.Attempt && !r.At.After(act.At) && (w.Report == nil || r.Instance == w.Report.Instance && r.Kind == w.Report.Kind)
		}) {
			return act.From, true
		}
	}
	return 0, false
}

// reportHalt reports that a lane was halted by the batch of an outcome, if it still is.
func (n *notices) reportHalt(ctx context.Context, w inhand.Recorded, event batch.Event) {
	var c batch.Control
	err := n.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		c, err = n.r.engine.Store().Control(ctx, batch.Only(w.Key.Service))
		return err
	})
	if err != nil || c.HaltedAt.IsZero() || c.HaltedBy != w.Key.ID {
		return
	}
	event.Kind = batch.EventHalted
	if c.HaltReason != "" {
		event.Err = errors.New(c.HaltReason)
		n.r.news.mark(&n.r.news.halted, w.Key.Service, true)
	}
	n.r.report(event)
}

// finalBefore reports whether the batch of a row may have been final before. Then the store has a
// report of a verdict against it, of an attempt that spent its budget, or an operator's act. If the
// store gives no answer in time, that is reported as trouble.
func (n *notices) finalBefore(ctx context.Context, key batch.Key, row store.Row) bool {
	var reports []batch.Report
	var acts []batch.Act
	err := n.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		if reports, err = n.r.engine.Store().Attempts(ctx, key); err == nil {
			acts, err = n.r.engine.Store().History(ctx, key)
		}
		return err
	})
	switch {
	case ctx.Err() != nil: // many replies were lost: better one trouble than a breach for each batch
		n.r.trouble("lost reply", fmt.Errorf("was %s final before it was committed? %w", key, err))
		return false
	case err != nil:
		return true
	}
	return len(acts) > 0 || slices.ContainsFunc(reports, func(r batch.Report) bool {
		return row.Spent > 0 || r.Kind == batch.KindRejected || r.Kind == batch.KindInvalid || r.Kind == batch.KindExhausted
	})
}

// halted reports whether an outcome halted its lane, or may have.
func (n *notices) halted(ctx context.Context, a store.Applied, by batch.Policy) bool {
	var c batch.Control
	err := n.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		c, err = n.r.engine.Store().Control(ctx, batch.Only(a.Key.Service))
		return err
	})
	if err != nil {
		return !errors.Is(err, store.ErrUnsupported) // such a store halts nothing
	}
	a, _ = a.Enforce(c, by, time.Now())
	return !c.HaltedAt.IsZero() && (a.Halted || c.HaltedBy == a.Key.ID)
}

// read reads from the store for an event, and tries again until ctx is done.
func (n *notices) read(ctx context.Context, what string, from func(context.Context) error) error {
	return loop.Retry(ctx, func(err error) { n.r.trouble(what, err) }, func() error {
		err := from(ctx)
		if errors.Is(err, store.ErrUnsupported) || errors.Is(err, batch.ErrNotFound) {
			return loop.Final(err)
		}
		return err
	})
}
