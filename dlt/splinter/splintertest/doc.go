// Package splintertest is a network of Splinter nodes to test against: real HTTP
// servers that behave as scabbard does and not as one would like it to
// (ledgers/sawtooth-and-splinter.md A and C). In a test of one's own:
//
//	net := splintertest.Start(t, nil)
//	ledger, err := splinter.New(net.URL(0), nil)
//	// ... run batches of net.Service(0) through the ledger, then net.Check(...)
//
// Scabbard is not idempotent, and neither is this: a batch that is posted twice
// executes twice. Each service of a circuit runs on a node of its own and keeps a
// history of the last 100 batches that it saw, in memory; [Network.Restart] forgets
// it together with the queue. With version 2 the node of the lowest service id
// proposes for all, with version 1 each proposes its own, and two that propose at
// once lose one. A batch whose proposal is rolled back stays Valid for ever, one that
// is invalid stays Pending for ever on every other node, and one that no handler
// serves holds submits and statuses for 300 s.
//
// Contracts are a few words on named integers ([Set], [Inc], [Create], [Fail]), in
// the family "sabre", so that what was executed, how often and in which order shows
// in the state and in [Network.Journal].
//
// What it does not do: consensus messages, Sabre, admin services, disbanding of
// circuits, state queries, TLS.
package splintertest
