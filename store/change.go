package store

import (
	"bytes"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// Twins reports for each batch of one Add whether an earlier batch of the call has the same
// service, DataChangeID and payload, or the same id as an earlier twin. If two batches with the
// same service and DataChangeID have different payloads, the error is [batch.ErrConflict]. A
// driver leaves out a twin only if the twin's id or DataChangeID is stored, at the latest by this
// call. The first batch of a DataChangeID may not store it: its id may be stored without a
// DataChangeID, or have a tombstone. A driver that adds one batch after the other needs only the
// error.
func Twins(batches []batch.Batch) ([]bool, error) {
	twins := make([]bool, len(batches))
	first := map[dataChangeKey]int{}
	some := false
	for i := range batches {
		b := &batches[i]
		if b.DataChangeID == "" {
			continue
		}
		k := dataChangeKey{b.Service, b.DataChangeID}
		at, twice := first[k]
		switch {
		case !twice:
			first[k] = i
		case !bytes.Equal(batches[at].Payload, b.Payload):
			return nil, ChangeConflict(b.Key(), b.DataChangeID)
		default:
			twins[i], some = true, true
		}
	}
	if !some {
		return twins, nil
	}
	ids := make(map[batch.ID]int, len(batches))
	for i := range batches {
		b := &batches[i]
		at, twice := ids[b.ID]
		switch {
		case !twice:
			ids[b.ID] = i
		case batches[at].Service != b.Service || !bytes.Equal(batches[at].Payload, b.Payload):
			return nil, fmt.Errorf("%w: batch %s, twice in one call", batch.ErrConflict, b.Key())
		case twins[at]:
			twins[i] = true
		}
	}
	return twins, nil
}

type dataChangeKey struct {
	service      batch.ServiceID
	dataChangeID string
}

// ChangeConflict returns the [batch.ErrConflict] of a batch whose DataChangeID belongs to another
// payload.
func ChangeConflict(key batch.Key, change string) error {
	return fmt.Errorf("%w: batch %s: DataChangeID %q was given to another payload", batch.ErrConflict, key, batch.Excerpt(change, 64))
}
