// Package sqlite is a [store.Store] in a SQLite database, over the user's own *sql.DB. It imports
// no driver, and is tested with two: github.com/mattn/go-sqlite3, which needs cgo, and
// modernc.org/sqlite, which does not. Package sqliteopen opens a database with one of them, with
// the settings that [New] requires. Processes with different drivers may use one file. One process
// must not open a file with two drivers: each of them gives up the other's locks.
//
// Any number of stores and processes on one machine may use one database. SQLite lets one
// transaction write at a time: every other writer waits while an application's transaction with an
// AddTx is open, so keep it short. The names of all tables and indexes of this package begin with
// dltbatch_, so the application may have any other names in the same database.
//
// A database that is opened in another way needs, with either driver,
//
//	file:queue.db?_journal_mode=WAL&_busy_timeout=5000&_synchronous=FULL&_txlock=immediate&_stmt_cache_size=64
//
// New checks _journal_mode, _busy_timeout and _synchronous. _txlock makes AddTx reliable, and
// _stmt_cache_size, which modernc's driver ignores, makes small calls cheaper.
//
// # Durability
//
// In WAL mode a commit always survives the death of the process. It survives a loss of power only
// with synchronous = FULL (2) or EXTRA (3), where each commit waits for the disk. With NORMAL (1)
// a power loss may take back the last commits: an Add that returned nil may be gone, and an
// attempt that was counted may be forgotten and made a second time. So New requires FULL, unless
// Options.AllowNormal says that this does not matter.
//
// # The file
//
// Each transaction compares the file at the database's path, and its log, with the open ones.
// After somebody has removed, renamed or replaced one of them, every call returns a [*FileError],
// a Runner warns of it, and nothing more is written. So stop all processes before you restore a
// backup. To copy a backup over the open file, in place, destroys the database: no program can
// notice it in time.
//
// # Other processes
//
// Each commit is a hint to the other processes. On Linux a process that listens ([Store.Hear])
// waits until inotify reports that the log was written, and then reads the new rows. An idle
// process costs nothing. After each commit of any process it reads repeatedly for up to a second,
// until the disk must have the commit. A batch of an AddTx needs no hint of its own. On other
// systems, and for a database in memory, there are no such hints: scans find the batches of
// others.
//
// # The log
//
// SQLite writes to a write-ahead log beside the database. It begins the log again when all of the
// log is copied and no transaction reads from it any more. While a transaction that has read stays
// open, in any process (a report, a backup, an idle session), the log grows by every write, which
// is more than the payloads: see docs/performance-appendix.md. This does not change the order of
// batches or the latency, but the disk may become full. So a Runner checks the log's size once a
// second ([Store.Upkeep]). From Options.LogWarning on it reports the size, with an event
// (batch.EventTrouble, once) and in Health.Warnings (while the log is so large). End the
// transaction: within seconds the log is copied and truncated, and the warning ends.
package sqlite
