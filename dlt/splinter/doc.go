// Package splinter checks, submits and follows batches of Splinter's scabbard services,
// through the REST API of a node.
//
// Batches are Sawtooth's: build, sign and parse them with dlt/sawtooth, and name the scabbard
// service, "circuit::service", as their service:
//
//	b, err := sawtooth.Build(key, "aaaaa-bbbbb::a000", sawtooth.Transaction{FamilyName: "sabre", ...})
//
// [Client] is a [dlt.Ledger]. The engine calls it, and you can use it directly:
//
//	c, err := splinter.New("http://localhost:8080", &splinter.Options{Token: splinter.CylinderToken(key)})
//	err = c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
//	st, err := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
//
// Scabbard executes a batch every time that it gets it, remembers a hundred batches, in
// memory, and cannot look up an old one. So nothing is ever sent again on a timeout or on
// Unknown alone. [Client.Resolve] looks for proof: in the node's memory, with Options.Journal
// in a log of the transactions that [Client.Events] saw committed, in the node's receipts, and
// last with Options.Evidence in the state. Without proof its answer is CannotTell.
// docs/splinter-evidence.md gives the reasons behind each proof.
//
// A stall hits a node, not a circuit: a batch that nobody executes holds its service for 300
// s, and each request about it holds one of the node's threads. So the client has one open
// request per service, and leaves a service alone that holds threads. POSTs to any circuit of
// the node that were given up meanwhile are executed minutes later. So Options.LateArrival is
// long, and each doubt waits for it.
//
// Order is kept while nothing is rolled back. A batch whose proposal is rolled back, by a
// timeout or a crash, is not proposed again, but the batches behind it are: they overtake it,
// which the engine finds and reports.
//
// With scabbard version 2 use the coordinator, the service with the lowest id of its circuit,
// and its node: other services never report that a batch is invalid.
//
// The facts about nodes behind all this are in docs/ledgers/splinter.md, each with its source;
// messages and signatures are in docs/ledgers/sawtooth.md.
package splinter
