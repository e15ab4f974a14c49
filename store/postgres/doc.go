// Package postgres is a [store.Store] in a PostgreSQL database (14 to 18), over the user's own
// *sql.DB. It imports no driver: lib/pq and pgx's database/sql driver both pass all tests, and the
// package uses no special feature of a driver except SQLState. Package store/postgres/native is
// the same store over pgx's own pool, for services that use pgx without database/sql.
//
// Any number of stores and processes may use one schema. They wait for each other only if they
// need the same batch: a claim skips lanes that another claim has locked, and only callers that
// add the same id wait for an application's open transaction with an AddTx.
//
// # Transactions
//
// Every call is one short READ COMMITTED transaction, and waits inside it only for the database.
// It sets plan_cache_mode for itself, because a driver that prepares statements while tables are
// empty would keep plans that read whole tables, long after the tables have grown. So the server
// plans each statement anew, except those that deliver batches, each of which has only one
// possible plan. Serialization failures and deadlocks are retried a few times before they are
// returned.
//
// An Add assumes that its batches are new, which saves a search for each. If a batch is known, the
// transaction fails with a unique violation, which the server logs, and Add repeats the
// transaction with the search. The next thousand Adds search, too.
//
// # Where claims begin
//
// A process remembers where the open work of each lane begins, and its claims read no key before
// that. So final batches cost nothing, even if the server cannot remove their dead rows because of
// an old snapshot of a dump, a report or a replica that lags. Package internal/position says why
// nothing becomes visible before that place: a transaction that assigns order keys locks
// waiting_batches in ROW EXCLUSIVE mode, and the place advances when every such transaction that
// may not have seen it has ended. After a requeue into an old place or a restart of the server a
// claim reads the whole lane, as it does every few minutes anyway.
//
// An application's transaction that has added a batch and stays open keeps all places where they
// are. The results of claims are right then, but claims become slower the longer this lasts;
// [Store.Upkeep] reports it. If somebody adds batches with SQL of their own, claims find them
// within minutes, and report them.
//
// # PgBouncer
//
// This package uses no session settings, advisory locks or prepared statements that last longer
// than a transaction. Only hints need a session of their own, and everything works without them.
// So the package works through PgBouncer in transaction mode, if the driver also prepares nothing
// that lasts longer than a transaction: with pgx set default_query_exec_mode=exec (or
// simple_protocol) in the data source name; with lib/pq set binary_parameters=yes, which Migrate
// needs.
//
// # Hints
//
// Processes send each other hints by NOTIFY ([Store.Tell]), each process at most once in 10 ms, in
// transactions of their own, and receive them by LISTEN ([Store.Hear]). Each store that runs or
// waits has one session that listens; stores with the same Options.Listen, of package native,
// share one. Package native opens it in addition to its pool. With pgx's driver for database/sql
// it is one of the pool's connections, if the pool may open four or more. lib/pq cannot wait for a
// notification through database/sql, and through a pooler in transaction mode no notification
// arrives: in both cases set Options.Listen to native.Listen, with a data source name that leads
// to the server itself. A test finds out whether notifications arrive, when a session begins and
// once a minute; health.Health.Hints says so. On a standby there is no LISTEN.
//
// # Durability
//
// A nil error means that the transaction is committed, as durably as the server's
// synchronous_commit and fsync make it. With synchronous_commit = off a crash of the server may
// take back the last commits: an Add that returned nil may be gone, and an attempt that was
// counted may be forgotten and made a second time. So a store refuses a connection with this
// setting, unless Options.AllowAsynchronousCommit says that this does not matter.
//
// # Rights
//
// A role that only adds batches, with Add or AddTx, needs: USAGE on the schema and on the sequence
// batch_seq; SELECT on batches, services, orders, tombstones, texts and [MigrationsTable]; INSERT
// on batches, waiting_batches, transactions and batch_tags; UPDATE on batches and waiting_batches,
// for locks. A schema without batches may still become a shard: the first addition locks the table
// texts to prevent that, and needs UPDATE on it. So let a role with all rights make the first
// addition, or grant that right, too. All other calls need the owner's rights to the rows.
//
// # Settings of connections
//
// The store looks at each new connection, and once a minute at an old one. A setting that changes
// what stored data means, what is locked or what survives a crash gives a [*SettingError]. The
// store sets client_encoding and bytea_output itself, for each transaction of its own. Other
// settings of a role, a database or a data source name change nothing.
//
// If a connection leads to a server that takes no writes, the call returns [ErrReadOnly], and the
// connection is closed.
package postgres
