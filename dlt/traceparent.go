package dlt

import "context"

type traceParentKey struct{}

// WithTraceParent returns a context for [Ledger].Submit or [Ledger].SubmitList whose requests
// send parent as the header traceparent of W3C Trace Context, if the client of the ledger speaks
// HTTP and has none in its Options.Header; "" sends none. A ledger is a foreign party, so nothing
// else makes such a context than otelbatch.Traces.SendRequest, and the application.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceParentKey{}, parent)
}

// TraceParent returns the traceparent of [WithTraceParent], or "". It is for clients of ledgers.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceParentKey{}).(string)
	return parent
}
