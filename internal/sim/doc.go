// Package sim holds the simulations, which are tests only.
//
// Layer one (decisions_test.go) runs the pure parts of the engine, a memory store
// and a ledger under a single-goroutine scheduler in virtual time: workers claim,
// post, ask and record in steps, and between any two steps a seed may kill them,
// freeze them, lose a reply, or make a request arrive late. The same seed gives the
// same trace.
//
// Layer two (runner_test.go) runs the real Runner in virtual time with faults keyed
// by seed, batch and attempt.
package sim
