// Package postgres is a [store.Store] in a PostgreSQL database (13 or later), over
// the user's own *sql.DB. It imports no driver: lib/pq and pgx's database/sql driver
// both pass everything, and no other feature of a driver is used than SQLState.
//
// Any number of stores and processes may use one schema. They wait for each other
// only where they want the same batch: lanes that another holds are skipped, and an
// application's open transaction with an AddTx holds up nobody but who adds the same id.
//
// # Transactions
//
// Every call is one READ COMMITTED transaction, short, and none spans a wait for
// anything but the database. It sets plan_cache_mode for itself: a driver that
// prepares statements while tables are empty is left with plans that read whole
// tables, long after they have grown. So plans are made anew each time, but for the
// statements that deliver batches, each of which can have but one. Serialization failures and deadlocks are
// repeated a few times before they are returned.
//
// An Add takes its batches for new, which saves the search for each. Where one is known
// the transaction fails with a unique violation, which the server logs, and is done again
// with the search; so are the next thousand.
//
// # Where claims begin
//
// A process remembers where the open work of each lane begins, and its claims read no key
// before that. So what is finished costs nothing, although the server cannot clean it up
// while somebody holds an old snapshot: a dump, a report, a replica that lags. Nothing may
// become visible before that place. Whoever gives out order keys (Add, AddTx, PrepareBatch, a
// requeue to the end) locks waiting_batches in ROW EXCLUSIVE mode and takes a transaction id before it
// reads the clock. The place moves up once every such transaction has ended that may not have
// seen it: by the oldest transaction id that is still running or, where another transaction holds that up, by pg_locks. A
// requeue into the old place raises the lane's turn, a column of services, and another start
// of the server is another server: then all of the lane is read, as it is every few minutes.
//
// An application's transaction that has added a batch and stays open keeps all places where
// they are. Claims are right then, and slower the longer it lasts; [Store.Upkeep] says so.
// Batches that somebody writes with SQL of their own are found within minutes, and told of.
//
// # PgBouncer
//
// Nothing lives longer than a transaction: no session settings, advisory locks,
// LISTEN or prepared statements of this package. So it works through PgBouncer in
// transaction mode, if the driver, too, prepares nothing that outlives a
// transaction: with pgx set default_query_exec_mode=exec (or simple_protocol) in the
// data source name; with lib/pq set binary_parameters=yes, which Migrate needs.
//
// # Durability
//
// A nil error means that the transaction is committed, which is as durable as the
// server's synchronous_commit and fsync make it. With synchronous_commit = off a
// crash of the server may take back the last commits: an Add that returned nil may be
// gone, and an attempt that was counted may be forgotten and made a second time. So
// the first call refuses it, unless Options.AllowAsynchronousCommit says that this
// does not matter.
package postgres
