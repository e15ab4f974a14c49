// Package dltbatch gets batches of signed transactions onto a distributed ledger, in order and
// at most once in effect. It follows each batch until its outcome is known: through crashes,
// restarts, slow, full or lying ledgers, and with any number of instances on one database.
//
// A [Runner] joins a store (store/sqlite, store/memory) and a ledger client (dlt/sawtooth).
// [Runner.Run] does the work. [Runner.Add] stores batches; once it returns nil the Runner must
// deliver them. [Runner.Await] waits for an outcome. Batches of one service
// ([batch.ServiceID]) leave in the order in which they were added.
//
// The package does not promise an order across services, nor between Adds that overlap. A
// process may freeze between its last reading of the clock and its write to the socket, for
// longer than the ledger's LateArrival. It can then send a batch that another instance no
// longer waits for. Ledgers that never execute a batch twice (Sawtooth) take no harm from
// that.
package dltbatch
