// Package sim holds the simulations, which are tests only.
//
// Layer one (decisions_test.go) runs the pure parts of the engine, a memory store and a
// ledger under a single-goroutine scheduler in virtual time: workers claim, post, ask and
// record in steps, and between any two steps a seed may kill them, freeze them, lose a reply,
// or make a request arrive late. The same seed gives the same trace. One kind of ledger is
// scabbard services that forget (scabbard_test.go): there the evidence comes from the real
// Splinter client, over a transport that answers from the model, and from the store's
// journal, which readers of a modelled stream write (reader_test.go). If the client cannot
// prove anything, a person decides, late.
//
// Both run with batches one by one, side by side where they do not conflict (lanes_test.go),
// and several under way in their order (order_test.go).
//
// The walk (walk_test.go) makes the same decisions in a world of two processes, two batches and
// one ledger, and visits every state that it can reach with no fault, with one, and so on.
//
// Layer two (runner_test.go) runs the real Runner in virtual time with faults keyed by seed,
// batch and attempt. The hints between the Runners are lost, doubled and late by seed. Where most
// rests on them, because the Runners are idle in between, is a test of its own (hints_test.go).
package sim
