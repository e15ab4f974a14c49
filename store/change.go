package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// Twins reports for each batch of one Add whether Add leaves it out, because an earlier batch
// of the call has the same service, DataChangeID and payload. With another payload the error
// is [batch.ErrConflict]. A driver still compares the ids of these batches with its stored
// ids.
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

// ChangeConflict is the [batch.ErrConflict] of a batch whose DataChangeID belongs to another
// payload.
func ChangeConflict(key batch.Key, change string) error {
	return fmt.Errorf("%w: batch %s: DataChangeID %q was given to another payload", batch.ErrConflict, key, batch.Excerpt(change, 64))
}
