// Package otelbatch measures and traces a Runner with OpenTelemetry. It uses the API only: the
// application brings the SDK and the exporter.
//
//	metrics, err := otelbatch.NewMetrics(provider) // once in a process
//	runner, err := metrics.NewRunner(st, ledger, options) // in place of dltbatch.New
//
// docs/metrics.md lists the metrics, and docs/operations.md the alerts. In the folder of this
// package are alerts.yaml, rules for Prometheus, and dashboard.json for Grafana; the library does
// not link them.
//
//	traces, err := otelbatch.NewTraces(provider) // once in a process
//	options.TraceParent, options.Observers = otelbatch.TraceParent, []batch.Observer{traces}
//	options.TraceRequest = traces.Request // or SendRequest, if the ledger may know
//
// docs/operations.md#traces lists the spans.
//
// # What is exact
//
// Counters and histograms are exact. They count where [dltbatch.Options].Observer and Calls are
// called, before the Runner goes on, and not by one of Options.Observers, which may lose events.
// The cost is that a meter which blocks, blocks the Runner: the SDK's meters do not block. A meter
// that panics is contained and logged like any observer, and the application's own Observer and
// Calls still get everything.
//
// They count what this process did since it began. The sum over all processes is right: one
// outcome is reported by one process. An outcome that a process wrote and could not report,
// because it was killed in between, is missing.
//
// # Labels
//
// No metric has an id, a service or an address as a label: services are lanes, and there may be a
// hundred thousand. Each label has a short list of values, which is written down in this package.
// A value that is not in the list becomes "_OTHER". The instance is not a label either. It belongs
// to the provider's resource, as service.instance.id.
package otelbatch
