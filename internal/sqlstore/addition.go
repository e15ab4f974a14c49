package sqlstore

import (
	"crypto/sha256"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Addition is a batch that passed the checks before the first statement of an Add.
type Addition struct {
	*batch.Batch
	PayloadHash  [sha256.Size]byte
	IDHash       [16]byte
	FootprintCol []byte
	Twin         bool  // of an earlier batch of the call; not stored
	At           int64 // the order key
	Seq          int64 // 0: it is not stored
}

// Prepare checks batches that are to be added.
func Prepare(batches []batch.Batch) ([]Addition, error) {
	in := make([]Addition, len(batches))
	for i := range batches {
		b := &batches[i]
		if err := b.Validate(); err != nil {
			return nil, err
		}
		in[i] = Addition{Batch: b, PayloadHash: b.Hash(), IDHash: IDHash(b.ID), FootprintCol: EncodeFootprint(b.Footprint)}
	}
	twins, err := store.Twins(batches)
	if err != nil {
		return nil, err
	}
	for i, twin := range twins {
		in[i].Twin = twin
	}
	return in, nil
}
