// Package splintertest is a network of Splinter nodes for tests: real HTTP servers that behave
// as scabbard 0.6.14 does, bad habits included. Use it in a test like this:
//
//	net := splintertest.Start(t, nil)
//	ledger, err := splinter.New(net.URL(0), nil)
//	// ... run batches of net.Service(0) through the ledger, then net.Check(...)
//
// The sources: "seen" marks the behaviour of two nodes of Splinter 0.6.14 (scabbard services
// of version 1 and 2, SQLite, two cores). "read" marks behaviour that is only in the source of
// that version, or of its libraries (sawtooth 0.7.3, transact 0.4.3).
//
// # Execution
//
// Scabbard is not idempotent, nor is this package: a batch that is posted twice executes twice
// (seen). Each service of a circuit runs on its own node, with its own state, and remembers
// the last 100 batches that it saw. With version 2 the node of the lowest service id, the
// coordinator, proposes for all, one batch at a time: it executes the batch, its peers execute
// it and compare the resulting states, it commits, and then they do. Another service reports a
// batch that was posted to it as Pending; the coordinator does not know the batch until it
// executes it, and does not say to its peers that it is Invalid (seen). With version 1 each
// service proposes its own batches, and if two propose at once one proposal is lost. A batch
// whose proposal is rolled back stays Valid for ever.
//
// A batch without an answer from its contract (an unserved family or version, no transactions,
// [Trap], [NoWasm]) holds the locks of its service for 300 s and stays Pending (seen). After
// [NoWasm] so does every later batch, until a restart: the executor's thread is gone, and its
// waiters do not learn that (that it is gone was seen, the rest was read in transact's
// executor). Requests about the service wait for the batch, each on the worker thread of its
// connection. A node has as many threads as cores, and assigns connections to them in turn. So
// with two threads one such request leaves every second connection to any circuit without an
// answer. Requests on these connections are executed when the stall is over, in any order,
// though their clients have left (seen: up to 196 s later).
//
// # Commits and crashes
//
// A commit is several writes (read in libscabbard, state/mod.rs, commit): the changed state,
// its root, the receipts in one transaction of the database, the event to every subscriber,
// and at last Committed in the history, in memory. So a crash between the root and the
// receipts leaves an effect without a receipt, and without an event for ever. The key of the
// receipts table is the transaction's id, for all services of the node. So a second execution
// writes its effect and then fails at the receipt (seen: the status stays Valid), and two
// services of one circuit on one node fail at each other's receipts.
//
// The coordinator notifies its peers after it has committed. Two things therefore divide the
// circuit for good (seen). One is a second execution that changes the state: the coordinator
// fails before it notifies its peers, waits for them, and rolls them back after its timeout of
// 30 s. The other is a crash of either side between the coordinator's commit and its peers'.
// In a divided circuit every batch is accepted with 202 and rolled back, through restarts,
// unless it leads both to the same state. A second execution with the same effect costs 30 s,
// and nothing else (seen). A peer that got a proposal but not its end, since the coordinator
// died, ignores the next proposal, which is rolled back after 30 s (seen).
//
// A restart forgets the queue, the history and proposals; the state and the receipts stay
// (seen).
//
// # Replay of events
//
// A subscriber gets the history before new events (read in libscabbard, state/mod.rs, Events,
// and in libsawtooth, receipt/store/diesel, list_receipts_since):
//
//   - The store returns the receipts of the service whose transaction id is greater than
//     last_seen_event, byte by byte with SQLite (with PostgreSQL by its collation), or all
//     without it; then it sorts them in the order of their commits. The id need not exist.
//   - The first 64 of these are sent. The id of the last of them is the cursor of the next
//     page, and so on, until a page is empty. So a page may repeat receipts, and a receipt
//     with an id smaller than every cursor before its page is never sent.
//   - The first page is read when the request comes, each later one when the one before is
//     used up. The subscriber is registered after the first page; commits in between are lost,
//     unless a later page has them. With no receipts there is no later page. Commits after the
//     registration wait until the history was sent.
//   - The index that orders the receipts is one more than the service's highest one, within
//     the transaction that writes them: it is the order of commits, also after restarts.
//   - Read, and not modelled: each page loads all greater receipts, with one bound variable
//     each, which SQLite refuses above its limit (usually 32,766); such a request is answered
//     500.
//
// # Contracts
//
// Contracts are a few words on named integers ([Set], [Inc], [Create], [Invalid], [Trap],
// [NoWasm]), in the family "sabre". So the state shows how often and in which order batches
// were executed, and so does [Network.Journal], which is the truth.
//
// [RealTimes] has the times of real nodes. The defaults are shorter, and let peers commit with the
// coordinator at once, so that no [Network.Restart] comes in between.
//
// The package has no single consensus messages, no Sabre, no admin services, no disbanding of
// circuits, and no TLS.
package splintertest
