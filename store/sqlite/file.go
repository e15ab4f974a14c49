package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
)

// FileError means that the database's file, or its log, is not the file that this store has open:
// somebody has removed, renamed or replaced it. Every call returns it, and a Runner shows it in
// Health.Warnings. Reason: no other process would find what is written to the open file, and
// neither would the next start. Put the file back, or close the database and open it again. Before
// a file is replaced, stop every process that has it open.
type FileError struct {
	Path string // the path of the file
	Now  string // what is at the path now
}

// Error implements error.
func (e *FileError) Error() string {
	return fmt.Sprintf("dltbatch: sqlite: the open file %s was removed or replaced: %s", e.Path, e.Now)
}

// These texts say what is at the path of a file.
const (
	fileIsMissing = "no file is there"
	fileIsAnother = "another file is there"
)

// databaseFiles remembers which files the store has open.
type databaseFiles struct {
	sqlitePath string      // the path of the database, as SQLite gives it; "" for a database in memory
	path       string      // the same path; also "" if there is no such file
	info       fs.FileInfo // describes the database's file

	mu sync.Mutex
	// logs are the logs that connections have open, by the connections of the driver. Only the
	// last connection to a database removes its log, so the log stays the same file while a
	// connection has it open.
	logs map[any]fs.FileInfo
}

// maxLogs bounds how many connections logs remembers. Most of the earlier ones are closed by then.
const maxLogs = 64

func openFiles(path string) (*databaseFiles, error) {
	f := &databaseFiles{sqlitePath: path, path: path, logs: map[any]fs.FileInfo{}}
	if path == "" {
		return f, nil
	}
	var err error
	f.info, err = os.Stat(path)         //nolint:gosec // SQLite itself opened this path
	if errors.Is(err, fs.ErrNotExist) { // the driver keeps the database elsewhere
		f.path, err = "", nil
	}
	return f, err
}

// checkSame returns a [*FileError] if the file at the path is not the open file. It takes about a
// microsecond.
func (f *databaseFiles) checkSame() error {
	if f.path == "" {
		return nil
	}
	return checkSameFile(f.path, f.info)
}

// checkSameFile compares the file at a path with an open one.
func checkSameFile(path string, open fs.FileInfo) error {
	now, err := os.Stat(path) //nolint:gosec // SQLite itself opened this path
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &FileError{Path: path, Now: fileIsMissing}
	case err != nil:
		return err
	case !os.SameFile(now, open):
		return &FileError{Path: path, Now: fileIsAnother}
	}
	return nil
}

// logPath returns the path of the database's write-ahead log.
func (f *databaseFiles) logPath() string { return f.path + "-wal" }

// checkSameOn is checkSame for a connection in a transaction. The log must also be the log of the
// connection's first transaction. A new connection must have opened the file at the path of the
// other connections.
func (f *databaseFiles) checkSameOn(ctx context.Context, conn *sql.Conn) error {
	if f.path == "" {
		return nil
	}
	if err := f.checkSame(); err != nil {
		return err
	}
	var key any
	err := conn.Raw(func(dc any) error {
		if dc != nil && reflect.TypeOf(dc).Comparable() {
			key = dc
		}
		return nil
	})
	if err != nil || key == nil {
		return err
	}
	f.mu.Lock()
	open, known := f.logs[key]
	f.mu.Unlock()
	if known {
		return checkSameFile(f.logPath(), open)
	}
	path, err := mainPath(ctx, conn)
	if err != nil {
		return err
	}
	if path != f.path {
		return &FileError{Path: f.path, Now: "a new connection has opened " + path}
	}
	open, err = os.Stat(f.logPath()) //nolint:gosec // beside the path that SQLite itself opened
	if errors.Is(err, fs.ErrNotExist) {
		return &FileError{Path: f.logPath(), Now: fileIsMissing}
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.logs) >= maxLogs {
		clear(f.logs)
	}
	f.logs[key] = open
	return nil
}

const sqlMainPath = `SELECT file FROM pragma_database_list WHERE name = 'main'`

// mainPath returns the path of a connection's database; "" for a database in memory.
func mainPath(ctx context.Context, conn queryer) (path string, err error) {
	err = conn.QueryRowContext(ctx, sqlMainPath).Scan(&path)
	return path, err
}

// nameOf returns the path of a database for people.
func nameOf(path string) string {
	if path == "" {
		return "a database in memory"
	}
	return path
}

// forgetOtherFile returns err. If err is a [*FileError], the store forgets what it remembers of
// the earlier file.
func (s *Store) forgetOtherFile(err error) error {
	if _, other := errors.AsType[*FileError](err); other {
		s.schemaKnownUntil.Store(nil)
		s.fresh.Forget()
	}
	return err
}
