package store

import "github.com/dltbatch/dltbatch/batch"

// MaxReceiptData bounds the data of a receipt that is kept from a ledger, in bytes.
const MaxReceiptData = 64 << 10

// Sanitised returns the outcome with all texts from outside made fit for any database: valid
// UTF-8, no control characters, bounded. It shares no text and no data with o. Every driver
// records the sanitised outcome.
func (o Outcome) Sanitised() Outcome {
	o.Error = o.Error.Sanitised()
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
