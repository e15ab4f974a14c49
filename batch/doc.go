// Package batch is the ground floor of dltbatch: the data that every other
// package speaks of. It imports the standard library only and does no I/O.
//
// A [Batch] is what a ledger accepts or refuses as a whole. It waits in the
// lane of its [ServiceID], is claimed, posted, followed, and ends final. The
// states it passes through, and who moves it on:
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
// Queued, Delayed and Unknown belong to the queuer. Submitting belongs to the
// submitter until its claim expires, then to the monitor, which asks the ledger
// before anything is sent again. Pending, Valid and an unsettled Invalid belong
// to the monitor. Committed, Rejected and a settled Invalid are final. The whole
// table, with the actor of every move, is [Transitions].
//
// The names of the auto-batching document (docs/glossary.md#auto-batch) map onto these states:
//
//	Prepared   Queued
//	Submitted  Submitting, Pending
//	Accepted   Pending, Valid
//	Confirmed  Committed
//	Failed     Delayed while budget is left; Rejected or Invalid for good
//
// In JSON, and in any other text, states, policies, actors and what ledgers say are the
// words of their String methods, and come back from them. [Record], [Event], [Act],
// [Control] and [Explanation] have names in lower case there, and leave out what does not
// apply; an error is its text, and a duration is in nanoseconds, as its name says.
package batch
