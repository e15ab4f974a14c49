package otelbatch

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Request is [dltbatch.Options].TraceRequest. A POST of several batches gets a span of its own
// where one of them was sampled: a child of the first sampled context, with a link to each of
// them. For a POST of one batch there is the span of the attempt, and Request makes none.
func (t *Traces) Request(ctx context.Context, traceParents []string) (context.Context, func(error)) {
	_, end := t.startRequest(traceParents)
	return ctx, end
}

// SendRequest is Request, and also lets the ledger's client send the header traceparent
// ([dlt.WithTraceParent]): the context of the request's span, or else of the one batch. A ledger
// is a foreign party: it learns which requests belong together.
func (t *Traces) SendRequest(ctx context.Context, traceParents []string) (context.Context, func(error)) {
	if len(traceParents) == 1 {
		if parent := traceParents[0]; batch.ValidTraceParent(parent) {
			ctx = dlt.WithTraceParent(ctx, parent)
		}
		return ctx, nil
	}
	parent, end := t.startRequest(traceParents)
	return dlt.WithTraceParent(ctx, parent), end
}

// startRequest begins the span of a POST of several batches. It returns the span's context, and a
// func that ends the span.
func (t *Traces) startRequest(traceParents []string) (parent string, end func(error)) {
	if len(traceParents) == 1 {
		return "", nil
	}
	var links []trace.Link
	for _, parent := range traceParents {
		links = appendLink(links, parent)
	}
	if len(links) == 0 {
		return "", nil
	}
	ctx, s := t.startJoined(trace.SpanKindClient, spanRequest, links, attribute.Int("dltbatch.request.batches", len(traceParents)))
	return TraceParent(ctx), func(err error) {
		if err != nil {
			s.SetStatus(codes.Error, ledgerError(err))
		}
		s.End()
	}
}

// appendLink appends a link to the context parent if that was sampled.
func appendLink(links []trace.Link, parent string) []trace.Link {
	if s := sampledContext(parent); s.IsValid() {
		links = append(links, trace.Link{SpanContext: s})
	}
	return links
}

// startJoined begins a span for several callers: a child of the first, with a link to each.
func (t *Traces) startJoined(kind trace.SpanKind, name string, links []trace.Link, of attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(trace.ContextWithRemoteSpanContext(noContext, links[0].SpanContext), name, //nolint:spancheck // the caller ends it
		trace.WithSpanKind(kind), trace.WithLinks(links...), trace.WithAttributes(of))
}
