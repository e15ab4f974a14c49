package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// Twins says which batches of one Add are not stored, because one before them in the
// call has the same service, DataChangeID and payload; all are false where the error
// is nil and nothing of the kind occurs. With another payload the error is
// [batch.ErrConflict]. A driver still compares the ids of those with what it holds.
func Twins(batches []batch.Batch) ([]bool, error) {
	twins := make([]bool, len(batches))
	first := map[changeKey]int{}
	for i := range batches {
		b := &batches[i]
		if b.DataChangeID == "" {
			continue
		}
		k := changeKey{b.Service, b.DataChangeID}
		at, twice := first[k]
		switch {
		case !twice:
			first[k] = i
		case !bytes.Equal(batches[at].Payload, b.Payload):
			return nil, ChangeConflict(b.Key(), b.DataChangeID)
		default:
			twins[i] = true
		}
	}
	return twins, nil
}

type changeKey struct {
	service batch.ServiceID
	change  string
}

// ChangeConflict is the [batch.ErrConflict] of a batch whose DataChangeID is another
// payload's.
func ChangeConflict(key batch.Key, change string) error {
	return fmt.Errorf("%w: batch %s: DataChangeID %q was given to another payload", batch.ErrConflict, key, batch.Excerpt(change, 64))
}
