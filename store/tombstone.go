package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Remains returns the part of a final batch's record that a tombstone keeps if a Prune removes the
// batch at the time at. The tombstone also keeps the hash of the payload.
func Remains(r batch.Record, at time.Time) batch.Record {
	return batch.Record{
		Key: r.Key, State: r.State, Version: r.Version, Attempt: r.Attempt, DataChangeID: r.DataChangeID,
		CreatedAt: r.CreatedAt, FinalAt: r.FinalAt, Error: r.Error, PrunedAt: at,
	}
}

// AddedAgain returns the answer to an Add of a batch whose tombstone keeps this record, with the
// same service and payload: nil where the batch took effect, and a [*batch.EndedError] otherwise.
// Nothing is stored in either case (docs/design.md#retention).
func AddedAgain(remains batch.Record) error {
	if remains.State == batch.Committed {
		return nil
	}
	return &batch.EndedError{Record: remains}
}
