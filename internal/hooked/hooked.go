// Package hooked wraps ledgers in tests, with functions in place of methods.
package hooked

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Hooks are called instead of the methods of a ledger. next is the method itself. A nil hook
// leaves its method as it is.
type Hooks struct {
	Traits        func(s batch.ServiceID, next func(batch.ServiceID) dlt.Traits) dlt.Traits
	Submit        func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error
	SubmitList    func(ctx context.Context, list []batch.Attempt, next func(context.Context, []batch.Attempt) error) error
	BatchStatuses func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt,
		next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error)
	Prepare func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error)
	Resolve func(ctx context.Context, d dlt.Doubt, next func(context.Context, dlt.Doubt) (dlt.Evidence, error)) (dlt.Evidence, error)
	Events  func(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error,
		next func(context.Context, []batch.ServiceID, func(dlt.Event) error) error) error
}

// Wrap returns l with its methods replaced where h has a hook.
func Wrap(l dlt.Ledger, h Hooks) dlt.Ledger { return ledger{l, h} }

type ledger struct {
	dlt.Ledger
	h Hooks
}

func (l ledger) Traits(s batch.ServiceID) dlt.Traits {
	if l.h.Traits == nil {
		return l.Ledger.Traits(s)
	}
	return l.h.Traits(s, l.Ledger.Traits)
}

func (l ledger) Submit(ctx context.Context, a batch.Attempt) error {
	if l.h.Submit == nil {
		return l.Ledger.Submit(ctx, a)
	}
	return l.h.Submit(ctx, a, l.Ledger.Submit)
}

func (l ledger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	if l.h.SubmitList == nil {
		return l.Ledger.SubmitList(ctx, list)
	}
	return l.h.SubmitList(ctx, list, l.Ledger.SubmitList)
}

func (l ledger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	if l.h.BatchStatuses == nil {
		return l.Ledger.BatchStatuses(ctx, s, attempts)
	}
	return l.h.BatchStatuses(ctx, s, attempts, l.Ledger.BatchStatuses)
}

func (l ledger) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	if l.h.Prepare == nil {
		return l.Ledger.Prepare(ctx, a)
	}
	return l.h.Prepare(ctx, a, l.Ledger.Prepare)
}

func (l ledger) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	if l.h.Resolve == nil {
		return l.Ledger.Resolve(ctx, d)
	}
	return l.h.Resolve(ctx, d, l.Ledger.Resolve)
}

func (l ledger) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	if l.h.Events == nil {
		return l.Ledger.Events(ctx, services, yield)
	}
	return l.h.Events(ctx, services, yield, l.Ledger.Events)
}
