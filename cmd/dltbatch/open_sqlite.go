package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// openFile opens a SQLite file. It creates a missing file only if create is set: otherwise a path
// with a typing error would look like an empty queue.
func openFile(path string, create bool) (*database, error) {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) && !create:
		return nil, errNoFile
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("look at the database file: %w", errors.Unwrap(err)) // leaves out the path
	}
	db, err := sqliteopen.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := sqlite.New(db, nil)
	if err != nil {
		_ = db.Close() // the earlier error is returned
		return nil, err
	}
	opened, err := newDatabase(st, func() { _ = db.Close() })
	if err == nil {
		opened.sqlite = db
	}
	return opened, err
}
