// Package batch is the ground floor of dltbatch: it defines the data that all other packages
// use. It imports the standard library only and does no I/O.
//
// A [Batch] is the unit that a ledger accepts or refuses as a whole. It waits in the lane of
// its [ServiceID], is claimed, posted, followed, and ends final. These are its states and the
// parts that move it on:
//
//	         Add
//	          |
//	          v   claim (queuer)                 accepted (submitter)
//	      +--------+        +------------+            +---------+
//	+---->| Queued |------->| Submitting |----------->| Pending |--+
//	|     +--------+        +------------+            +---------+  |
//	|          ^  put back    |   ^  |  | doubt: stays    |  ^     |
//	|          +--------------+   |  |  | and becomes     v  |     |
//	|     +---------+  no effect  |  |  | the monitor's +-------+  |
//	|     | Delayed |<------------|--+  |               | Valid |  |
//	|     +---------+-- claim ----+     |               +-------+  |
//	|     +---------+             |     |                   |      |
//	|     | Unknown |-- claim ----+     |                   |      |
//	|     +---------+<------------------+-------------------+------+
//	|        safe to send again         |                   |
//	|                                   v                   v
//	|  requeue  +----------+     +-----------+ late  +---------+
//	+-----------| Rejected |     | Committed |<------| Invalid |
//	|           +----------+     +-----------+       +---------+
//	+------------------------------------------------------+
//
// Queued, Delayed and Unknown belong to the queuer. Submitting belongs to the submitter until
// its claim expires, then to the monitor, which asks the ledger before anything is sent again.
// Pending, Valid and an unsettled Invalid belong to the monitor. Committed, Rejected and a
// settled Invalid are final. [Transitions] returns the whole table, with the actor of every
// move.
//
// The names of the auto-batching document (docs/glossary.md#auto-batch) map onto these states:
//
//	Prepared   Queued
//	Submitted  Submitting, Pending
//	Accepted   Pending, Valid
//	Confirmed  Committed
//	Failed     Delayed while budget is left; Rejected or Invalid for good
//
// In JSON, and in any other text, states, policies, actors and ledgers' answers are the words
// of their String methods, and are read back from them. In JSON [Record], [Event], [Act],
// [Control] and [Explanation] have names in lower case and leave out fields that do not apply.
// An error is its text, and a duration is in nanoseconds, as its name says.
package batch
