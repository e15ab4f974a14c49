package sqlite

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// sizes returns the sizes of the database and of its log.
func (s *Store) sizes(ctx context.Context, t sqlstore.Tx) ([]store.Size, error) {
	bytes, _, err := sqlstore.Get[int64](ctx, t, sqlSize)
	if err != nil {
		return nil, err
	}
	sizes := []store.Size{{Name: "database", Bytes: bytes}}
	if s.files.path == "" {
		return sizes, nil // a database in memory has no log
	}
	log, err := s.logSize()
	return append(sizes, store.Size{Name: "log", Bytes: log}), err
}
