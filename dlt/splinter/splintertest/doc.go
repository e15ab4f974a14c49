// Package splintertest is a network of Splinter nodes to test against: real HTTP
// servers that behave as scabbard 0.6.14 does and not as one would like it to. In a test
// of one's own:
//
//	net := splintertest.Start(t, nil)
//	ledger, err := splinter.New(net.URL(0), nil)
//	// ... run batches of net.Service(0) through the ledger, then net.Check(...)
//
// How this is known: "seen" is what two nodes of Splinter 0.6.14 did (scabbard services of
// version 1 and 2, SQLite, two cores); "read" is what the source of that version says, or
// of the libraries that it is built with (sawtooth 0.7.3, transact 0.4.3), and nobody has
// seen.
//
// # Execution
//
// Scabbard is not idempotent, and neither is this: a batch that is posted twice executes
// twice (seen). Each service of a circuit runs on a node of its own, with a state of its
// own, and remembers the last 100 batches that it saw. With version 2 the node of the
// lowest service id, the coordinator, proposes for all, one batch at a time: it executes
// the batch, its peers execute it and compare the state that it leads to, it commits, and
// then they do. Another service knows what was posted at it as Pending; the coordinator
// does not know it until it executes it, and tells nobody that it is Invalid (seen). With
// version 1 each service proposes its own, and two that propose at once lose one. A batch
// whose proposal is rolled back stays Valid for ever.
//
// A batch that gets no answer from its contract (a family or version that nobody serves,
// no transactions, [Trap], [NoWasm]) holds the locks of its service for 300 s and stays
// Pending (seen). After [NoWasm] so does every later one, until a restart: the thread that
// executes is gone, and nobody tells who waits for it (that it is gone was seen, what
// follows is read in transact's executor). Requests about the service wait for it, each on the worker thread of its
// connection. A node has as many threads as cores, and gives them connections in turn; so
// with two of them one such request leaves every second connection to any circuit without
// an answer, and what was sent on it is executed when the stall is over, in any order,
// though its clients have left (seen: up to 196 s later).
//
// # Commits and crashes
//
// A commit is several writes (read in libscabbard, state/mod.rs, commit): the changed
// state, its root, the receipts in one transaction of the database, the event to every
// subscriber, and at last Committed in the history, in memory. So a crash between the root
// and the receipts leaves an effect without a receipt, and no event of it, ever.
// The table of receipts has the transaction's id as its key, for all services of the node:
// a second execution writes its effect and then fails at the receipt (seen: the status
// stays Valid), and two services of one circuit on one node fail at each other's.
//
// The coordinator tells its peers after it has committed. Therefore the circuit is divided
// for good (seen) by a second execution that changes the state (the coordinator fails
// before it tells them, waits for them, and rolls them back after its timeout of 30 s), and
// by a crash of either between the commit of the coordinator and theirs. In a divided
// circuit every batch is taken with 202 and rolled back, through restarts, unless it leads
// both to the same state. A second execution with the same effect costs 30 s, and nothing
// else (seen). A peer that heard of a proposal and not of its end, since the coordinator
// died, does not look at the next one, which is rolled back after 30 s (seen).
//
// A restart forgets the queue, the history and what was proposed; the state and the
// receipts stay (seen).
//
// # Replay of events
//
// A subscriber is sent the history before it is sent what is new (read in libscabbard,
// state/mod.rs, Events, and in libsawtooth, receipt/store/diesel, list_receipts_since):
//
//   - The store returns the receipts of the service whose transaction id is greater than
//     last_seen_event, byte by byte with SQLite (with PostgreSQL by its collation), or all
//     without it; then sorts them in the order of their commits. The id need not exist.
//   - Of these the first 64 are sent. The next page is asked for with the id of the last of
//     them, and so on, until a page is empty. So a page may bring receipts again, and one
//     whose id is smaller than any cursor before its page is never sent.
//   - The first page is read when the request comes, each later one when the one before is
//     used up. The subscriber is registered after the first page; what is committed in
//     between is lost, unless a later page has it. With no receipts there is no later page.
//     What is committed after the registration waits until the history was sent.
//   - The index that orders the receipts is one more than the service's highest one, within
//     the transaction that writes them: it is the order of commits, also after restarts.
//   - Read, and not modelled: each page loads all receipts that are greater, with one bound
//     variable each, which SQLite refuses above its limit (32,766 in what is usual); such a
//     request is answered 500.
//
// # Contracts
//
// Contracts are a few words on named integers ([Set], [Inc], [Create], [Fail], [Trap],
// [NoWasm]), in the family "sabre", so that what was executed, how often and in which order
// shows in the state and in [Network.Journal], which is the truth.
//
// [Real] has the times of real nodes. The defaults are shorter, and let peers commit with
// the coordinator at once, so that no [Network.Restart] comes in between.
//
// What it does not do: consensus messages one by one, Sabre, admin services, disbanding of
// circuits, TLS.
package splintertest
