//go:build !race

package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	modernc "modernc.org/sqlite"
)

// This file is left out with the race detector. The library's goroutines are those of the tests
// with cgo, and to compile SQLite's Go code for the detector takes a minute of one processor.

func TestStoreWithoutCgo(t *testing.T) { testStore(t, pureDriver) }

func TestATransactionOfAnotherFileIsRefusedWithoutCgo(t *testing.T) { testOtherFile(t, pureDriver) }

func TestOrdersWithoutCgo(t *testing.T) { testOrders(t, pureDriver) }

// pureDriver is the driver that needs no cgo. It ignores the parameter for a cache of statements.
var pureDriver = testDriver{
	connect: func(t testing.TB, path string, c *clock) *sql.DB {
		t.Helper()
		d := &modernc.Driver{}
		require.NoError(t, d.RegisterScalarFunction("unixepoch", -1, func(*modernc.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
			return c.unixepoch(), nil
		}))
		return sql.OpenDB(connector{d, (&url.URL{Scheme: "file", Path: path, RawQuery: testSettings}).String()})
	},
	longGroups: []string{"record", "rows", "counts"},
}

type connector struct {
	driver sqldriver.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (sqldriver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() sqldriver.Driver                        { return c.driver }
