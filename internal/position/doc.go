// Package position remembers, of each lane, where a claim may start to read its open
// batches: the low watermark of the lane.
//
// A lane is read by order key, from low to high. In front of its open rows are the dead
// entries of all that is final since the database was vacuumed. Where a snapshot that
// somebody holds keeps the vacuum from its work, a claim that starts at key 0 walks all of
// them. A claim that starts at the position walks none. The package does no I/O and reads no
// clock: a store reports to it what its statements found.
//
// # What makes a position right
//
// A claim must never start above a row of its lane that is open and visible to it. A row
// that is open below the position can come from three places, and each has its rule.
//
// It was there already. So a position is only set by a claim that holds the lane's lock, has
// looked at both tables (of what waits, and of what was attempted), and saw both while the
// lane was open, since a lane that is paused or halted shows nothing. The position is not
// above the lowest row seen. A row that moves between the two tables keeps its key. So does a
// row whose claim expires or is rolled back.
//
// An operator put it there: a final batch is queued again in its old place. The transaction
// that does so first raises the turn, a counter in the row that claims of the lane lock. Who
// locks the lane and finds another turn than it knows forgets the position.
//
// It was added long ago, by a transaction that only now commits. That is why a lane has a
// bound, below which no row appears any more, and why no position is above it. A bound begins
// as the key of a row of the lane that a claim saw. Whoever adds to the lane gives out a key
// above the lane's last; so an addition that sees this row stays above it, whatever the clock
// says. One that may not have seen it was under way when the claim looked. The key is a
// candidate until all of these have ended: then it is sealed, and is the bound.
//
// An addition locks the table of what waits (ROW EXCLUSIVE) and takes a transaction id. Both
// come before the statement that reads the lane's last key and the clock. So there are two
// ways to know that all have ended, and each suffices alone:
//   - By id. Some transaction takes an id after the candidate was seen. Once all ids up to
//     that one have ended (pg_snapshot_xmin is above it), so have the additions. This costs
//     next to nothing; but one long transaction that writes anything, in any database of the
//     server, holds it up.
//   - By lock. pg_locks names the virtual transactions that hold the lock on that table. Once
//     each of them was missing from a later look, they have ended. Only additions hold this
//     up, and claims, which are short. It is asked for only where the first way makes no
//     progress. The server recovers from a crash of one of its processes with the start time
//     that it had. Of those who held the lock only prepared transactions are left, under
//     another name (PostgreSQL 15.18: 3/4 became -1/725). So while one of that kind is there,
//     nothing is sealed in this way.
//
// An addition in an application's transaction above READ COMMITTED does not see the row, since
// its snapshot is older. It has read the clock, though, after the generation was closed, or it
// was waited for. So a bound is not above the clock that the claim of its candidate read,
// either. (If the clock steps back under such a transaction, nothing helps; stores refuse it
// unless they are told otherwise.)
//
// # Order of events
//
// "After the candidate was seen" is the heart of it. Candidates are collected in a generation,
// and a generation is closed before the BEGIN of a claim's transaction: an id that this
// transaction takes is newer than all that the generation holds. A look at pg_locks counts by
// when it was asked for, not by when its answer came. And a claim works with the bound that it
// found before it read the windows: one that was sealed meanwhile, by another claim, says
// nothing about rows that this one may have missed. (An old look at pg_locks that is reported
// late would do no harm, but for the recovery from a crash between the two.)
//
// # What it holds for
//
// Ids and locks are facts about one server's life. After a restart or a failover, which
// pg_postmaster_start_time shows, all is forgotten. It does not show a recovery from a crash
// (PostgreSQL 15.18: the same time after kill -9 of a backend). That takes back nothing that was
// ever visible, unless commits are asynchronous: then what was final may be open again, below
// its lane's position. A position is a fact about the database: it
// may be used by several claims of a process at once, other processes need to know nothing of
// it, and a claim that is rolled back takes nothing back.
//
// The lane's last is the last that is stored. Retention may have removed it; then only the
// clock keeps new keys up. A clock that steps back by less than the age at which batches are
// removed does no harm. For one that steps back further a position that is ahead of the clock
// is forgotten. What this leaves open is a clock that also catches up again before the lane is
// claimed from; then the batch is found when the lane is next read from its beginning.
//
// To forget is always right and only slow. So little is kept: of so many lanes as the caller
// says, those that were used last. And each lane is read from its beginning now and then, for
// rows that somebody put there with SQL of their own.
//
// # A head that is stuck
//
// A strategy may let others pass a batch that is in doubt for hours. Behind this row, and in
// front of those under way, dead entries gather, too. So a claim reads a lane in ranges: where
// two neighbours among the open rows are more than a second apart, the keys between them are
// left out. They hold nothing, by what was said above. There are at most eight ranges.
package position
