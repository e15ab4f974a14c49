// Package moving moves a schema of a store on PostgreSQL to another server: docs/scale.md has the
// procedure as its user sees it. The command calls it, and only prints.
//
// A move is a row of [steps]. Each changes one database, in one transaction, and afterwards the
// two databases say together where the move stands: [decide] reads it from their marks. So a
// process may be killed anywhere, another one goes on, and two at once do not disturb each other.
//
// # What holds
//
// The tables are in one place that a store finds, or in none. On the old server they go to the
// schema NAME_moved, and on the new one they are made in NAME_arriving. In the schema itself there
// is then the mark, a table named [sqlstore.MovedTable], with which every call of a store gives
// [store.ErrSchemaMoved]; Migrate does, too, or a process that starts with the old data source
// name would make new tables and serve them.
//
// Nothing that was stored is missed. The tables go to NAME_moved in a transaction that first locks
// all of them against everybody. It gets the locks when each transaction that has added or
// recorded something has ended. One that comes later finds no table, and its statements fail.
//
// Nothing is posted twice. Before the tables go, everything is paused and no claim is left that
// may still be posting. So what the new server says about an attempt is all that ever happened to
// it, even if the clock of the new server is ahead.
//
// The old server is given up, for good, before the new one may serve: between these two steps
// neither does, and the only way is forward.
//
// # Why COPY
//
// The rows go through this process by COPY, in one snapshot of the old server, into tables that
// Migrate has made. That needs nothing but the two data source names. Logical replication would
// shorten the time in which lanes stand from the time of a copy to about a second; but it needs
// wal_level=logical, which is a restart of the old server, roles that may replicate, a way from
// the new server to the old one, with a password in its catalogue, and does not carry sequences.
// pg_dump needs its own programs, at least as new as both servers, and does no more than COPY
// does.
//
// One column is not copied: attempted_batches.made_by is the number of a transaction, which means
// nothing on another server. Its default makes it anew there.
package moving
