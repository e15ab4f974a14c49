package events

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/traces"
	"github.com/dltbatch/dltbatch/store"
)

// Traced returns the batches with their trace contexts: their own, or else the caller's. It drops
// and counts a context that is not valid, and does not change the caller's slice.
func (r *Reporter) Traced(ctx context.Context, batches []batch.Batch) []batch.Batch {
	return traces.Traced(ctx, &r.traces, r.options.TraceParent, batches, func(b *batch.Batch) *string { return &b.TraceParent })
}

// TraceRequest returns the function that begins the span of a POST, or nil if Options.TraceRequest
// is not set.
func (r *Reporter) TraceRequest() func(context.Context, []store.Claim) (context.Context, func(error)) {
	if r.options.TraceRequest == nil {
		return nil
	}
	return func(ctx context.Context, claims []store.Claim) (context.Context, func(error)) {
		parents := make([]string, len(claims))
		for i, c := range claims {
			parents[i] = c.TraceParent
		}
		with := ctx
		var end func(error)
		r.contain(ctx, "TraceRequest", func() {
			c, e := r.options.TraceRequest(ctx, parents)
			if end = e; c != nil {
				with = c //nolint:fatcontext // it is called once for each POST
			}
		})
		if end == nil {
			return with, nil
		}
		return with, func(err error) { r.contain(ctx, "TraceRequest", func() { end(err) }) }
	}
}
