// Package sqliteopen opens SQLite databases with mattn's driver, with the settings
// that package sqlite asks for. It needs cgo; package sqlite does not.
package sqliteopen

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/mattn/go-sqlite3" // registers "sqlite3"
)

// maxConns is how many connections a database file gets: one writes at a time, the
// others read beside it.
const maxConns = 4

// Memory is the path of a database in memory. It has one connection and is gone
// when that is closed.
const Memory = ":memory:"

// Open opens the database file at path, a path and not a URI, and makes it if it is
// not there, with the permissions of the process's umask. Its connections use the
// write-ahead log, wait 5 s for a writer, wait for the disk at each commit
// (synchronous = FULL), enforce foreign keys and begin transactions with the write
// lock (BEGIN IMMEDIATE), so that an AddTx never finds that another has written
// since it began. A path that cannot be opened is an error here, not later.
//
// The file must be on a disk of this machine: SQLite's write-ahead log does not
// work on network file systems.
func Open(path string) (*sql.DB, error) {
	dsn, err := dataSourceName(path)
	if err != nil {
		return nil, fmt.Errorf("sqliteopen: %w", err)
	}
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, fmt.Errorf("sqliteopen: %w", err)
	}
	if path == Memory {
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
	} else {
		db.SetMaxOpenConns(maxConns)
		db.SetMaxIdleConns(maxConns) // opening one and setting it up costs more than keeping it
	}
	if err := db.Ping(); err != nil {
		_ = db.Close() // the error that matters is the one before
		return nil, fmt.Errorf("sqliteopen: open %q: %w", path, err)
	}
	return db, nil
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
	settings.Set("_journal_mode", "WAL")
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// The path of a URI: '?', '#' and '%' in a file's name are part of the name.
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(abs), "/"), RawQuery: settings.Encode()}
	return u.String(), nil
}
