package flaky_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// openSQLite is a migrated store whose statements fail.
func openSQLite(t *testing.T, f *flaky.Faults) *sqlite.Store {
	dsn := fmt.Sprintf("file:%s?_journal_mode=WAL&_busy_timeout=5000&_synchronous=NORMAL&_foreign_keys=on&_txlock=immediate", filepath.Join(t.TempDir(), "q.db"))
	db, err := f.Open("sqlite3", dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlite.New(db, &sqlite.Options{AllowNormal: true})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func TestContractSQLite(t *testing.T) {
	f := flaky.New(1, 10)
	flaky.Contract(t, openSQLite(t, f), f)
}

// One statement in ten fails. It is real time: all is final, once and in order; how long it
// took is printed.
func TestOneStatementInTenFailsSQLite(t *testing.T) {
	load := flaky.Load{Lanes: 8, Pause: 200 * time.Millisecond, For: 4 * time.Second}
	calm := flaky.New(1, 1<<30)
	t.Logf("no faults: %s", load.Run(t, openSQLite(t, calm), calm, nil))
	f := flaky.New(uint64(time.Now().UnixNano()), 10)
	t.Logf("one in ten: %s\n%s", load.Run(t, openSQLite(t, f), f, nil), f)
}

// A transaction that began, of which nobody heard, is ended: else it would keep all others
// from writing for ever.
func TestABeginWithoutAnAnswer(t *testing.T) {
	f := flaky.New(1, 10)
	s := openSQLite(t, f)
	b := batch.Batch{ID: "a", Service: "s", Payload: []byte("x")}
	for range 8 { // each of the pool's connections
		f.Next("BEGIN", true)
		require.ErrorIs(t, s.Add(t.Context(), b), flaky.ErrAfter)
		require.NoError(t, s.Add(t.Context(), b))
	}
}
