package crash

import (
	"database/sql"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/ordercrash"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var orderKillsPerWindow = flag.Int("crash.orders", 1, "kills of workers with orders in each window; from 2 on with evidence, and with a person who decides")

func openOrders(connect func(driver, dsn string) (*sql.DB, error), driver, dsn string) (ordercrash.Store, error) {
	db, err := connect(driver, dsn)
	if err != nil {
		return nil, err
	}
	return sqlite.New(db, nil)
}

// TestKillOrders kills workers that make batches of orders for a Canton participant, two at a time
// on one file. Without evidence a person decides the doubts.
func TestKillOrders(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	decided := map[string]time.Duration{"evidence": 400 * time.Millisecond, "a person": 0}
	if *orderKillsPerWindow < 2 { // the test with PostgreSQL does it the other way round
		delete(decided, "evidence")
	}
	for name, decided := range decided {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "queue.db")
			db, err := sqliteopen.Open(file)
			require.NoError(t, err)
			defer func() { assert.NoError(t, db.Close()) }()
			st, err := sqlite.New(db, nil)
			require.NoError(t, err)
			require.NoError(t, st.Migrate(t.Context()))
			ordercrash.Run(t, ordercrash.Options{
				Drivers: []string{"sqlite3"}, Store: st, KillsPerWindow: *orderKillsPerWindow, Seed: *crashSeed, DecidedWithin: decided,
				DSN: "file:" + file + "?_journal_mode=WAL&_busy_timeout=5000&_synchronous=FULL&_txlock=immediate&_foreign_keys=on",
			})
		})
	}
}
