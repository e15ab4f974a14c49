package autobatch

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/traces"
)

// withTraceParents returns orders with their trace contexts: their own, or else the caller's.
func (e *Engine) withTraceParents(ctx context.Context, orders []order.Order) []order.Order {
	return traces.Traced(ctx, &e.traces, e.options.TraceParent, orders, func(o *order.Order) *string { return &o.TraceParent })
}

// traceParentOf returns the trace context of a new batch: the Builder's, or else TraceBatch's.
func (e *Engine) traceParentOf(ctx context.Context, b batch.Batch, orders []order.Order) string {
	if b.TraceParent != "" || e.options.TraceBatch == nil {
		return e.traces.Valid(b.TraceParent)
	}
	return e.traces.Ask(func() string { return e.options.TraceBatch(ctx, orders) })
}
