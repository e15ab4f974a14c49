// Package sqlite is a [store.Store] in a SQLite database, over the user's own
// *sql.DB. It does not import a driver: package sqliteopen opens a database with
// mattn's, with the settings that [New] asks for.
//
// One database may be used by any number of stores and processes on one machine.
// SQLite lets one transaction write at a time: an application's transaction that
// holds an AddTx holds up every other writer, so keep it short.
//
// A database that is opened otherwise needs, with mattn's driver,
//
//	file:queue.db?_journal_mode=WAL&_busy_timeout=5000&_synchronous=FULL&_txlock=immediate&_stmt_cache_size=64
//
// of which New checks the first three; the others make AddTx reliable and small
// calls cheaper.
//
// # Durability
//
// In WAL mode a commit survives the death of the process always, and the loss of
// power only with synchronous = FULL (2) or EXTRA (3), where each commit waits for
// the disk. With NORMAL (1) a power loss may take back the last commits: an Add
// that returned nil may be gone, and an attempt that was counted may be forgotten
// and made a second time. So New wants FULL, unless Options.AllowNormal says that
// this does not matter.
package sqlite
