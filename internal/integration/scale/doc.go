// Package scale measures the PostgreSQL store under the loads of docs/design.md#promise-9-cost: a
// long backlog, a long history, many lanes, and hours of steady load. Its benchmarks are for make
// bench and make soak, and compare several cases on one machine. A benchmark fails if a figure is
// too slow or grows.
package scale
