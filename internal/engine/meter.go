package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// callReporter reports calls to Options.Calls; nil reports nothing.
type callReporter func(context.Context, batch.Call)

// meter makes the calls to the store, or to the ledger. It contains their panics, reports them to
// Options.Calls, and records for Health how the calls of a Run's loops went.
type meter struct {
	partName   string // batch.Call.Part
	reportCall callReporter
	vitals     *vitals          // vitals of the Run; nil outside of loops
	wholePart  *partCalls       // the part of vitals for all calls
	ledger     string           // the ledger whose health the calls show; "" for the store
	isAnswer   func(error) bool // reports whether an error is an answer, so that the call succeeded for Health
}

// call makes a call of the loop of, about *items items, a number that f may change. A panic is the
// call's error. also is a further part of Health to which the call belongs, or nil.
func (m meter) call(ctx context.Context, of, op string, items *int, also *partCalls, f func() error) error {
	began := time.Now()
	var parts [3]*partCalls
	if m.vitals != nil {
		parts = m.vitals.begin(began, m.wholePart, loopOf{of, m.ledger}, also)
	}
	answered := false
	err := loop.Contain(func() error {
		err := f()
		if err != nil { // the error's methods are not the engine's code
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
	if m.reportCall != nil {
		m.reportCall(ctx, batch.Call{Part: m.partName, Op: op, Items: *items, Took: now.Sub(began), Err: err})
	}
	return err
}
