package dlt

import "context"

type traceParentKey struct{}

// WithTraceParent returns a context for [Ledger].Submit or [Ledger].SubmitList. Their requests
// send parent as the header traceparent of W3C Trace Context, if the client of the ledger uses
// HTTP and has no such header in its Options.Header; for "" they send none. The ledger belongs to
// others, so only otelbatch.Traces.SendRequest and the application make such a context.
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
