// Package autobatch makes batches of orders (spec/001): requests that come one by
// one, transfers say, leave for the ledger many at a time.
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
//	cancelled by an operator     Failed
//
// A party has one batch at a time; what is added meanwhile fills the next. So a batch
// is small, and leaves at once, when there is little to do, and grows with the load.
//
// What spec/001 calls Prepared is Queued here; Submitted is Submitting or Pending,
// Accepted is Pending or Valid, Confirmed is Committed, and Failed is Delayed where
// budget is left, and Rejected or Invalid where it is not. Its monitoring and
// retrying loops are the Runner's monitor and queuer.
package autobatch
