package otelbatch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// TraceBatch is [autobatch.Options].TraceBatch: it makes the span in whose trace the batch's spans
// are. That is a child of the first order's context that was sampled, with a link to each of them.
// Where no order was sampled, the batch has no context.
func (t *Traces) TraceBatch(_ context.Context, orders []order.Order) string {
	var links []trace.Link
	for _, o := range orders {
		links = appendLink(links, o.TraceParent)
	}
	if len(links) == 0 {
		return ""
	}
	ctx, s := t.startJoined(trace.SpanKindInternal, spanBuild, links, attribute.Int("dltbatch.build.orders", len(orders)))
	s.End()
	return TraceParent(ctx)
}

// ObserveOrders is [autobatch.Options].Observer: it makes a span for each order that has become
// final, from its Add to now. The span has a link to the context of the order's batch, unless the
// order expired before it was part of one. The start of the span is on the database's clock, its
// end on this process's.
func (t *Traces) ObserveOrders(e autobatch.OrderEvent) {
	if e.Kind != autobatch.EventSettled && e.Kind != autobatch.EventRefused && e.Kind != autobatch.EventExpired {
		return
	}
	now, of := time.Now(), appendLink(nil, e.TraceParent)
	for _, v := range e.Orders {
		caller := sampledContext(v.TraceParent)
		if !v.State.Final() || !caller.IsValid() {
			continue
		}
		from, failure := v.Created, ""
		if from.IsZero() || from.After(now) {
			from = now
		}
		if v.State != order.Confirmed {
			failure = v.State.String()
		}
		t.traceSpan(caller, spanOrder, from, now, failure, trace.WithAttributes(attribute.String("dltbatch.state", v.State.String())), trace.WithLinks(of...))
	}
}
