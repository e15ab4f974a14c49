package store

import "github.com/dltbatch/dltbatch/batch"

// Bounds of the text and data kept from a ledger, in bytes.
const (
	MaxReceiptData = 64 << 10
	// maxKind bounds an error's kind; the known kinds are shorter.
	maxKind = 32
)

// Sanitised returns the outcome with all texts from outside made fit for any database: valid
// UTF-8, no control characters, bounded. It shares no text and no data with o. Every driver
// records the sanitised outcome.
func (o Outcome) Sanitised() Outcome {
	o.Error = sanitised(o.Error)
	o.Halt = batch.Excerpt(o.Halt, batch.MaxErrorText)
	o.Endpoint = batch.Excerpt(o.Endpoint, MaxEndpointLen)
	if o.Report != nil {
		r := o.Report.Fit()
		o.Report = &r
	}
	if o.Receipts != nil {
		receipts := make([]batch.Receipt, len(o.Receipts))
		for i, r := range o.Receipts {
			receipts[i] = batch.Receipt{
				TransactionID: batch.Excerpt(r.TransactionID, batch.MaxIDLen),
				Valid:         r.Valid,
				Message:       batch.Excerpt(r.Message, batch.MaxErrorText),
				Data:          append([]byte(nil), r.Data[:min(len(r.Data), MaxReceiptData)]...),
			}
		}
		o.Receipts = receipts
	}
	return o
}

// sanitised returns a copy of e that any database takes; nil for nil.
func sanitised(e *batch.SubmissionError) *batch.SubmissionError {
	if e == nil {
		return nil
	}
	return &batch.SubmissionError{
		Kind:    batch.ErrorKind(batch.Excerpt(string(e.Kind), maxKind)),
		Message: batch.Excerpt(e.Message, batch.MaxErrorText),
	}
}
