// Package sqliteopen opens SQLite databases with the settings that package sqlite requires: a
// program built with cgo has mattn's driver, which is C, and one built without cgo (CGO_ENABLED=0,
// and wherever Go finds no C compiler) has modernc's, which is SQLite translated to Go. Processes
// of both kinds may use one file. docs/performance-appendix.md compares the drivers.
package sqliteopen

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// maxConns is how many connections a database file gets: one of them writes at a time, and the
// others read meanwhile.
const maxConns = 4

// DefaultPageSize is the default of [Options].PageSize.
const DefaultPageSize = 2048

// checkpointAfterBytes is the size of the log, in bytes, from which a commit copies it to the
// database. It is SQLite's default of 1000 pages with SQLite's default page size of 4096.
const checkpointAfterBytes = 1000 * 4096

// Options of a database file. nil and the zero value are good choices.
type Options struct {
	// PageSize is the page size of a new database, in bytes: a power of two from 512 to 65536.
	// Defaults to [DefaultPageSize]. An existing file keeps its own.
	//
	// SQLite writes whole pages to its log: small pages write less of it, for some more CPU time
	// (docs/performance-appendix.md). Payloads of many kilobytes are quicker in larger pages.
	PageSize int
}

// Memory is the path of a database in memory. It has one connection and is gone
// when that is closed.
const Memory = ":memory:"

// Open opens the database file at path, a path and not a URI. It makes a missing file, with
// the permissions of the process's umask and pages of [DefaultPageSize] bytes. Its connections
// use the write-ahead log, wait 5 s for a writer, wait for the disk at each commit
// (synchronous = FULL), enforce foreign keys and begin transactions with the write lock (BEGIN
// IMMEDIATE), so that an AddTx never finds that another transaction has written since it
// began. A path that cannot be opened is an error here, not later.
//
// The file must be on a disk of this machine: SQLite's write-ahead log does not work on
// network file systems.
func Open(path string) (*sql.DB, error) { return OpenWith(path, nil) }

// OpenWith is Open with options. A bad option gives a [*batch.InputError].
func OpenWith(path string, o *Options) (*sql.DB, error) {
	size := DefaultPageSize
	if o != nil && o.PageSize != 0 {
		size = o.PageSize
	}
	if size < 512 || size > 65536 || size&(size-1) != 0 {
		return nil, &batch.InputError{Field: "PageSize", Value: strconv.Itoa(size), Want: "a power of two from 512 to 65536, or 0 for 2048"}
	}
	where, err := fileURL(path)
	if err != nil {
		return nil, fmt.Errorf("sqliteopen: %w", err)
	}
	c, err := connector(where, size)
	if err != nil {
		return nil, fmt.Errorf("sqliteopen: %w", err)
	}
	db := sql.OpenDB(c)
	if path == Memory {
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
	} else {
		db.SetMaxOpenConns(maxConns)
		db.SetMaxIdleConns(maxConns) // to open a connection and set it up costs more than to keep it
	}
	if err := db.Ping(); err != nil {
		_ = db.Close() // the earlier error is returned
		return nil, fmt.Errorf("sqliteopen: open %q: %w", path, err)
	}
	return db, nil
}

// sharedSettings returns the parameters of a data source name that both drivers have. Foreign keys
// are enforced for the application's own tables.
func sharedSettings() url.Values {
	return url.Values{"_busy_timeout": {"5000"}, "_synchronous": {"FULL"}, "_foreign_keys": {"on"}, "_txlock": {"immediate"}}
}

// cacheSize is the size of each connection's cache: 16 MiB.
const cacheSize = "-16384"

// fileURL returns the URI of a path, without parameters.
func fileURL(path string) (*url.URL, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("path %q: want a file name or %s", path, Memory)
	}
	if path == Memory {
		return &url.URL{Scheme: "file", Opaque: Memory}, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// The path becomes the path of a URI, so that '?', '#' and '%' in a file's name stay parts of
	// the name.
	return &url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(abs), "/")}, nil
}

// dataSourceName returns a location with parameters.
func dataSourceName(where *url.URL, settings url.Values) string {
	full := *where
	if where.Opaque == Memory {
		settings.Set("mode", "memory")
	}
	full.RawQuery = settings.Encode()
	return full.String()
}
