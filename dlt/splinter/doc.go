// Package splinter checks, submits and follows batches of Splinter's scabbard
// services, through the REST API of a node.
//
// Batches are Sawtooth's: build, sign and parse them with dlt/sawtooth, and name the
// scabbard service, "circuit::service", as their service:
//
//	b, err := sawtooth.Build(key, "aaaaa-bbbbb::a000", sawtooth.Transaction{FamilyName: "sabre", ...})
//
// [Client] is a [dlt.Ledger], a [dlt.Checker], a [dlt.Resolver] and a
// [dlt.EventSource]; the engine calls it, and it can be used by itself:
//
//	c, err := splinter.New("http://localhost:8080", &splinter.Options{Token: splinter.CylinderToken(key)})
//	err = c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
//	st, err := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
//
// Scabbard executes what it is sent as often as it is sent, remembers a hundred
// batches, in memory, and has no way to look an old one up. So nothing is ever sent
// again on a timeout or on Unknown alone: [Client.Resolve] looks for proof, in what
// the node still remembers, with Options.Journal in a log of the transactions that
// [Client.Events] saw committed, in the receipts that the node keeps, and last with
// Options.Evidence in the state. Without proof it says that it cannot tell. What each
// proof rests on is in docs/splinter-evidence.md.
//
// A stall is a node's, not a circuit's: a batch that nobody executes holds its service for
// 300 s, and each request about it one of the node's threads. So the client has one request
// of a service open at a time, and leaves a service alone that keeps threads. POSTs that
// were given up meanwhile, to any circuit of the node, are executed minutes later:
// Options.LateArrival is long, and each doubt waits for it.
//
// Order is kept while nothing is rolled back. A batch whose proposal is rolled back, by a
// timeout or a crash, is not proposed again, while those behind it are: they overtake it,
// which is found out and reported.
//
// With scabbard version 2 use the service with the lowest id of its circuit, the
// coordinator, and its node: any other never says that a batch is invalid.
//
// The facts about nodes that all of this rests on are in docs/ledgers/splinter.md, each with
// how it is known; messages and signatures are in docs/ledgers/sawtooth.md.
package splinter
