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
// An order, its states and its store are in package batch/autobatch/order. docs/orders.md is the
// manual; docs/glossary.md#auto-batch has the names of the source document beside the names here.
package autobatch
