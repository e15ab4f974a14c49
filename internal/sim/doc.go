// Package sim holds the simulations. It consists of tests only.
//
// Layer one (decisions_test.go) runs the pure parts of the engine, a memory store and a ledger
// under a scheduler with a single goroutine in virtual time. Workers claim, post, ask and record
// in steps. Between any two steps a seed may kill or freeze a worker, lose a reply, or make a
// request arrive late. The same seed gives the same trace. One kind of ledger is scabbard services
// that forget (scabbard_test.go). Its evidence comes from the real Splinter client, over a
// transport that answers from the model, and from the store's journal, which readers of a modelled
// stream write (reader_test.go). If the client cannot prove anything, a person decides, late.
//
// Both kinds of ledger run with batches one after the other, with batches side by side if they do
// not conflict (lanes_test.go), and with several batches under way in their order (order_test.go).
//
// The walk (walk_test.go) makes the same decisions in a world of two processes, two batches and
// one ledger. It visits every state that can be reached without a fault, then those with one
// fault, and so on.
//
// Layer two (runner_test.go) runs the real Runner in virtual time with faults chosen by seed,
// batch and attempt. The hints between the Runners are lost, doubled and late by seed. Another
// test (hints_test.go) covers idle Runners, which depend on hints most.
package sim
