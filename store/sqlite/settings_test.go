package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// New names the wrong setting of a connection, and its cure.
func TestNewChecksSettings(t *testing.T) {
	for name, c := range map[string]struct {
		dsn  string // with a file in front where it begins with "?"
		max  int
		o    *Options
		want *SettingError // nil: New succeeds
	}{
		"good":          {dsn: "?_journal_mode=WAL&_busy_timeout=5000&_synchronous=FULL"},
		"extra":         {dsn: "?_journal_mode=WAL&_synchronous=EXTRA"},
		"one of one":    {dsn: "?_journal_mode=WAL&_synchronous=FULL", max: 1},
		"rollback log":  {dsn: "?_synchronous=FULL", want: &SettingError{Setting: "journal_mode", Have: "delete", DSN: "_journal_mode=WAL"}},
		"no waiting":    {dsn: "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=999", want: &SettingError{Setting: "busy_timeout", Have: "999", DSN: "_busy_timeout=5000"}},
		"as it comes":   {dsn: "?_journal_mode=WAL", want: &SettingError{Setting: "synchronous", Have: "1", DSN: "_synchronous=FULL"}},
		"normal":        {dsn: "?_journal_mode=WAL&_synchronous=NORMAL", o: &Options{AllowNormal: true}},
		"off":           {dsn: "?_journal_mode=WAL&_synchronous=OFF", o: &Options{AllowNormal: true}, want: &SettingError{Setting: "synchronous", Have: "0", DSN: "_synchronous=FULL"}},
		"memory":        {dsn: ":memory:", max: 1},
		"memories":      {dsn: ":memory:", want: &SettingError{Setting: "journal_mode", Have: "memory", DSN: "_journal_mode=WAL"}},
		"memory in log": {dsn: "?_journal_mode=MEMORY&_synchronous=FULL", want: &SettingError{Setting: "journal_mode", Have: "memory", DSN: "_journal_mode=WAL"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.dsn[0] == '?' {
				c.dsn = "file:" + filepath.Join(t.TempDir(), "q.db") + c.dsn
			}
			db, err := sql.Open("sqlite3", c.dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			db.SetMaxOpenConns(c.max)
			s, err := New(db, c.o)
			if c.want == nil {
				require.NoError(t, err)
				require.NoError(t, s.Migrate(t.Context()))
				require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
				return
			}
			var got *SettingError
			require.ErrorAs(t, err, &got)
			assert.Nil(t, s)
			c.want.Want = got.Want
			assert.Equal(t, c.want, got)
			assert.Contains(t, err.Error(), c.want.DSN)
		})
	}
}

// A pragma that was executed on one connection does not show on the next.
func TestNewLooksAtMoreThanOneConnection(t *testing.T) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "q.db")+"?_journal_mode=WAL")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec("PRAGMA synchronous = FULL")
	require.NoError(t, err)
	_, err = New(db, nil)
	var got *SettingError
	require.ErrorAs(t, err, &got)
	assert.Equal(t, "synchronous", got.Setting)
}

// New changes nothing, and without tables every method names Migrate.
func TestNotMigrated(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "q.db"), sqliteopen.Memory} {
		db, err := sqliteopen.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		s, err := New(db, nil)
		require.NoError(t, err)
		var tables int
		require.NoError(t, db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables))
		assert.Zero(t, tables)
		for name, call := range calls(t, s) {
			err := call()
			assert.ErrorIs(t, err, ErrNotMigrated, name)
			assert.ErrorContains(t, err, "Migrate", name)
		}
		require.NoError(t, s.Migrate(t.Context()))
		for name, call := range calls(t, s) {
			assert.NotErrorIs(t, call(), ErrNotMigrated, name)
		}
		require.NoError(t, s.Migrate(t.Context()), "again")
	}
}
