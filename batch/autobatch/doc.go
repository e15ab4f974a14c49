// Package autobatch makes batches of orders (docs/glossary.md#auto-batch): requests that come
// one by one, transfers say, leave for the ledger many at a time.
//
// An [Engine] stores orders, takes those of each idle party together, has the
// application's [batch.Builder] make one batch of them, and stores that batch and
// that they are part of it in one transaction. From there it takes the same road as
// any other batch; a Runner on the same database delivers it. When it is final, the
// Engine reads that from the database, where any instance may have recorded it, and
// writes what becomes of its orders:
//
//	the batch                    its orders
//	committed                    Confirmed
//	refused, or decided against  halves of them are tried as batches of their own;
//	                             one alone is Quarantined
//	its budget used up           Queued again, all together, in their old place
//	ended by a person            Failed
//
// A party has one batch at a time; what is added meanwhile fills the next. So a batch
// is small, and leaves at once, when there is little to do, and grows with the load.
//
// The states and loops of docs/glossary.md#auto-batch have other names here, for they are those
// of every batch:
//
//	Prepared               batch.Queued
//	Submitted              batch.Submitting, then batch.Pending
//	Accepted               batch.Pending or batch.Valid
//	Confirmed              batch.Committed
//	Failed, attempts left  batch.Delayed, or batch.Unknown where it was not found
//	Failed for good        batch.Rejected or batch.Invalid
//	Dequeue, of an order   batch.OrderDequeued, and then what became of it
//	batchingLoop           the Engine, and the Runner's queuer, which also finds what was
//	                       prepared before a restart
//	monitoringLoop         the Runner's monitor; the Engine reads the verdicts
//	retryingLoop           the Runner's queuer; the Engine puts orders back
//	updatedAt              the version of a batch, and that of an order
package autobatch
