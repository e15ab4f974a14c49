package autobatch

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// traces finds the trace contexts of orders and of their batches, and drops bad ones.
type traces struct {
	o       *Options
	dropped atomic.Uint64
}

// orders returns the orders with their contexts: their own, or else the caller's. It leaves the
// caller's slice as it is, and returns it where nothing changes.
func (t *traces) orders(ctx context.Context, orders []order.Order) []order.Order {
	callers := ""
	if t.o.TraceParent != nil && len(orders) > 0 {
		callers = t.ask(func() string { return t.o.TraceParent(ctx) })
	}
	out, mine := orders, false
	for i := range orders {
		want := callers
		if own := orders[i].TraceParent; own != "" {
			want = t.valid(own)
		}
		if want == orders[i].TraceParent {
			continue
		}
		if !mine {
			out, mine = slices.Clone(orders), true
		}
		out[i].TraceParent = want
	}
	return out
}

// batch returns the context of a new batch: the Builder's, or else the context of TraceBatch.
func (t *traces) batch(ctx context.Context, b batch.Batch, orders []order.Order) string {
	if b.TraceParent != "" || t.o.TraceBatch == nil {
		return t.valid(b.TraceParent)
	}
	return t.ask(func() string { return t.o.TraceBatch(ctx, orders) })
}

// ask calls a function of the application, and contains a panic in it.
func (t *traces) ask(f func() string) (parent string) {
	if err := loop.Contain(func() error { parent = f(); return nil }); err != nil {
		t.dropped.Add(1)
		return ""
	}
	return t.valid(parent)
}

// valid returns parent if it is a trace context, or "".
func (t *traces) valid(parent string) string {
	if parent == "" || batch.ValidTraceParent(parent) {
		return parent
	}
	t.dropped.Add(1)
	return ""
}
