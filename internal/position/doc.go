// Package position remembers, for a store on PostgreSQL, where the open work of its database
// begins: see [Memory]. The package does no I/O and reads no clock: a store reports to it what its
// statements found. The rest of this page is about [Lanes], which knows where a claim may begin to
// read the open batches of each lane: the position of the lane, its low watermark.
//
// A claim reads a lane by order key, from low to high. Before the open rows are the dead index
// entries of all rows that became final since the last vacuum of the database. While an old
// snapshot keeps the vacuum from removing them, a claim that begins at key 0 reads over all of
// them. A claim that begins at the position reads over none.
//
// # What makes a position right
//
// A claim must never begin above a row of its lane that is open and visible to it. An open row
// below the position could have come there in three ways, and each way has its rule.
//
// The row was there already. So only a claim sets a position: a claim that has the lane's lock,
// and that has read both tables (of waiting rows and of attempted rows) while the lane was neither
// paused nor halted, since a closed lane shows no rows. The position is not above the lowest row
// that the claim saw. A row that moves between the two tables keeps its key, and so does a row
// whose claim expires or is rolled back.
//
// An operator put the row there by requeuing a final batch, which returns to its old place. The
// operator's transaction first counts the requeue in the row that claims of the lane lock. A claim
// that locks the lane and finds another count than the remembered one forgets the position.
//
// The row was added long ago, by a transaction that only now commits. That is why a lane has a
// bound: no row appears below the bound any more, and no position is above it. A bound begins as
// the key of a row of the lane that a claim saw. An addition to the lane assigns a key above the
// lane's last key; so an addition that sees this row assigns a key above it, whichever way the
// clock moves. An addition that may not have seen it was under way when the claim looked. The key
// is a candidate until all of these additions have ended: then it is sealed, and is the bound.
//
// An addition locks the table of waiting rows (ROW EXCLUSIVE) and takes a transaction id. Both
// come before the statement that reads the lane's last key and the clock. So there are two ways to
// know that all these additions have ended, and each suffices alone:
//   - By id. Some transaction takes an id after the candidate was seen. Once all ids up to this
//     id have ended (pg_snapshot_xmin is above it), so have the additions. This costs almost
//     nothing, but one long transaction that writes anything, in any database of the server,
//     delays it.
//   - By lock. pg_locks names the virtual transactions that hold the lock on that table. Once
//     each of them was missing from a later reading, they have ended. Only additions delay this,
//     and claims, which are short. It is used only if the first way makes no progress. A server
//     that recovers from a crash of one of its processes keeps its start time. Of the lock's
//     holders only prepared transactions survive, under another name (PostgreSQL 15.18: 3/4
//     became -1/725). So while a transaction with such a name is there, nothing is sealed in this
//     way.
//
// An addition in an application's transaction above READ COMMITTED does not see the row, since its
// snapshot is older. But it read the clock after the generation was closed, or the generation
// waited for it. So a bound is not above the clock that the claim of its candidate read, either.
// (If the clock steps back under such a transaction, nothing helps; stores refuse the transaction
// unless their settings allow it.)
//
// # Order of events
//
// The proof depends on the words "after the candidate was seen". A generation collects candidates,
// and is closed before the BEGIN of a claim's transaction, so an id that this transaction takes is
// newer than all candidates of the generation. A read of pg_locks counts from its request, not
// from its answer. And a claim works with the bound that it found before it read the windows: a
// bound that another claim sealed meanwhile says nothing about rows that this claim may have
// missed. (An old reading of pg_locks that is reported late does harm only with a recovery from a
// crash between the two.)
//
// # Where the rule holds
//
// Ids and locks are facts about one server between two restarts, and keys are facts about certain
// tables. After a restart or a failover, which pg_postmaster_start_time shows, everything is
// forgotten. The same happens if the tables were replaced, as after the restore of a dump.
// pg_postmaster_start_time does not show a recovery from a crash (PostgreSQL 15.18: the same time
// after kill -9 of a backend). A recovery takes back nothing that was ever visible, unless commits
// are asynchronous: then a final row may be open again, below its lane's position. A position is a
// fact about the database: several claims of a process may use it at once, other processes need
// not know it, and a claim that is rolled back takes nothing back.
//
// The lane's last key is the last stored key. Retention may have removed the last batch; then only
// the clock keeps new keys above the position. A clock that steps back by less than the age at
// which batches are removed does no harm. After a larger step back, a position ahead of the clock
// is forgotten. One case remains: if the clock also catches up again before the next claim from
// the lane, the batch is found only when the lane is next read from its beginning.
//
// To forget is always right, and only costs time. So the memory is small: it has the lanes that
// were used last, up to the caller's limit. Each lane is read from its beginning from time to
// time, to find rows that somebody has written with SQL of their own.
//
// # An old open batch
//
// A strategy may let others pass a batch that is in doubt for hours. Dead entries then also
// collect between its row and the other rows under way. So a claim reads a lane in ranges: if two
// neighbours among the open rows are more than a second apart, it leaves out the keys between
// them. By the rules above no open row is there. There are at most eight ranges.
package position
