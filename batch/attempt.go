package batch

// Attempt is one claim's submission of a batch.
type Attempt struct {
	Key
	// Number counts the claims of the batch, from 1. It only grows.
	Number int
	// Payload is nil for a status query. It must not be changed, nor kept after the call that
	// received it.
	Payload []byte
	// Prepared is what the client's dlt.Ledger.Prepare has returned for this batch and the store
	// has kept, byte for byte, in submissions and in status queries. It is nil where the client
	// prepares nothing, and where nothing was kept. It must not be changed, nor kept after the
	// call that received it.
	Prepared []byte
	// Lane has the prepared bytes of the other open batches of the lane, as the claim saw them,
	// and of those that were prepared since in the same run; in any order. It is nil in status
	// queries, and where the client does not declare dlt.Traits.PreparesInOrder. Like Prepared it
	// must not be changed.
	Lane [][]byte
	// Withdrawn is true if a person has withdrawn the batch: the client is to keep it from taking
	// effect, if that is still possible. It is set in submissions and in status queries. A batch
	// can be withdrawn only if its client declares dlt.Traits.Withdraws; other clients ignore the
	// field. What takes effect on the ledger decides.
	Withdrawn bool
	// Committed is true in a status query if the commit of the batch is recorded, and only its
	// receipts are asked for: no verdict waits for the answer. A client without the trait Receipts
	// never gets such a query.
	Committed bool
}
