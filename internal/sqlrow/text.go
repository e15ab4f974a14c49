package sqlrow

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// How much is kept of what a ledger says, in bytes.
const (
	MaxReceiptData = 64 << 10
	// MaxKind bounds an error's kind; the known ones are shorter.
	MaxKind = 32
)

// Sanitise returns the outcome with all texts from outside fit for storing: valid
// UTF-8, no control characters, bounded. It shares nothing with o that it changed.
func Sanitise(o store.Outcome) store.Outcome {
	if o.Error != nil {
		o.Error = &batch.SubmissionError{
			Kind:    batch.ErrorKind(batch.Excerpt(string(o.Error.Kind), MaxKind)),
			Message: batch.Excerpt(o.Error.Message, batch.MaxErrorText),
		}
	}
	if len(o.Receipts) > 0 {
		receipts := make([]batch.Receipt, len(o.Receipts))
		for i, r := range o.Receipts {
			receipts[i] = batch.Receipt{
				TransactionID: batch.Excerpt(r.TransactionID, batch.MaxIDLen), Valid: r.Valid,
				Message: batch.Excerpt(r.Message, batch.MaxErrorText), Data: r.Data[:min(len(r.Data), MaxReceiptData)],
			}
		}
		o.Receipts = receipts
	}
	return o
}
