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
//
// # The log
//
// SQLite writes to a write-ahead log beside the database and begins that anew when all of
// it is copied and nobody reads from it any more. While a transaction that has read stays
// open, in whatever process (a report, a backup, an idle session), the log grows by what is
// written, which is more than the payloads: see docs/performance.md. Ordering and latency
// do not suffer, the disk does. So a Runner looks at the log's size once a second
// ([Store.Upkeep]): from Options.LogWarning on it says so, with an event
// (batch.EventTrouble, once) and in Health.Warnings (for as long as it is so). End the
// transaction: within seconds the log is copied, cut off on the disk, and the warning over.
package sqlite
