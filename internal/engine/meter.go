package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// calls reports calls to Options.Calls; nil reports to nobody.
type calls func(context.Context, batch.Call)

// meter makes the calls to the store, or to the ledger: it contains their panics, tells
// Options.Calls of them, and keeps for Health how those of a Run's loops went.
type meter struct {
	part      string // of batch.Call
	calls     calls
	vitals    *vitals          // of the Run; nil outside of loops
	wholePart *partCalls       // of vitals
	ledger    string           // whose health it is; "" for the store
	isAnswer  func(error) bool // errors that are answers: for Health the call succeeded
}

// call makes a call of a loop, about *items items, a number that f may change. A panic is the
// call's error. also is a further part of Health that the call belongs to, or nil.
func (m meter) call(ctx context.Context, of, op string, items *int, also *partCalls, f func() error) error {
	began := time.Now()
	var parts [3]*partCalls
	if m.vitals != nil {
		parts = m.vitals.begin(began, m.wholePart, loopOf{of, m.ledger}, also)
	}
	answered := false
	err := loop.Contain(func() error {
		err := f()
		if err != nil { // its methods are not the engine's code either
			_, _ = errors.AsType[*dlt.Error](err)
			_ = err.Error()
			answered = m.isAnswer(err)
		}
		return err
	})
	now := time.Now()
	if m.vitals != nil {
		how := err
		if answered {
			how = nil
		}
		m.vitals.end(ctx, parts, began, now, how)
	}
	if m.calls != nil {
		m.calls(ctx, batch.Call{Part: m.part, Op: op, Items: *items, Took: now.Sub(began), Err: err})
	}
	return err
}
