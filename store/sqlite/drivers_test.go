package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	modernc "modernc.org/sqlite"
)

// underTest is a driver that the suites run with.
type underTest struct {
	name string
	// connect opens a database by the name of its file, whose clock is c.
	connect func(t testing.TB, path string, c *clock) *sql.DB
}

// mattn is the driver of all other tests, too.
var mattn = underTest{"mattn", func(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	drivers.mu.Lock()
	drivers.clocks[path] = c
	drivers.mu.Unlock()
	db, err := sql.Open("sqlite3_clock", (&url.URL{Scheme: "file", Path: path, RawQuery: testSettings}).String())
	require.NoError(t, err)
	return db
}}

// pure is the driver that needs no cgo: it passes over the parameter for a cache of statements.
var pure = underTest{"modernc", func(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	d := &modernc.Driver{}
	require.NoError(t, d.RegisterScalarFunction("unixepoch", -1, func(*modernc.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		return c.unixepoch(), nil
	}))
	return sql.OpenDB(connector{d, (&url.URL{Scheme: "file", Path: path, RawQuery: testSettings}).String()})
}}

type connector struct {
	driver sqldriver.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (sqldriver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() sqldriver.Driver                        { return c.driver }

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
