package sawtooth

import (
	"fmt"
	"math"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// Build signs the transactions and a batch of them with one key, in the given order. service names
// the lane that keeps order; it may be any name, also "". The batch passes [Check], except perhaps
// for its size: each ledger has its own limit, which that ledger's client checks. The error is a
// [*batch.InputError], or the signer's error.
func Build(s Signer, service batch.ServiceID, txs ...Transaction) (batch.Batch, error) {
	signed := make([]SignedTransaction, len(txs))
	for i, t := range txs {
		var err error
		if signed[i], err = t.Sign(s, ""); err != nil {
			return batch.Batch{}, fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	// s has just made, or checked, every signature, so they are not verified again.
	return build(s, service, signed, BatchOptions{}, false)
}

// BatchOptions are the options of [NewBatch].
type BatchOptions struct {
	// Trace asks the nodes to log the batch's way. Defaults to false.
	Trace bool
}

// NewBatch makes a batch of signed transactions, which others may have signed; each must name
// s as its batcher. The batch passes [Check], except perhaps for its size, as with [Build].
// nil options mean the defaults. The error is a [*batch.InputError], or the signer's error.
func NewBatch(s Signer, service batch.ServiceID, txs []SignedTransaction, o *BatchOptions) (batch.Batch, error) {
	if o == nil {
		o = &BatchOptions{}
	}
	return build(s, service, txs, *o, true)
}

func build(s Signer, service batch.ServiceID, txs []SignedTransaction, o BatchOptions, verify bool) (batch.Batch, error) {
	if err := checkSigner(s); err != nil {
		return batch.Batch{}, err
	}
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
