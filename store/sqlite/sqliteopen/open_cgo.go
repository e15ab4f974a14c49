//go:build cgo

package sqliteopen

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/url"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// mattn opens connections as sql.Open would, and makes the settings that a data source name cannot
// express.
type mattn struct {
	driver sqlite3.SQLiteDriver
	dsn    string
}

func connector(where *url.URL, pageSize int) (driver.Connector, error) {
	settings := sharedSettings()
	settings.Set("_stmt_cache_size", "64") // more than package sqlite has statements
	settings.Set("_cache_size", cacheSize)
	return &mattn{dsn: dataSourceName(where, settings), driver: sqlite3.SQLiteDriver{ConnectHook: connectHook(pageSize)}}, nil
}

func (c *mattn) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c *mattn) Driver() driver.Driver { return &c.driver }

// connectHook returns the function that sets up a connection. It sets the page size before the
// journal mode, which creates the file.
func connectHook(pageSize int) func(*sqlite3.SQLiteConn) error {
	pragmas := fmt.Sprintf("PRAGMA page_size = %d; PRAGMA wal_autocheckpoint = %d", pageSize, checkpointAfterBytes/pageSize)
	return func(c *sqlite3.SQLiteConn) error {
		_, err := c.Exec(pragmas, nil)
		if err == nil && c.GetFilename("") != "" { // the database is not in memory
			_, err = c.Exec("PRAGMA journal_mode = WAL", nil)
		}
		return err
	}
}
