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
	id, service, change, message                        string
	hash                                                []byte
	prunedAt, createdAt, state, version, attempt, endAt int64
	kind                                                sql.NullString
}

// Dest takes the columns of ColsTombstone.
func (c *TombCols) Dest() []any {
	return []any{
		&c.id, &c.service, &c.hash, &c.prunedAt, &c.change, &c.createdAt, &c.state, &c.version, &c.attempt, &c.endAt, &c.kind, &c.message,
	}
}

// Key names the removed batch.
func (c *TombCols) Key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.service), ID: batch.ID(c.id)}
}

// Record is what is left of the batch.
func (c *TombCols) Record() batch.Record {
	r := batch.Record{
		Key: c.Key(), State: batch.State(c.state), Version: c.version, Attempt: int(c.attempt), DataChangeID: c.change,
		CreatedAt: FromMicro(c.createdAt), FinalAt: FromMicro(c.endAt), PrunedAt: FromMicro(c.prunedAt),
	}
	if c.kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.kind.String), Message: c.message}
	}
	return r
}

// OfID compares the tombstone, found by the id of a batch or the hash of it, with the batch.
func (c *TombCols) OfID(a *Addition) error {
	switch {
	case c.id != string(a.ID):
		return HashConflict(a.Key(), batch.ID(c.id))
	case c.service != string(a.Service) || string(c.hash) != string(a.PayloadHash[:]):
		return fmt.Errorf("%w: batch %s", batch.ErrConflict, a.Key())
	}
	return nil
}

// OfChange compares the tombstone, found by the DataChangeID of a batch, with the batch.
func (c *TombCols) OfChange(a *Addition) error {
	if string(c.hash) != string(a.PayloadHash[:]) {
		return store.ChangeConflict(a.Key(), a.DataChangeID)
	}
	return nil
}

// remains are the records of the removed batches of these keys.
func (s *Store) remains(ctx context.Context, t Tx, keys []batch.Key) ([]batch.Record, error) {
	var found []batch.Record
	err := Each(ctx, t, (*TombCols).Dest, func(c *TombCols) error {
		found = append(found, c.Record())
		return nil
	}, s.d.Tombs, t.Array(len(keys), func(i int) any { return string(keys[i].ID) }))
	return found, err
}
