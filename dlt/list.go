package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// ListSubmitter is a client that sends several batches of a service in one request. One
// whose Traits.MaxList is more than 1 implements it. It is for ledgers that take such a
// list as a whole or not at all; where a part may be taken, as by Splinter
// (docs/ledgers/splinter.md#submitting), one at a time is all there is.
type ListSubmitter interface {
	// SubmitList makes one attempt of each of list, at least two, in one request and in
	// their order. nil means that the ledger has accepted all of them; else errors.Is tells
	// of them together:
	//
	//	ErrRejected       none is taken, and the list as it is never will be: because of one
	//	                  of them, say, of its size or its number. Each may be sent alone
	//	ErrBusy, ErrUnavailable, ErrMisconfigured
	//	                  certainly none is taken, as with Submit
	//
	// Anything else is doubt about each of them. SubmitList returns soon after ctx is done
	// and keeps neither list nor payloads.
	SubmitList(ctx context.Context, list []batch.Attempt) error
}
