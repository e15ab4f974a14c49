package sqlite

import (
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// On a schema that is more than one version further on, every call returns ErrNewerSchema and does
// nothing. On the next version every call works.
func TestNewerSchema(t *testing.T) {
	ctx := t.Context()
	db := openClock(t, t.TempDir()+"/q.db", &clock{})
	open := func() *Store {
		s, err := New(db, &Options{AllowNormal: true})
		require.NoError(t, err)
		return s
	}
	b := batch.Batch{Service: "s", ID: "b", Payload: []byte("p")}
	require.NoError(t, open().Migrate(ctx))
	at := func(version int) {
		_, err := db.ExecContext(ctx, `INSERT INTO `+MigrationsTable+` (version_id, is_applied) VALUES (?, true)`, version)
		require.NoError(t, err)
	}
	at(schemaVersion + 1)
	s := open()
	require.NoError(t, s.Migrate(ctx))
	require.NoError(t, s.Add(ctx, b))
	_, err := s.Get(ctx, b.Key())
	require.NoError(t, err)

	at(schemaVersion + 2)
	require.ErrorIs(t, open().Migrate(ctx), store.ErrNewerSchema)
	for name, call := range map[string]func(s *Store) error{
		"Add":  func(s *Store) error { return s.Add(ctx, b) },
		"Get":  func(s *Store) error { _, err := s.Get(ctx, b.Key()); return err },
		"Look": func(s *Store) error { _, err := s.Look(ctx, b.Key(), 1); return err },
		"AddTx": func(s *Store) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, tx.Rollback()) }()
			err = s.Tx(tx).Add(ctx, b)
			_, other := tx.ExecContext(ctx, "SELECT 1")
			assert.NoError(t, other, "the application's transaction goes on")
			return err
		},
	} {
		err := call(open())
		require.ErrorIs(t, err, store.ErrNewerSchema, name)
		require.NotErrorIs(t, err, store.ErrNotMigrated, name)
		until := s.schemaKnownUntil.Load()
		require.Less(t, time.Until(*until), time.Minute)
		over := time.Now() // the end of the minute after which a store checks again
		s.schemaKnownUntil.Store(&over)
		require.ErrorIs(t, call(s), store.ErrNewerSchema, name)
		s.schemaKnownUntil.Store(until)
	}
}

// nextVersion is a migration by the rules of docs/migrations.md: columns in each table that an
// addition, a claim or a record writes, a table, and an index.
const nextVersion = `-- +goose Up
ALTER TABLE dltbatch_batches ADD COLUMN next TEXT NOT NULL DEFAULT '';
ALTER TABLE dltbatch_open_batches ADD COLUMN next INTEGER;
ALTER TABLE dltbatch_outcomes ADD COLUMN next INTEGER NOT NULL DEFAULT 0;
CREATE TABLE nexts (id INTEGER PRIMARY KEY) STRICT;
CREATE INDEX dltbatch_batches_next ON dltbatch_batches (next, created_at);
`

