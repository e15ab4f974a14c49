// Package postgres is a [store.Store] in a PostgreSQL database (14 to 18), over the user's
// own *sql.DB. It imports no driver: lib/pq and pgx's database/sql driver both pass all tests,
// and the package uses no special feature of a driver except SQLState. Package
// store/postgres/native is the same store over pgx's own pool, for services that use pgx without
// database/sql.
//
// Any number of stores and processes may use one schema. They wait for each other only where
// they want the same batch: a claim skips lanes that another claim holds, and an application's
// open transaction with an AddTx holds up only callers that add the same id.
//
// # Transactions
//
// Every call is one short READ COMMITTED transaction, and waits inside it only for the
// database. It sets plan_cache_mode for itself: a driver that prepares statements while tables
// are empty is left with plans that read whole tables, long after they have grown. So the
// server makes plans anew each time, except for the statements that deliver batches, each of
// which has only one possible plan. Serialization failures and deadlocks are retried a few
// times before they are returned.
//
// An Add takes its batches for new, which saves the search for each. Where a batch is known,
// the transaction fails with a unique violation, which the server logs, and Add repeats it
// with the search; the next thousand Adds search, too.
//
// # Where claims begin
//
// A process remembers where the open work of each lane begins, and its claims read no key
// before that. So finished work costs nothing, even where the server cannot clean it up
// because somebody holds an old snapshot: a dump, a report, a replica that lags. Package
// internal/position says why nothing becomes visible before that place: a transaction that
// gives out order keys locks waiting_batches in ROW EXCLUSIVE mode, and the place moves up once
// every such transaction that may not have seen it has ended. After a requeue into an old place
// or a restart of the server a claim reads the whole lane, as it does every few minutes anyway.
//
// An application's transaction that has added a batch and stays open keeps all places where
// they are. Claims are right then, and slower the longer it lasts; [Store.Upkeep] reports it.
// Claims find batches that somebody writes with SQL of their own within minutes, and report
// them.
//
// # PgBouncer
//
// Nothing lives longer than a transaction: no session settings, advisory locks or prepared
// statements of this package; only hints, without which everything works, need a session of their
// own. So it works through PgBouncer in transaction mode, if
// the driver, too, prepares nothing that outlives a transaction: with pgx set
// default_query_exec_mode=exec (or simple_protocol) in the data source name; with lib/pq set
// binary_parameters=yes, which Migrate needs.
//
// # Hints
//
// Processes tell each other by NOTIFY where there is something new ([Store.Tell]), each at most
// once in 10 ms, in transactions of their own, and hear it by LISTEN ([Store.Hear]). The session
// that listens is one for each store that runs or waits; stores with the same Options.Listen, of
// package native, share one. Package native opens it beside its pool.
// With pgx's driver for database/sql it is one of the pool's connections, if the pool may open
// four or more. lib/pq cannot wait for a notification through database/sql, and through a pooler
// in transaction mode nothing arrives: there set Options.Listen to native.Listen, with a data
// source name that leads to the server itself. A test finds out whether notifications arrive, when
// a session begins and once a minute; health.Health.Hints says so. On a standby there is no
// LISTEN.
//
// # Durability
//
// A nil error means that the transaction is committed, as durably as the server's
// synchronous_commit and fsync make it. With synchronous_commit = off a crash of the server
// may take back the last commits: an Add that returned nil may be gone, and an attempt that
// was counted may be forgotten and made a second time. So a store refuses a connection with this
// setting, unless Options.AllowAsynchronousCommit says that this does not matter.
//
// # Rights
//
// A role that only adds batches, with Add or AddTx, needs: USAGE on the schema and on the sequence
// batch_seq; SELECT on batches, services, orders, tombstones, texts and [MigrationsTable]; INSERT
// on batches, waiting_batches, transactions and batch_tags; UPDATE on batches and waiting_batches,
// for locks. A schema that nobody has added to may yet become a shard: the first addition locks
// texts against that, and needs UPDATE on it. So let a role with all rights add first, or grant
// that, too. All other calls need the rights of the owner to the rows.
//
// # Settings of connections
//
// The store looks at each new connection, and once a minute at an old one. A setting that changes
// what stored data means, what is locked or what survives a crash gives a [*SettingError].
// client_encoding and bytea_output it sets itself, for each transaction of its own. Whatever else
// a role, a database or a data source name sets changes nothing.
//
// A connection to a server that takes no writes gives [ErrReadOnly], and is closed.
package postgres
