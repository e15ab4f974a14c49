package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// TombCols are the columns of a tombstone.
type TombCols struct {
	ID        string         `db:"header_signature"`
	Service   string         `db:"service_id"`
	Hash      []byte         `db:"payload_hash"`
	PrunedAt  int64          `db:"pruned_at"`
	Change    string         `db:"data_change_id"`
	CreatedAt int64          `db:"created_at"`
	State     int64          `db:"state"`
	Version   int64          `db:"version"`
	Attempt   int64          `db:"attempt"`
	FinalAt   int64          `db:"final_at"`
	Kind      sql.NullString `db:"submission_error"`
	Message   string         `db:"submission_error_message"`
}

// Key names the removed batch.
func (c *TombCols) Key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.Service), ID: batch.ID(c.ID)}
}

// Record returns the part of the batch's record that the tombstone keeps.
func (c *TombCols) Record() batch.Record {
	r := batch.Record{
		Key: c.Key(), State: batch.State(c.State), Version: c.Version, Attempt: int(c.Attempt), DataChangeID: c.Change,
		CreatedAt: FromMicro(c.CreatedAt), FinalAt: FromMicro(c.FinalAt), PrunedAt: FromMicro(c.PrunedAt),
	}
	if c.Kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Kind.String), Message: c.Message}
	}
	return r
}

// OfID compares a batch with the tombstone that was found by the batch's id or the hash of the id.
func (c *TombCols) OfID(a *Addition) error {
	switch {
	case c.ID != string(a.ID):
		return HashConflict(a.Key(), batch.ID(c.ID))
	case c.Service != string(a.Service) || string(c.Hash) != string(a.PayloadHash[:]):
		return fmt.Errorf("%w: batch %s", batch.ErrConflict, a.Key())
	}
	return nil
}

// OfChange compares a batch with the tombstone that was found by the batch's DataChangeID.
func (c *TombCols) OfChange(a *Addition) error {
	if string(c.Hash) != string(a.PayloadHash[:]) {
		return store.ChangeConflict(a.Key(), a.DataChangeID)
	}
	return nil
}

// tombstoneRecords returns the records of the removed batches of these keys.
func (s *Store) tombstoneRecords(ctx context.Context, t Tx, keys []batch.Key) ([]batch.Record, error) {
	return tombstoneRecordsBy(ctx, t, s.driver.Tombs, t.Array(len(keys), func(i int) any { return string(keys[i].ID) }))
}

// tombstoneRecordsBy returns the records of the tombstones that a statement finds.
func tombstoneRecordsBy(ctx context.Context, t Tx, statement string, args ...any) (found []batch.Record, err error) {
	return found, Each(ctx, t, func(c *TombCols) error {
		found = append(found, c.Record())
		return nil
	}, statement, args...)
}
