package otelbatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dltbatch/dltbatch/batch"
)

// The names of the spans.
const (
	spanAttempt = "dltbatch attempt"
	spanRequest = "dltbatch request"
	spanQuery   = "dltbatch query"
	spanOutcome = "dltbatch outcome"
	spanFinal   = "dltbatch final"
	spanBuild   = "dltbatch build"
	spanOrder   = "dltbatch order"
)

// TraceParent returns the context of the span in ctx as a traceparent of W3C Trace Context, or ""
// where there is no span. It is made for [dltbatch.Options].TraceParent.
func TraceParent(ctx context.Context) string {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return ""
	}
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// Traces makes the spans of docs/operations.md#traces, of batches whose trace context was sampled.
// It is a [batch.Observer] for [dltbatch.Options].Observers: then an exporter that blocks delays
// nobody, and the spans of events that were lost are missing. The Runner and the Engine wait for
// Request, TraceBatch and ObserveOrders, so for these the provider has to export its spans in
// batches, as the SDK's does with WithBatcher. One Traces serves all Runners and Engines of a
// process. Its methods may be called concurrently.
type Traces struct{ tracer trace.Tracer }

// NewTraces returns a Traces that makes its spans with a provider, which the application brings.
// The error is a [*batch.InputError] for a nil provider.
func NewTraces(p trace.TracerProvider) (*Traces, error) {
	if p == nil {
		return nil, fmt.Errorf("traces: %w", &batch.InputError{Field: "provider", Want: "a TracerProvider"})
	}
	tracer := p.Tracer(meterName)
	if tracer == nil {
		return nil, errors.New("traces: the provider has no tracer")
	}
	return &Traces{tracer}, nil
}

// Observe is [batch.Observer].
func (t *Traces) Observe(_ context.Context, e batch.Event) {
	caller := sampledContext(e.TraceParent)
	if !caller.IsValid() {
		return
	}
	switch e.Kind {
	case batch.EventState, batch.EventInDoubt:
		t.traceOutcome(caller, e)
	case batch.EventFinal:
		t.traceOutcome(caller, e)
		t.traceFinal(caller, e)
	case batch.EventOrderBreach:
		if e.State == batch.Committed { // the outcome is in no other event
			t.traceOutcome(caller, e)
			t.traceFinal(caller, e)
		}
	case batch.EventOperated:
		if isFinalAct(e) {
			t.traceFinal(caller, e)
		}
	}
}

// traceOutcome makes the span of an attempt, and the span of its outcome.
func (t *Traces) traceOutcome(caller trace.SpanContext, e batch.Event) {
	if e.InRequest > 0 {
		result, failure := resultAccepted, ""
		if e.State != batch.Pending {
			result = kindOfReason(e.Err)
			failure = result
		}
		end := e.At.Add(-e.SinceAnswered)
		t.traceSpan(caller, spanAttempt, end.Add(-e.Took), end, failure, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.Int("dltbatch.attempt", e.Attempt), attribute.String("dltbatch.result", result), attribute.Int("dltbatch.request.batches", e.InRequest)))
	}
	if !showsOutcome(e) {
		return
	}
	if e.QueryTook > 0 {
		end := e.At.Add(-e.SinceQuery)
		t.traceSpan(caller, spanQuery, end.Add(-e.QueryTook), end, "", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.Int("dltbatch.attempt", e.Attempt), attribute.String("dltbatch.state", e.State.String())))
	}
	t.traceSpan(caller, spanOutcome, e.At.Add(-e.SincePosted), e.At, "", trace.WithAttributes(
		attribute.Int("dltbatch.attempt", e.Attempt), attribute.String("dltbatch.state", e.State.String()), attribute.String("dltbatch.by", e.By.String())))
}

// showsOutcome reports whether a query, or an event of the ledger, showed the outcome of an
// attempt.
func showsOutcome(e batch.Event) bool {
	switch e.State {
	case batch.Committed:
		return e.By == batch.ByMonitor || e.By == batch.BySubmitter && e.InRequest == 0 // commit and acceptance in one write
	case batch.Invalid, batch.Rejected, batch.Delayed, batch.Unknown:
		return e.By == batch.ByMonitor && e.State != e.From // not the end of settling
	}
	return false
}

// traceFinal makes the span of a batch that became final.
func (t *Traces) traceFinal(caller trace.SpanContext, e batch.Event) {
	failure := ""
	if e.State != batch.Committed {
		failure = e.State.String()
	}
	t.traceSpan(caller, spanFinal, e.At.Add(-e.SinceAdded), e.At, failure, trace.WithAttributes(
		attribute.Int("dltbatch.attempt", e.Attempt), attribute.String("dltbatch.state", e.State.String()), attribute.String("dltbatch.by", e.By.String())))
}

// traceSpan makes a span. It is a child of the caller's span, so that every sampler decides as the
// caller's did. It also has a link to that span, because the caller has usually ended long before.
func (t *Traces) traceSpan(caller trace.SpanContext, name string, from, to time.Time, failure string, more ...trace.SpanStartOption) {
	ctx := trace.ContextWithRemoteSpanContext(noContext, caller)
	_, s := t.tracer.Start(ctx, name, append(more, trace.WithTimestamp(from), trace.WithLinks(trace.Link{SpanContext: caller}))...)
	if failure != "" {
		s.SetStatus(codes.Error, failure)
	}
	s.End(trace.WithTimestamp(to))
}

// sampledContext returns the span context of a sampled traceparent. For any other, the result is
// not valid.
func sampledContext(parent string) trace.SpanContext {
	if !batch.ValidTraceParent(parent) {
		return trace.SpanContext{}
	}
	traceID, noTrace := trace.TraceIDFromHex(parent[3:35])
	spanID, noSpan := trace.SpanIDFromHex(parent[36:52])
	flags, noFlags := strconv.ParseUint(parent[53:], 16, 8)
	if errors.Join(noTrace, noSpan, noFlags) != nil || !trace.TraceFlags(flags).IsSampled() {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags), Remote: true})
}
