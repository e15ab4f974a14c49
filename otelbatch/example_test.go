package otelbatch_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"

	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The application brings a provider of the SDK; this one measures nothing. examples/metrics has
// one that serves Prometheus.
func Example() {
	metrics, err := otelbatch.NewMetrics(noop.NewMeterProvider()) // once in a process
	if err != nil {
		fmt.Println(err)
		return
	}
	runner, err := metrics.NewRunner(memory.New(), ledger.New(nil), nil) // in place of dltbatch.New
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(runner.Health().Running)
	// Output: false
}

// The context of the caller of Add is stored with the batch, so that spans of its attempts, in any
// process, join the caller's trace.
func ExampleTraceParent() {
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	fmt.Println(otelbatch.TraceParent(ctx))
	// Output: 00-01000000000000000000000000000000-0200000000000000-01
}
