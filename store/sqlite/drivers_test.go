package sqlite

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// underTest is a driver with which the suites run.
type underTest struct {
	// connect opens the database in a file, with the clock c.
	connect func(t testing.TB, path string, c *clock) *sql.DB
	// long are the groups of storetest that take most of the time; only make soak runs them.
	long []string
}

// mattn is also the driver of all other tests.
var mattn = underTest{connect: func(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	drivers.mu.Lock()
	drivers.clocks[path] = c
	drivers.mu.Unlock()
	db, err := sql.Open("sqlite3_clock", (&url.URL{Scheme: "file", Path: path, RawQuery: testSettings}).String())
	require.NoError(t, err)
	return db
}}

func (d underTest) open(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	db := d.connect(t, path, c)
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d underTest) fresh(t testing.TB) (*Store, *clock, string) {
	t.Helper()
	path, c := filepath.Join(t.TempDir(), "q.db"), &clock{}
	require.NoError(t, os.WriteFile(path, migrated(t), 0o600))
	return d.reopen(t, path, c), c, path
}

func (d underTest) reopen(t testing.TB, path string, c *clock) *Store {
	t.Helper()
	s, err := New(d.open(t, path, c), &Options{AllowNormal: true})
	require.NoError(t, err)
	return s
}
