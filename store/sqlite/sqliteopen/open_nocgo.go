//go:build !cgo

package sqliteopen

import (
	"database/sql/driver"
	"fmt"
	"net/url"

	"modernc.org/sqlite"
)

// connector opens connections with modernc's driver. The driver executes each _pragma in the order
// of the list, and then _journal_mode, which creates the file.
func connector(where *url.URL, pageSize int) (driver.Connector, error) {
	settings := sharedSettings()
	settings["_pragma"] = []string{
		fmt.Sprintf("page_size(%d)", pageSize), fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAfterBytes/pageSize), "cache_size(" + cacheSize + ")",
	}
	if where.Opaque != Memory {
		settings.Set("_journal_mode", "WAL")
	}
	return sqlite.NewConnector(dataSourceName(where, settings))
}
