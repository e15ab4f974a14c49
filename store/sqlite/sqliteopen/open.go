// Package sqliteopen opens SQLite databases with mattn's driver, with the settings that
// package sqlite requires. It needs cgo; package sqlite does not.
package sqliteopen

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/dltbatch/dltbatch/batch"
)

// maxConns is how many connections a database file gets: one writes at a time, the others read
// beside it.
const maxConns = 4

// DefaultPageSize stands for an Options.PageSize of 0.
const DefaultPageSize = 2048

// copyAfter is the size of the log in bytes from which a commit copies it to the database. It
// is SQLite's default, 1000 pages, with SQLite's own page size, 4096.
const copyAfter = 1000 * 4096

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
	dsn, err := dataSourceName(path)
	if err != nil {
		return nil, fmt.Errorf("sqliteopen: %w", err)
	}
	db := sql.OpenDB(&connector{dsn: dsn, driver: sqlite3.SQLiteDriver{ConnectHook: settings(size)}})
	if path == Memory {
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
	} else {
		db.SetMaxOpenConns(maxConns)
		db.SetMaxIdleConns(maxConns) // opening one and setting it up costs more than keeping it
	}
	if err := db.Ping(); err != nil {
		_ = db.Close() // the earlier error is returned
		return nil, fmt.Errorf("sqliteopen: open %q: %w", path, err)
	}
	return db, nil
}

// connector makes connections as sql.Open would, and makes settings that a data source name
// cannot hold.
type connector struct {
	driver sqlite3.SQLiteDriver
	dsn    string
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c *connector) Driver() driver.Driver { return &c.driver }

// settings sets a connection up. The page size comes before the log, because the log creates
// the file.
func settings(pageSize int) func(*sqlite3.SQLiteConn) error {
	pragmas := fmt.Sprintf("PRAGMA page_size = %d; PRAGMA wal_autocheckpoint = %d", pageSize, copyAfter/pageSize)
	return func(c *sqlite3.SQLiteConn) error {
		// Without cgo the driver's type has no methods, and its Open fails. A program that has this
		// package must build all the same, since it may use another store.
		conn, is := any(c).(interface {
			Exec(query string, args []driver.Value) (driver.Result, error)
			GetFilename(schema string) string
		})
		if !is {
			return errors.New("the program was built without cgo, which SQLite needs")
		}
		_, err := conn.Exec(pragmas, nil)
		if err == nil && conn.GetFilename("") != "" { // not in memory
			_, err = conn.Exec("PRAGMA journal_mode = WAL", nil)
		}
		return err
	}
}

func dataSourceName(path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("path %q: want a file name or %s", path, Memory)
	}
	settings := url.Values{
		"_busy_timeout":    {"5000"},
		"_synchronous":     {"FULL"},
		"_foreign_keys":    {"on"},
		"_txlock":          {"immediate"},
		"_stmt_cache_size": {"64"},     // more than package sqlite has statements
		"_cache_size":      {"-16384"}, // 16 MiB of pages for each connection
	}
	if path == Memory {
		settings.Set("mode", "memory")
		return "file::memory:?" + settings.Encode(), nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// The path of a URI: '?', '#' and '%' in a file's name are part of the name.
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(abs), "/"), RawQuery: settings.Encode()}
	return u.String(), nil
}
