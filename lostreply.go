package dltbatch

import (
	"context"
	"errors"
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
func (e *engine) lostReply(ctx context.Context, w inhand.Recorded) store.Applied {
	a := w.Applied
	if a.From != a.Row.State {
		return a // the second try wrote it
	}
	switch moved := a.Row.Version == w.Version+1; { // a row that was asked about, or claimed, was open
	case moved && w.Was != nil:
		a.From = w.Was.State
	case moved && w.By == batch.BySubmitter:
		a.From = batch.Submitting
	case e.decidedBefore(ctx, w.Key):
		a.From = batch.Invalid
		if a.Row.State == batch.Committed {
			a.Breach, a.Err = true, errMayBreach
		}
	}
	if w.Finding == store.NotCommitted {
		a.Halt = w.Halt
	}
	a.Halted = a.Governs() && (a.Halted || e.halted(ctx, a, w.Policy))
	return a
}

// decidedBefore reports whether the store has a report of a failed attempt or of a verdict against
// a batch, or an operator's act, or may have one: without these the batch was never final.
func (e *engine) decidedBefore(ctx context.Context, key batch.Key) bool {
	var reports []batch.Report
	var acts []batch.Act
	err := e.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		if reports, err = e.r.store.Attempts(ctx, key); err == nil {
			acts, err = e.r.store.History(ctx, key)
		}
		return err
	})
	return err != nil || len(reports)+len(acts) > 0
}

// halted reports whether an outcome halted its lane, or may have.
func (e *engine) halted(ctx context.Context, a store.Applied, by batch.Policy) bool {
	var c batch.Control
	err := e.read(ctx, "lost reply", func(ctx context.Context) (err error) {
		c, err = e.r.store.Control(ctx, batch.Only(a.Key.Service))
		return err
	})
	if err != nil {
		return !errors.Is(err, store.ErrUnsupported) // such a store halts nothing
	}
	a, _ = a.Enforce(c, by, time.Now())
	return !c.HaltedAt.IsZero() && (a.Halted || c.HaltedBy == a.Key.ID)
}

// read reads from the store for an event, and tries again until ctx is done.
func (e *engine) read(ctx context.Context, what string, from func(context.Context) error) error {
	return loop.Retry(ctx, func(err error) { e.r.trouble(what, err) }, func() error {
		err := from(ctx)
		if errors.Is(err, store.ErrUnsupported) || errors.Is(err, batch.ErrNotFound) {
			return loop.Final(err)
		}
		return err
	})
}
