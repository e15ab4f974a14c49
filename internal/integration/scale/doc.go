// Package scale measures the PostgreSQL store under what design section 3, promise 9,
// is about: a long backlog, a long history, many lanes, and hours of steady load. Its
// benchmarks are for make bench and make soak: on one machine, against one another.
// What is too slow or grows fails.
package scale
