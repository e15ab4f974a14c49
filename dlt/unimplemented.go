package dlt

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
)

// Unimplemented has the methods of a [Ledger] that a client need not have. A client embeds it and
// writes those methods that its ledger can provide; its Traits declare them. Each method here
// fails with an error that wraps [errors.ErrUnsupported], and sends nothing. The engine calls such
// a method only if the traits declare a method that the client does not have.
type Unimplemented struct{}

// SubmitList fails: no batch was sent.
func (Unimplemented) SubmitList(context.Context, []batch.Attempt) error {
	return unimplementedError("submit list", ErrMisconfigured)
}

// Prepare fails.
func (Unimplemented) Prepare(context.Context, batch.Attempt) ([]byte, error) {
	return nil, unimplementedError("prepare", ErrMisconfigured)
}

// Resolve fails.
func (Unimplemented) Resolve(context.Context, Doubt) (Evidence, error) {
	return CannotTell, unimplementedError("resolve", ErrMisconfigured)
}

// Events fails.
func (Unimplemented) Events(context.Context, []batch.ServiceID, func(Event) error) error {
	return unimplementedError("events", ErrStreamLost)
}

// Check fails.
func (Unimplemented) Check(batch.Batch) error { return unimplementedError("check", ErrMisconfigured) }

func unimplementedError(op string, kind error) error {
	return &Error{Op: op, Kind: kind, Message: "the client's traits declare a method that it does not have", Err: errors.ErrUnsupported}
}
