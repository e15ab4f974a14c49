package sqlite

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// testDriver is a driver with which the suites run.
type testDriver struct {
	// connect opens the database in a file, with the clock c.
	connect func(t testing.TB, path string, c *clock) *sql.DB
	// longGroups are the groups of storetest that take most of the time; only make soak runs them.
	longGroups []string
}

// mattnDriver is also the driver of all other tests.
var mattnDriver = testDriver{connect: func(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	clockDrivers.mu.Lock()
	clockDrivers.clocks[path] = c
	clockDrivers.mu.Unlock()
	db, err := sql.Open("sqlite3_clock", (&url.URL{Scheme: "file", Path: path, RawQuery: testSettings}).String())
	require.NoError(t, err)
	return db
}}

func (d testDriver) open(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	db := d.connect(t, path, c)
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d testDriver) fresh(t testing.TB) (*Store, *clock, string) {
	t.Helper()
	path, c := filepath.Join(t.TempDir(), "q.db"), &clock{}
	require.NoError(t, os.WriteFile(path, migratedFile(t), 0o600))
	return d.reopen(t, path, c), c, path
}

func (d testDriver) reopen(t testing.TB, path string, c *clock) *Store {
	t.Helper()
	s, err := New(d.open(t, path, c), &Options{AllowNormal: true})
	require.NoError(t, err)
	return s
}
