package main

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/store/memory"
)

// deliverWork delivers a work on the memory store, without a ledger's client. If p is not nil, it
// is the provider for the metrics. traced is the trace context of the caller of Add; "" for no
// traces.
func deliverWork(ctx context.Context, tb testing.TB, w *work, p metric.MeterProvider, traced string, started func()) {
	tb.Helper()
	done := newFinalCounter(w, len(w.batches))
	o := &dltbatch.Options{Observer: done}
	if traced != "" {
		traces, err := otelbatch.NewTraces(notraces.NewTracerProvider())
		require.NoError(tb, err)
		o.TraceParent, o.TraceRequest = func(context.Context) string { return traced }, traces.Request
		o.Observer = batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
			done.Observe(ctx, e)
			traces.Observe(ctx, e)
		})
	}
	var r *dltbatch.Runner
	var err error
	if p == nil {
		r, err = dltbatch.New(memory.New(), instantLedger{}, o)
	} else {
		var metrics *otelbatch.Metrics
		metrics, err = otelbatch.NewMetrics(p)
		require.NoError(tb, err)
		r, err = metrics.NewRunner(memory.New(), instantLedger{}, o)
	}
	require.NoError(tb, err)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	started()
	for group := range slices.Chunk(w.batches, addGroup) {
		require.NoError(tb, r.Add(ctx, group...))
	}
	<-done.allFinal
	stop()
	require.NoError(tb, <-ended)
	require.Zero(tb, done.notCommitted.Load())
}

// Metrics cost no allocation for a batch, with a provider that does nothing or with the SDK. Only
// calls of the store, which are for groups of batches, cost a few.
func TestAllocationsOfMetrics(t *testing.T) {
	const n, lanes = 5_000, 500
	allocations := func(provider func() metric.MeterProvider, traced string) float64 {
		w := newWork(1, n, lanes, minPayloadSize)
		var before, after runtime.MemStats
		synctest.Test(t, func(t *testing.T) {
			p := provider()
			deliverWork(t.Context(), t, w, p, traced, func() {
				synctest.Wait()
				runtime.ReadMemStats(&before)
			})
			runtime.ReadMemStats(&after)
		})
		return float64(after.Mallocs-before.Mallocs) / n
	}
	off := allocations(func() metric.MeterProvider { return nil }, "")
	idle := allocations(func() metric.MeterProvider { return noop.NewMeterProvider() }, "")
	on := allocations(func() metric.MeterProvider { return sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader())) }, "")
	all := allocations(func() metric.MeterProvider { return sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader())) }, unsampledTraceParent)
	t.Logf("%.2f allocations a batch without, %.2f with a provider that does nothing, %.2f with the SDK, %.2f with traces, too, of callers that were not sampled", off, idle, on, all)
	const room = 1.0 // for groups of other sizes
	require.LessOrEqual(t, idle, off+room)
	require.LessOrEqual(t, on, off+room)
	const traced = 4 // a copy of the context, and for a POST its contexts and the span that is not made
	require.LessOrEqual(t, all, off+room+traced)
}

// unsampledTraceParent is the trace context of a caller that is not sampled.
const unsampledTraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
