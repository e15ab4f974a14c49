package batch

// Attempt is one claim's submission of a batch.
type Attempt struct {
	Key
	// Number counts the claims of the batch, from 1. It only grows.
	Number int
	// Payload is nil where only the status is asked for. It must not be changed or
	// kept after the call it was handed to.
	Payload []byte
	// Prepared is what the client's dlt.Preparer returned for this batch before its
	// first POST, byte for byte: with a submission and with a status query. It is nil
	// where the client is none, and where nothing was kept. It must not be changed or
	// kept after the call it was handed to.
	Prepared []byte
}
