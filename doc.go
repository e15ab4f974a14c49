// Package dltbatch gets batches of signed transactions onto a distributed ledger,
// in order, at most once in effect, and follows each until its outcome is known:
// through crashes, restarts, slow or full or lying ledgers, and with any number of
// instances on one database.
//
// A [Runner] joins a store (store/sqlite, store/memory) and a ledger client
// (dlt/sawtooth). [Runner.Run] does the work; [Runner.Add] stores batches, and from
// the moment it returns nil they are the Runner's to deliver; [Runner.Await] waits
// for an outcome. Batches of one service ([batch.ServiceID]) leave in the order in
// which they were added.
//
// What it does not promise: no order across services, nor between Adds that
// overlap. A process that is frozen between its last look at the clock and its
// write to the socket, for longer than the ledger's LateArrival, can send a batch
// that somebody else has given up waiting for; ledgers that never execute a batch
// twice (Sawtooth) are not harmed by it.
package dltbatch
