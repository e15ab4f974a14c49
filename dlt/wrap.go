package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// Hooks are called instead of the methods of a wrapped [Ledger]. A nil hook leaves its method
// as it is. next is the method of the inner ledger: a hook may call it at any point, once,
// never, or with other arguments. A hook whose method the inner ledger does not have is never
// called.
type Hooks struct {
	Traits        func(service batch.ServiceID, next func(batch.ServiceID) Traits) Traits
	Submit        func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error
	BatchStatuses func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt,
		next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error)
	SubmitList func(ctx context.Context, list []batch.Attempt, next func(context.Context, []batch.Attempt) error) error
	Resolve    func(ctx context.Context, d Doubt, next func(context.Context, Doubt) (Evidence, error)) (Evidence, error)
	Events     func(ctx context.Context, services []batch.ServiceID, yield func(Event) error,
		next func(context.Context, []batch.ServiceID, func(Event) error) error) error
	Check   func(b batch.Batch, next func(batch.Batch) error) error
	Prepare func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error)
}

// Wrap returns l with its methods replaced where h has a hook. Its result implements exactly
// the interfaces of [Resolver], [EventSource], [Checker], [Preparer] and [ListSubmitter] that
// l implements; a struct that embeds a Ledger would lose them all. Wrap is for faults and
// observations, in tests and elsewhere.
func Wrap(l Ledger, h Hooks) Ledger {
	w := wrapped{l, h}
	has := 0
	var r Resolver
	if inner, ok := l.(Resolver); ok {
		has, r = has|resolves, wrappedResolver{inner, h}
	}
	var e EventSource
	if inner, ok := l.(EventSource); ok {
		has, e = has|streams, wrappedSource{inner, h}
	}
	var c Checker
	if inner, ok := l.(Checker); ok {
		has, c = has|checks, wrappedChecker{inner, h}
	}
	var p Preparer
	if inner, ok := l.(Preparer); ok {
		has, p = has|prepares, wrappedPreparer{inner, h}
	}
	var s ListSubmitter
	if inner, ok := l.(ListSubmitter); ok {
		has, s = has|lists, wrappedLister{inner, h}
	}
	return exactly(has, w, r, e, c, p, s)
}

type wrapped struct {
	Ledger
	h Hooks
}

func (w wrapped) Traits(service batch.ServiceID) Traits {
	if w.h.Traits == nil {
		return w.Ledger.Traits(service)
	}
	return w.h.Traits(service, w.Ledger.Traits)
}

func (w wrapped) Submit(ctx context.Context, a batch.Attempt) error {
	if w.h.Submit == nil {
		return w.Ledger.Submit(ctx, a)
	}
	return w.h.Submit(ctx, a, w.Ledger.Submit)
}

func (w wrapped) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	if w.h.BatchStatuses == nil {
		return w.Ledger.BatchStatuses(ctx, service, attempts)
	}
	return w.h.BatchStatuses(ctx, service, attempts, w.Ledger.BatchStatuses)
}

type wrappedResolver struct {
	inner Resolver
	h     Hooks
}

func (w wrappedResolver) Resolve(ctx context.Context, d Doubt) (Evidence, error) {
	if w.h.Resolve == nil {
		return w.inner.Resolve(ctx, d)
	}
	return w.h.Resolve(ctx, d, w.inner.Resolve)
}

type wrappedSource struct {
	inner EventSource
	h     Hooks
}

func (w wrappedSource) Events(ctx context.Context, services []batch.ServiceID, yield func(Event) error) error {
	if w.h.Events == nil {
		return w.inner.Events(ctx, services, yield)
	}
	return w.h.Events(ctx, services, yield, w.inner.Events)
}

type wrappedChecker struct {
	inner Checker
	h     Hooks
}

func (w wrappedChecker) Check(b batch.Batch) error {
	if w.h.Check == nil {
		return w.inner.Check(b)
	}
	return w.h.Check(b, w.inner.Check)
}

type wrappedPreparer struct {
	inner Preparer
	h     Hooks
}

func (w wrappedPreparer) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	if w.h.Prepare == nil {
		return w.inner.Prepare(ctx, a)
	}
	return w.h.Prepare(ctx, a, w.inner.Prepare)
}

type wrappedLister struct {
	inner ListSubmitter
	h     Hooks
}

func (w wrappedLister) SubmitList(ctx context.Context, list []batch.Attempt) error {
	if w.h.SubmitList == nil {
		return w.inner.SubmitList(ctx, list)
	}
	return w.h.SubmitList(ctx, list, w.inner.SubmitList)
}
