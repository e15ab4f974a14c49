// Package scale measures the PostgreSQL store under the loads of
// docs/design.md#promise-9-cost: a long backlog, a long history, many lanes, and hours of
// steady load. Its benchmarks are for make bench and make soak: on one machine, against one
// another. A figure that is too slow or grows fails.
package scale
