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

// clock is a database clock that a test can change. It replaces SQLite's unixepoch in the
// connections of one database.
type clock struct {
	offset atomic.Int64
	frozen atomic.Int64 // the time in milliseconds at which it stands; 0 means that it runs
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

// clockDriver has the clock of each test's database, under the name in the parameter "clock" of
// the data source name, which SQLite ignores.
type clockDriver struct {
	mu     sync.Mutex
	clocks map[string]*clock
}

var clockDrivers = func() *clockDriver {
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

// testSettings has synchronous=NORMAL, because these tests do not cover power failures, and to
// wait for the disk at each of their thousands of commits would take minutes.
const testSettings = "_journal_mode=WAL&_busy_timeout=20000&_synchronous=NORMAL&_foreign_keys=on&_txlock=immediate&_stmt_cache_size=64"

// openClock opens a database file with the clock c.
func openClock(t testing.TB, path string, c *clock) *sql.DB {
	t.Helper()
	return mattnDriver.open(t, path, c)
}

// newTestStore returns a migrated store on a new file.
func newTestStore(t testing.TB) (*Store, *clock, string) {
	t.Helper()
	return mattnDriver.fresh(t)
}

// openStoreAgain returns a store on an existing file.
func openStoreAgain(t testing.TB, path string, c *clock) *Store {
	t.Helper()
	return mattnDriver.reopen(t, path, c)
}

// migratedFile returns the bytes of an empty database with all tables. Most of the time of the
// tests would be spent if each of them migrated.
func migratedFile(t testing.TB) []byte {
	t.Helper()
	migratedTemplate.Do(func() {
		path := filepath.Join(t.TempDir(), "template.db")
		db := openClock(t, path, &clock{})
		s, err := New(db, &Options{AllowNormal: true})
		require.NoError(t, err)
		require.NoError(t, s.Migrate(t.Context()))
		require.NoError(t, db.Close()) // this copies the write-ahead log into the file
		migratedTemplate.bytes, err = os.ReadFile(path)
		require.NoError(t, err)
	})
	return migratedTemplate.bytes
}

var migratedTemplate struct {
	sync.Once
	bytes []byte
}
