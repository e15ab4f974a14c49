package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Engine].Record. Outcomes are applied one after the other, in
// the order of the slice.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	applied := make([]store.Applied, len(outcomes))
	for i, o := range outcomes {
		e := s.find(o.Key)
		// The number tells a batch that was pruned and added again from the one that
		// the outcome is about. A commit is a fact about the id, whichever it is.
		if e == nil || (o.Row != 0 && o.Row != e.number && o.Finding != store.IsCommitted) {
			applied[i] = store.Applied{Ref: o.Ref, Result: store.Gone}
			continue
		}
		o.Ref = e.ref()
		next, a := e.row.Apply(sanitise(o), now)
		if a.Result == store.Written && next.Version != e.row.Version {
			s.put(e, next)
		}
		a.Row = cloneRow(e.row)
		applied[i] = a
	}
	return applied, nil
}

// What is kept of an outcome's texts and of a receipt's data, in bytes.
const (
	maxKind = 32
	maxData = 64 << 10
)

// sanitise copies an outcome's texts and data, bounded and fit for any database.
func sanitise(o store.Outcome) store.Outcome {
	if o.Error != nil {
		o.Error = &batch.SubmissionError{
			Kind:    batch.ErrorKind(batch.Excerpt(string(o.Error.Kind), maxKind)),
			Message: batch.Excerpt(o.Error.Message, batch.MaxErrorText),
		}
	}
	if o.Receipts != nil {
		receipts := make([]batch.Receipt, len(o.Receipts))
		for i, r := range o.Receipts {
			receipts[i] = batch.Receipt{
				TransactionID: batch.Excerpt(r.TransactionID, batch.MaxIDLen),
				Valid:         r.Valid,
				Message:       batch.Excerpt(r.Message, batch.MaxErrorText),
				Data:          append([]byte(nil), r.Data[:min(len(r.Data), maxData)]...),
			}
		}
		o.Receipts = receipts
	}
	return o
}
