package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
)

// clock is a database clock that a test steps. It replaces SQLite's unixepoch in
// the connections of one database.
type clock struct {
	offset atomic.Int64
	frozen atomic.Int64 // milliseconds; 0: it runs
}

func (c *clock) step(d time.Duration) { c.offset.Add(int64(d)) }

// freeze stops the clock.
func (c *clock) freeze() { c.frozen.Store(time.Now().UnixMilli()) }

func (c *clock) unixepoch(...any) float64 {
	if at := c.frozen.Load(); at != 0 {
		return float64(at) / 1000
	}
	return float64(time.Now().Add(time.Duration(c.offset.Load())).UnixMilli()) / 1000
}

// clocks holds the clock of each test's database by its name in the "clock"
// parameter of the data source name, which SQLite ignores.
type clockDriver struct {
	mu     sync.Mutex
	clocks map[string]*clock
}

var drivers = func() *clockDriver {
	d := &clockDriver{clocks: map[string]*clock{}}
	sql.Register("sqlite3_clock", &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		clk, ok := d.clocks[c.GetFilename("")]
		if !ok {
			return nil
		}
		return c.RegisterFunc("unixepoch", clk.unixepoch, false)
	}})
	return d
}()

// These tests do not look at the losses of a power failure, and waiting for the disk at each
// of their thousands of commits would take minutes: hence NORMAL.
const testSettings = "_journal_mode=WAL&_busy_timeout=20000&_synchronous=NORMAL&_foreign_keys=on&_txlock=immediate&_stmt_cache_size=64"

// openClock opens a database file whose clock is c.
func openClock(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	return mattn.open(t, path, c)
}

// fresh is a migrated store on a new file.
func fresh(t testing.TB) (*Store, *clock, string) {
	t.Helper()
	return mattn.fresh(t)
}

// reopen is a store on a file that is there.
func reopen(t testing.TB, path string, c *clock) *Store {
	t.Helper()
	return mattn.reopen(t, path, c)
}

// migrated is the bytes of an empty database with all tables: migrating anew for
// every test would take most of the time.
func migrated(t testing.TB) []byte {
	t.Helper()
	template.Do(func() {
		path := filepath.Join(t.TempDir(), "template.db")
		db := openClock(t, path, &clock{})
		s, err := New(db, &Options{AllowNormal: true})
		require.NoError(t, err)
		require.NoError(t, s.Migrate(t.Context()))
		require.NoError(t, db.Close()) // this brings the write-ahead log into the file
		template.bytes, err = os.ReadFile(path)
		require.NoError(t, err)
	})
	return template.bytes
}

var template struct {
	sync.Once
	bytes []byte
}
