package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// Store stores the batches and the orders of a program.
type Store interface {
	store.Store
	order.Store
}

// Open opens a store of a kind, "sqlite" or "memory". If path is "", the SQLite file is in a
// temporary folder, which done removes. where says in words where the store is.
func Open(ctx context.Context, kind, path string) (st Store, where string, done func(), err error) {
	switch {
	case kind == "memory" && path != "":
		return nil, "", nil, errors.New("-db is for -store sqlite")
	case kind == "memory":
		return memory.New(), "memory", func() {}, nil
	case kind != "sqlite":
		return nil, "", nil, fmt.Errorf("-store %q: want sqlite or memory", kind)
	}
	clean := func() {}
	if path == "" {
		dir, err := os.MkdirTemp("", "dltbatch-example-")
		if err != nil {
			return nil, "", nil, err
		}
		path, clean = filepath.Join(dir, "queue.db"), func() { os.RemoveAll(dir) }
	}
	db, err := sqliteopen.Open(path)
	if err != nil {
		clean()
		return nil, "", nil, err
	}
	done = func() { db.Close(); clean() }
	sq, err := sqlite.New(db, nil)
	if err == nil {
		err = sq.Migrate(ctx)
	}
	if err != nil {
		done()
		return nil, "", nil, err
	}
	return sq, path, done, nil
}
