// Package autobatch makes batches of orders (docs/glossary.md#auto-batch): requests that come
// one by one, for example transfers, leave for the ledger many at a time.
//
// An [Engine] stores orders, takes the orders of each idle party together and has the
// application's [order.Builder] make one batch of them. In one transaction it stores the batch
// and marks the orders as part of it. From there the batch is like any other: a Runner on the
// same database delivers it. When the batch is final, the Engine reads its outcome from the
// database, where any instance may have recorded it, and writes the new states of its orders:
//
//	the batch                    its orders
//	committed                    Confirmed
//	refused, or decided against  halves of them are tried as batches of their own;
//	                             one alone is Quarantined
//	its budget used up           Queued again, all together, in their old place
//	ended by a person            Failed
//
// A party has one batch at a time; orders that come meanwhile fill the next. So a batch is
// small, and leaves at once, when there is little to do, and grows with the load.
//
// The states and loops of docs/glossary.md#auto-batch have other names here, the same as for
// every other batch:
//
//	Prepared               batch.Queued
//	Submitted              batch.Submitting, then batch.Pending
//	Accepted               batch.Pending or batch.Valid
//	Confirmed              batch.Committed
//	Failed, attempts left  batch.Delayed, or batch.Unknown if the ledger does not have it
//	Failed for good        batch.Rejected or batch.Invalid
//	Dequeue, of an order   order.Dequeued, and then the order's outcome
//	batchingLoop           the Engine, and the Runner's queuer, which also finds batches
//	                       prepared before a restart
//	monitoringLoop         the Runner's monitor; the Engine reads the verdicts
//	retryingLoop           the Runner's queuer; the Engine puts orders back
//	updatedAt              the version of a batch, and of an order
package autobatch
