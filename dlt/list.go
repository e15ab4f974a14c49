package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// ListSubmitter is a client that sends several batches of a service in one request. A client
// whose Traits.MaxList is more than 1 implements it. It is for ledgers that accept such a list
// as a whole or not at all. If a ledger may accept a part, as Splinter may
// (docs/ledgers/splinter.md#submitting), its client must send one batch at a time.
type ListSubmitter interface {
	// SubmitList makes one attempt of each batch, at least two, in one request and in their
	// order. nil means that the ledger has accepted all of them. errors.Is distinguishes the
	// failures, which concern all of them together:
	//
	//	ErrRejected       none is accepted, and this list never will be: because of one
	//	                  batch, its size or its length, for example. Each may be sent alone
	//	ErrNotYet         likewise, but none can be now: because of one batch, for example
	//	ErrBusy, ErrUnavailable, ErrMisconfigured
	//	                  certainly none is accepted, as with Submit
	//
	// Any other error is doubt about each of them. SubmitList returns soon after ctx is done
	// and keeps neither list nor payloads.
	SubmitList(ctx context.Context, list []batch.Attempt) error
}
