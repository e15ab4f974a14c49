package chaos

import (
	"database/sql"
	"flag"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/ordercrash"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store/postgres"
)

var orderKills = flag.Int("chaos.orders", 1, "kills of workers with orders in each window; from 2 on with evidence, and with a person who decides")

func openOrders(connect func(driver, dsn string) (*sql.DB, error), driver, dsn string) (ordercrash.Store, error) {
	db, err := connect(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(8)
	db.SetMaxOpenConns(20)
	return postgres.New(db, nil)
}

// newDatabase creates a database on the server that the tests of this package share.
func newDatabase(t *testing.T, name string) string {
	at, err := url.Parse(pgtest.Start(t))
	require.NoError(t, err)
	admin, err := sql.Open("pgx", at.String())
	require.NoError(t, err)
	defer func() { assert.NoError(t, admin.Close()) }()
	_, err = admin.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	at.Path = "/" + name
	return at.String()
}

// TestKillOrders kills workers that make batches of orders for a Canton participant. Two workers
// run at a time, with either driver. Without evidence a person decides doubts.
func TestKillOrders(t *testing.T) {
	decided := map[string]time.Duration{"evidence": 400 * time.Millisecond, "a person": 0}
	if *orderKills < 2 { // the other way round with SQLite
		delete(decided, "a person")
	}
	for name, decided := range decided {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t, "orders_"+strings.ReplaceAll(name, " ", "_"))
			db, err := sql.Open("pgx", dsn)
			require.NoError(t, err)
			defer func() { assert.NoError(t, db.Close()) }()
			st, err := postgres.New(db, nil)
			require.NoError(t, err)
			require.NoError(t, st.Migrate(t.Context()))
			ordercrash.Run(t, ordercrash.Options{
				Drivers: drivers, Store: st, KillsPerWindow: *orderKills, Seed: *chaosSeed, DecidedWithin: decided, DSN: dsn,
			})
		})
	}
}
