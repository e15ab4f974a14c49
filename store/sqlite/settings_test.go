package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// New returns an error that names the wrong setting of a connection and how to correct it.
func TestNewChecksSettings(t *testing.T) {
	for name, c := range map[string]struct {
		dsn  string // the name of a file is put before it if it begins with "?"
		max  int
		o    *Options
		want *SettingError // nil if New succeeds
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
		"one locks all": {dsn: "?_journal_mode=WAL&_synchronous=FULL&_locking_mode=EXCLUSIVE", max: 1, want: &SettingError{Setting: "locking_mode", Have: "exclusive", DSN: "no _locking_mode"}},
		"no checks":     {dsn: "?_journal_mode=WAL&_synchronous=FULL&_ignore_check_constraints=1", want: &SettingError{Setting: "ignore_check_constraints", Have: "1", DSN: "no _ignore_check_constraints"}},
		"shared":        {dsn: "?_journal_mode=WAL&_synchronous=FULL&cache=shared", want: &SettingError{Setting: "cache", Have: "shared", DSN: "no cache=shared"}},
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

// New finds a wrong setting even if a pragma was executed on one connection only.
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

// If the application changes a setting on a connection that it shares with the store, the store
// notices it when it takes the connection after more than a minute. It closes that connection and
// uses another one.
func TestSettingsAreLookedAtAgain(t *testing.T) {
	for _, c := range []struct{ pragma, setting string }{
		{"synchronous = OFF", "synchronous"},
		{"busy_timeout = 0", "busy_timeout"},
		{"ignore_check_constraints = ON", "ignore_check_constraints"},
		{"read_uncommitted = ON", "read_uncommitted"},
	} {
		t.Run(c.setting, func(t *testing.T) {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "q.db"))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			db.SetMaxIdleConns(1)
			s, err := New(db, nil)
			require.NoError(t, err)
			require.NoError(t, s.Migrate(t.Context()))
			_, err = db.Exec("PRAGMA " + c.pragma)
			require.NoError(t, err)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			var setting *SettingError
			require.ErrorAs(t, s.checkConn(t.Context(), conn, databaseFactsOf(db, s.opts)), &setting)
			assert.Equal(t, c.setting, setting.Setting)
			require.NoError(t, conn.Close())
			require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
			conn, err = s.connect(t.Context())
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		})
	}
}

// The only connection of a database in memory is the database itself. If it is unfit, calls fail,
// and the connection stays open.
func TestAnUnfitConnectionInMemoryIsKept(t *testing.T) {
	db, err := sqliteopen.Open(sqliteopen.Memory)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := New(db, nil)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	for _, c := range []struct {
		value   string
		isUnfit bool
	}{{"ON", false}, {"OFF", true}} {
		_, err = db.Exec("PRAGMA ignore_check_constraints = " + c.value)
		require.NoError(t, err)
		s.settingsReadAt = sqlstore.PerConn[time.Time]{}
		var setting *SettingError
		assert.Equal(t, !c.isUnfit, errors.As(s.Add(t.Context(), newBatch("a", 1)), &setting))
	}
}

// AddTx refuses a transaction on a connection with other settings if its commit would not be
// durable.
func TestAddTxChecksTheCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := New(db, nil)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	for dsn, wrong := range map[string]string{
		"?_synchronous=FULL": "", "?_synchronous=OFF": "synchronous", "?_synchronous=NORMAL": "synchronous",
		"?_synchronous=FULL&_ignore_check_constraints=1": "ignore_check_constraints",
	} {
		theirs, err := sql.Open("sqlite3", "file:"+path+dsn)
		require.NoError(t, err)
		tx, err := theirs.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		err = s.Tx(tx).Add(t.Context(), newBatch("a", 1))
		var setting *SettingError
		if wrong == "" {
			assert.NoError(t, err)
		} else if assert.ErrorAs(t, err, &setting, dsn) {
			assert.Equal(t, wrong, setting.Setting)
		}
		require.NoError(t, tx.Commit(), "the transaction goes on")
		require.NoError(t, theirs.Close())
	}
}

// New refuses a file whose texts are UTF-16, because keys would sort in another order.
func TestAFileOfAnotherEncodingIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	db, err := sql.Open("sqlite3", "file:"+path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA encoding = 'UTF-16le'; CREATE TABLE theirs (a)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	db, err = sqliteopen.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = New(db, nil)
	var setting *SettingError
	require.ErrorAs(t, err, &setting)
	assert.Equal(t, "encoding", setting.Setting)
}

// Pragmas that are not in the list do not change what the store does.
func TestOtherPragmasChangeNothing(t *testing.T) {
	tier.Plain(t)
	for _, pragma := range []string{
		"foreign_keys = ON", "foreign_keys = OFF", "case_sensitive_like = ON", "recursive_triggers = ON", "reverse_unordered_selects = ON",
		"automatic_index = OFF", "trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "temp_store = MEMORY",
		"full_column_names = ON", "short_column_names = OFF", "defer_foreign_keys = ON", "cache_size = 1", "mmap_size = 1000000",
	} {
		t.Run(pragma, func(t *testing.T) {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "q.db"))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			db.SetMaxOpenConns(1)
			_, err = db.Exec("PRAGMA " + pragma)
			require.NoError(t, err)
			s, err := New(db, nil)
			require.NoError(t, err)
			require.NoError(t, s.Migrate(t.Context()))
			for i := range 30 { // in one call, in several calls, and repeated
				b := []batch.Batch{newBatch("Zürich", 3*i), newBatch("Zürich", 3*i+1), newBatch("zürich", 3*i+2)}
				require.NoError(t, s.Add(t.Context(), b...))
				require.NoError(t, s.Add(t.Context(), b[1]))
			}
			var left []batch.ID
			for range 60 {
				got, err := s.Claim(t.Context(), claimQuery("Zürich"), chooseSerially)
				require.NoError(t, err)
				c := got.Runs[0].Batches[0]
				left = append(left, c.Key.ID)
				done, err := s.Record(t.Context(), []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.IsCommitted}})
				require.NoError(t, err)
				require.Equal(t, store.Written, done[0].Result)
			}
			for i, id := range left {
				require.Equal(t, newBatch("Zürich", i/2*3+i%2).ID, id)
			}
			lanes, err := s.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 9})
			require.NoError(t, err)
			assert.Equal(t, []batch.ServiceID{"zürich"}, lanes)
			n, err := s.Prune(t.Context(), store.PruneQuery{OlderThan: 0})
			require.NoError(t, err)
			t.Log(n)
		})
	}
}

// New changes nothing in the database. Without tables the error of every method names Migrate.
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
		for name, call := range callsOfStore(t, s) {
			err := call()
			assert.ErrorIs(t, err, store.ErrNotMigrated, name)
			assert.ErrorContains(t, err, "Migrate", name)
		}
		require.NoError(t, s.Migrate(t.Context()))
		for name, call := range callsOfStore(t, s) {
			assert.NotErrorIs(t, call(), store.ErrNotMigrated, name)
		}
		require.NoError(t, s.Migrate(t.Context()), "again")
	}
}
