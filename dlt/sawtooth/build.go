package sawtooth

import (
	"fmt"
	"math"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Build signs the transactions and a batch of them, all with the one key, in the
// order given. The service names the lane that keeps order; any name, "" included.
// What it returns passes [Check], but for its size: how large a batch may be is up to
// the ledger that it is for, and that ledger's client checks it. The error is a
// [*batch.InputError], or what the signer returned.
func Build(s Signer, service batch.ServiceID, txs ...Transaction) (batch.Batch, error) {
	signed := make([]SignedTransaction, len(txs))
	for i, t := range txs {
		var err error
		if signed[i], err = t.Sign(s, ""); err != nil {
			return batch.Batch{}, fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	// Every signature has just been made by, or checked against, this key.
	return build(s, service, signed, BatchOptions{}, false)
}

// BatchOptions are the options of [NewBatch].
type BatchOptions struct {
	// Trace asks the nodes to log the batch's way. Defaults to false.
	Trace bool
}

// NewBatch makes a batch of transactions that are signed already, perhaps by
// others; each must name s as its batcher. What it returns passes [Check], but for
// its size, as with [Build]. nil options are the defaults. The error is a
// [*batch.InputError], or what the signer returned.
func NewBatch(s Signer, service batch.ServiceID, txs []SignedTransaction, o *BatchOptions) (batch.Batch, error) {
	if o == nil {
		o = &BatchOptions{}
	}
	return build(s, service, txs, *o, true)
}

func build(s Signer, service batch.ServiceID, txs []SignedTransaction, o BatchOptions, verify bool) (batch.Batch, error) {
	ids := make([]string, len(txs))
	for i, t := range txs {
		ids[i] = t.ID
	}
	header := encodeBatchHeader(&pb.BatchHeader{SignerPublicKey: s.PublicKey(), TransactionIds: ids})
	id, err := sign(s, header)
	if err != nil {
		return batch.Batch{}, fmt.Errorf("sawtooth: sign batch: %w", err)
	}
	b, err := Parse(encodeBatch(header, id, txs, o.Trace), service)
	if err != nil {
		return batch.Batch{}, err
	}
	if err := check(b, math.MaxInt, verify); err != nil {
		return batch.Batch{}, err
	}
	return b, nil
}
