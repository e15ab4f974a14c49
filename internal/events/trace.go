package events

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Traced returns the batches with their trace contexts: their own, or else the caller's. It drops and
// counts a context that is not valid, and leaves the caller's slice as it is. Where there is no
// context it returns the caller's slice, and allocates nothing.
func (r *Reporter) Traced(ctx context.Context, batches []batch.Batch) []batch.Batch {
	callers := ""
	if r.o.TraceParent != nil && len(batches) > 0 {
		callers = r.validTrace(r.callersTrace(ctx))
	}
	out, mine := batches, false
	for i := range batches {
		want := callers
		if own := batches[i].TraceParent; own != "" {
			want = r.validTrace(own)
		}
		if want == batches[i].TraceParent {
			continue
		}
		if !mine {
			out, mine = slices.Clone(batches), true
		}
		out[i].TraceParent = want
	}
	return out
}

// callersTrace asks Options.TraceParent, and contains a panic in it.
func (r *Reporter) callersTrace(ctx context.Context) (s string) {
	if err := loop.Contain(func() error { s = r.o.TraceParent(ctx); return nil }); err != nil {
		r.droppedTraces.Add(1)
		return ""
	}
	return s
}

// TraceRequest returns the function that begins the span of a POST; nil where nobody wants one.
func (r *Reporter) TraceRequest() func(context.Context, []store.Claim) (context.Context, func(error)) {
	if r.o.TraceRequest == nil {
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
			c, e := r.o.TraceRequest(ctx, parents)
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

// validTrace returns s if it is a trace context, or "".
func (r *Reporter) validTrace(s string) string {
	if s == "" || batch.ValidTraceParent(s) {
		return s
	}
	r.droppedTraces.Add(1)
	return ""
}
