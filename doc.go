// Package dltbatch gets batches of signed transactions onto a distributed ledger, in order and
// at most once in effect. It follows each batch until its outcome is known: through crashes,
// restarts, slow, full or lying ledgers, and with any number of instances on one database.
//
// A [Runner] joins a store (store/postgres/native, store/postgres, store/sqlite, store/memory) and
// a ledger client (dlt/sawtooth, dlt/splinter, dlt/canton, dlt/evm, dlt/memory, or several by
// [dlt.Router]). [Runner.Add] stores batches, or [Runner.AddTx] in the application's own
// transaction; once it returns nil they will be delivered. [Runner.Run] delivers them, in this
// process or another. [Runner.Await] waits for an outcome. Batches of one service
// ([batch.ServiceID]) leave in the order in which they were added.
//
// Times on a wire and in a database are the database's; durations have their unit in the name of
// a JSON field. Errors are found with errors.Is and errors.As: batch has those about batches,
// store those about databases, dlt those of ledgers, and this package those of a Runner.
//
// The package does not promise an order across services, nor between Adds that overlap. A
// process may freeze between its last reading of the clock and its write to the socket, for
// longer than the ledger's LateArrival. It can then send a batch that another instance no
// longer waits for. Ledgers that never execute a batch twice (Sawtooth) take no harm from
// that.
package dltbatch