// While two stores of this code add and deliver, somebody migrates to the next version. No batch
// is lost or claimed a second time, also by stores of this code that are opened afterwards.
func TestTheNextVersionComesUnderLoad(t *testing.T) {
	ctx := t.Context()
	path := t.TempDir() + "/q.db"
	open := func() *Store {
		s, err := New(openClock(t, path, &clock{}), &Options{AllowNormal: true})
		require.NoError(t, err)
		return s
	}
	require.NoError(t, open().Migrate(ctx))
	first, err := fs.ReadFile(Migrations(), "00001_tables.sql")
	require.NoError(t, err)
	next, err := goose.NewProvider(goose.DialectSQLite3, open().db, fstest.MapFS{
		"00001_tables.sql": &fstest.MapFile{Data: first}, "00002_next.sql": &fstest.MapFile{Data: []byte(nextVersion)},
	}, goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)

	const each, part = 90, 30
	var mu sync.Mutex
	claims := map[batch.Key]int{}
	deliver := func(s *Store, lane batch.ServiceID, i int) {
		assert.NoError(t, s.Add(ctx, batch.Batch{Service: lane, ID: batch.ID(fmt.Sprint(lane, i)), Payload: []byte("p")}))
		c, err := s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{lane, "both"}, Limit: 9, Window: 9, TTL: time.Hour},
			func(l batch.Lane) (runs []batch.Run) {
				for i, b := range l.Batches {
					if b.Ready {
						runs = append(runs, batch.Run{i})
					}
				}
				return runs
			})
		assert.NoError(t, err)
		var outcomes []store.Outcome
		for _, r := range c.Runs {
			for _, b := range r.Batches {
				mu.Lock()
				claims[b.Key]++
				mu.Unlock()
				outcomes = append(outcomes, store.Outcome{Ref: b.Ref, Version: b.Version, Was: b.Was, By: batch.BySubmitter, Finding: store.IsCommitted})
			}
		}
		_, err = s.Record(ctx, outcomes)
		assert.NoError(t, err)
	}
	var started, all sync.WaitGroup
	started.Add(2)
	for p := range 2 {
		s, lane := open(), batch.ServiceID(fmt.Sprint("lane ", p))
		all.Go(func() {
			for i := range each {
				if i == part {
					started.Done()
				}
				deliver(s, lane, i)
				assert.NoError(t, s.Add(ctx, batch.Batch{Service: "both", ID: batch.ID(fmt.Sprint("both ", p, " ", i)), Payload: []byte("p")}))
			}
		})
	}
	started.Wait()
	var late *Store
	for late == nil {
		if _, err := next.Up(ctx); err == nil {
			late = open()
		} else {
			require.ErrorContains(t, err, "locked")
		}
	}
	require.NoError(t, late.Migrate(ctx), "it leaves a newer schema as it is")
	have, err := late.Schema(ctx)
	require.NoError(t, err)
	require.Equal(t, store.Schema{Have: schemaVersion + 1, Want: schemaVersion}, have)
	all.Wait()
	for i := range 2 * each {
		deliver(late, "late", i)
	}
	assert.Len(t, claims, 2*each+2*each+2*each)
	for key, n := range claims {
		assert.Equal(t, 1, n, key)
		r, err := late.Get(ctx, key)
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, r.State, key)
	}
	var columns int
	require.NoError(t, late.db.QueryRow(`SELECT count(*) FROM dltbatch_outcomes WHERE next = 0`).Scan(&columns))
	assert.Equal(t, len(claims), columns)
}

// A database that was made by a version from before the first release is refused by every call,
// and by Migrate before it writes anything.
func TestUnreleasedSchemaIsRefused(t *testing.T) {
	ctx := t.Context()
	for _, version := range []int{1, 2, 7} {
		db := openClock(t, t.TempDir()+"/q.db", &clock{})
		_, err := db.Exec(`CREATE TABLE dltbatch_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL)`)
		require.NoError(t, err)
		for v := range version + 1 {
			_, err := db.Exec(`INSERT INTO dltbatch_migrations (version_id, is_applied) VALUES (?, true)`, v)
			require.NoError(t, err)
		}
		s, err := New(db, &Options{AllowNormal: true})
		require.NoError(t, err)
		b := batch.Batch{Service: "s", ID: "b", Payload: []byte("p")}
		for name, call := range map[string]func() error{
			"Migrate": func() error { return s.Migrate(ctx) },
			"Schema":  func() error { _, err := s.Schema(ctx); return err },
			"Add":     func() error { return s.Add(ctx, b) },
			"Get":     func() error { _, err := s.Get(ctx, b.Key()); return err },
			"Look":    func() error { _, err := s.Look(ctx, b.Key(), 1); return err },
			"AddTx": func() error {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				defer func() { assert.NoError(t, tx.Rollback()) }()
				return s.Tx(tx).Add(ctx, b)
			},
		} {
			err := call()
			require.ErrorIs(t, err, store.ErrUnreleasedSchema, name)
			require.ErrorContains(t, err, fmt.Sprintf("dltbatch: a version from before the first release made the database, and nothing migrates it: make a new one: "+
				"it has the table dltbatch_migrations, at version %d, and no dltbatch_schema", version), name)
		}
		var tables string
		require.NoError(t, db.QueryRow(`SELECT group_concat(name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`).Scan(&tables))
		require.Equal(t, "dltbatch_migrations", tables)
	}
}

// A text that is no valid trace context is not stored.
func TestTraceContextsAreWhole(t *testing.T) {
	s, err := New(openClock(t, t.TempDir()+"/q.db", &clock{}), &Options{AllowNormal: true})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Add(t.Context(), batch.Batch{Service: "s", ID: "b", Payload: []byte("p")}))
	require.NoError(t, s.AddOrders(t.Context(), order.Order{ID: "o", Party: "p", Payload: []byte("p")}))
	for _, table := range []string{"batches", "orders"} {
		_, err := s.db.Exec(`UPDATE dltbatch_` + table + ` SET trace_parent = 'short'`)
		require.ErrorContains(t, err, "CHECK", table)
	}
}
