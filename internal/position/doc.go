// Package position is the memory that a store on PostgreSQL has of where the open work of its
// database begins: see [Memory]. The package does no I/O and reads no clock: a store reports to it
// what its statements found. The rest of this page is about [Lanes], where a claim may start to
// read the open batches of each lane: the low watermark of the lane.
//
// A claim reads a lane by order key, from low to high. In front of the open rows are the dead
// entries of all rows that became final since the last vacuum of the database. Where an old
// snapshot keeps the vacuum from its work, a claim that starts at key 0 walks all of them. A
// claim that starts at the position walks none.
//
// # What makes a position right
//
// A claim must never start above a row of its lane that is open and visible to it. A row that
// is open below the position can come from three places, and each place has its rule.
//
// The row was there already. So only a claim sets a position, and only a claim that holds the
// lane's lock, has looked at both tables (of waiting rows and of attempted rows), and saw both
// while the lane was open, since a lane that is paused or halted shows nothing. The position is
// not above the lowest row seen. A row that moves between the two tables keeps its key. So
// does a row whose claim expires or is rolled back.
//
// An operator put the row there: a final batch is queued again in its old place. The operator's
// transaction first counts the requeue, in the row that claims of the lane lock. A claim that
// locks the lane and finds another count than the remembered one forgets the position.
//
// The row was added long ago, by a transaction that only now commits. That is why a lane has a
// bound: no row appears below the bound any more, and no position is above it. A bound begins
// as the key of a row of the lane that a claim saw. An addition to the lane gives out a key
// above the lane's last; so an addition that sees this row stays above it, whichever way the
// clock moves. An addition that may not have seen it was under way when the claim looked. The
// key is a candidate until all of these additions have ended: then it is sealed, and is the
// bound.
//
// An addition locks the table of waiting rows (ROW EXCLUSIVE) and takes a transaction id. Both
// come before the statement that reads the lane's last key and the clock. So there are two
// ways to know that all these additions have ended, and each suffices alone:
//   - By id. Some transaction takes an id after the candidate was seen. Once all ids up to
//     this id have ended (pg_snapshot_xmin is above it), so have the additions. This costs
//     next to nothing; but one long transaction that writes anything, in any database of the
//     server, holds it up.
//   - By lock. pg_locks names the virtual transactions that hold the lock on that table. Once
//     each of them was missing from a later reading, they have ended. Only additions hold this
//     up, and claims, which are short. It is used only where the first way makes no
//     progress. A server that recovers from a crash of one of its processes keeps its start
//     time. Of the lock's holders only prepared transactions survive, under another name
//     (PostgreSQL 15.18: 3/4 became -1/725). So while a transaction with such a name is
//     there, nothing is sealed in this way.
//
// An addition in an application's transaction above READ COMMITTED does not see the row, since
// its snapshot is older. But it read the clock after the generation was closed, or the
// generation waited for it. So a bound is not above the clock that the claim of its candidate
// read, either. (If the clock steps back under such a transaction, nothing helps; stores refuse
// the transaction unless their settings allow it.)
//
// # Order of events
//
// "After the candidate was seen" is the heart of it. A generation collects candidates, and is
// closed before the BEGIN of a claim's transaction: an id that this transaction takes is newer
// than all candidates of the generation. A read of pg_locks counts from its request, not from
// its answer. And a claim works with the bound that it found before it read the windows: a
// bound that another claim sealed meanwhile says nothing about rows that this claim may have
// missed. (An old reading of pg_locks that is reported late does harm only with a recovery from a
// crash between the two.)
//
// # Where the rule holds
//
// Ids and locks are facts about one server's life, and keys are facts about some tables. After a
// restart or a failover, which pg_postmaster_start_time shows, all is forgotten; so it is where
// the tables are other ones, as after the restore of a dump. pg_postmaster_start_time does not
// show a recovery from a crash (PostgreSQL 15.18: the same time after kill -9 of a backend). A
// recovery takes back nothing that was ever visible, unless commits are asynchronous: then a final
// row may be open again, below its lane's position. A position is a fact about the database:
// several claims of a process may use it at once, other processes need not know it, and a claim
// that is rolled back takes nothing back.
//
// The lane's last key is the last stored key. Retention may have removed the last batch; then
// only the clock keeps new keys up. A clock that steps back by less than the age at which
// batches are removed does no harm. After a larger step back, a position ahead of the clock is
// forgotten. One case stays open: the clock also catches up again before the next claim from
// the lane; then the batch is found when the lane is next read from its beginning.
//
// To forget is always right and only slow. So the memory is small: it holds the lanes used
// last, up to the caller's limit. And each lane is read from its beginning now and then, for
// rows that somebody put there with SQL of their own.
//
// # A head that is stuck
//
// A strategy may let others pass a batch that is in doubt for hours. Behind this row, and in
// front of the other rows under way, dead entries gather, too. So a claim reads a lane in
// ranges: where two neighbours among the open rows are more than a second apart, the keys
// between them are left out. No open row is there, by the rules above. There are at most eight
// ranges.
package position
