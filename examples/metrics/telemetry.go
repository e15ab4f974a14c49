package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
)

// newMeasuredRunner returns a Runner whose metrics and health the handler serves.
func newMeasuredRunner(s store.Store, l dlt.Ledger, o *dltbatch.Options) (*dltbatch.Runner, http.Handler, error) {
	// This sets up the SDK, with Prometheus as the reader. For another exporter of OpenTelemetry
	// replace these lines.
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))

	// This connects the library.
	metrics, err := otelbatch.NewMetrics(provider)
	if err != nil {
		return nil, nil, err
	}
	runner, err := metrics.NewRunner(s, l, o)
	if err != nil {
		return nil, nil, err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /livez", probe.Live(runner, nil))
	mux.Handle("GET /readyz", probe.Ready(runner, &probe.Options{Ledger: -1, Streams: -1}))
	return runner, mux, nil
}
