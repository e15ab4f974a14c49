package sqlite

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A database of version 1 with open batches is migrated to this version while statements of
// version 1, which name only its columns, go on beside this version's.
func TestUpgradeUnderLoad(t *testing.T) {
	ctx := t.Context()
	s, err := New(openClock(t, t.TempDir()+"/q.db", &clock{}), &Options{AllowNormal: true})
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, s.db, Migrations(), goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 1)
	require.NoError(t, err)

	const insert = `INSERT INTO batches (id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key, trace,
		payload_hash, budget_attempts, budget_every_try) VALUES (?, ?, 'old', (SELECT coalesce(max(created_at), 0) + 1 FROM batches), '', '', 0, x'00', 0, 0)`
	add := func(id string) {
		c, err := s.db.Conn(ctx)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		exec := func(statement string, args ...any) {
			_, err := c.ExecContext(ctx, statement, args...)
			assert.NoError(t, err, statement)
		}
		exec("BEGIN IMMEDIATE")
		exec(insert, idHash(batch.ID(id)), id)
		exec(`INSERT INTO batch_payloads (seq, serialized_batch) SELECT max(seq), x'01' FROM batches`)
		exec(`INSERT INTO open_batches (seq, service_id, created_at, state, version) SELECT seq, service_id, created_at, 1, 1 FROM batches
			WHERE header_signature = ?`, id)
		// A claim by old code of all waiting batches, and its acceptance; the last is claimed
		// again.
		exec(`UPDATE open_batches SET state = 2, version = version + 1, attempt = attempt + 1, claim_expires = 1, next_check = 1, due_at = 1,
			doubt_attempt = 1, doubt_since = 1, claimed_by = 'old' WHERE state = 1 AND service_id = 'old'`)
		exec(`UPDATE open_batches SET state = 3, version = version + 1, claim_expires = 0 WHERE state = 2 AND service_id = 'old'`)
		exec("COMMIT")
	}
	for i := range 10 {
		add(fmt.Sprint("before ", i))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			add(fmt.Sprint("during ", i))
		}
	})
	require.NoError(t, s.Migrate(ctx))
	for i := range 20 {
		b := batch.Batch{Service: "new", ID: batch.ID(fmt.Sprint("new ", i)), Payload: []byte("p")}
		require.NoError(t, s.Add(ctx, b))
		c, err := s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"new"}, Limit: 1, Window: 1, TTL: time.Minute},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		require.Len(t, c.Runs, 1)
		was := c.Runs[0].Batches[0].Was
		assert.Equal(t, time.Minute, was.ClaimTTL)
		applied, err := s.Record(ctx, []store.Outcome{{Ref: c.Runs[0].Batches[0].Ref, Version: was.Version, By: batch.BySubmitter, Finding: store.IsCommitted}})
		require.NoError(t, err)
		require.Equal(t, store.Written, applied[0].Result)
	}
	wg.Wait()
	for n, prefix := range map[int]string{10: "before ", 50: "during ", 20: "new "} {
		service, state := batch.ServiceID("old"), batch.Pending
		if n == 20 {
			service, state = "new", batch.Committed
		}
		for i := range n {
			r, err := s.Get(ctx, batch.Key{Service: service, ID: batch.ID(fmt.Sprint(prefix, i))})
			require.NoError(t, err, "lost")
			require.Equal(t, state, r.State, "%s%d", prefix, i)
		}
	}
	// Old code claims a batch that new code had claimed: the duration of that claim does not
	// count for this claim.
	require.NoError(t, s.Add(ctx, batch.Batch{Service: "new", ID: "again", Payload: []byte("p")}))
	_, err = s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"new"}, Limit: 1, Window: 1, TTL: time.Minute},
		func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
	require.NoError(t, err)
	_, err = s.db.ExecContext(ctx, `UPDATE open_batches SET attempt = attempt + 1, version = version + 1, claim_expires = 1, due_at = 1 WHERE service_id = 'new'`)
	require.NoError(t, err)
	found, err := s.Pending(ctx, store.PendingQuery{Limit: 9, Lease: time.Minute, Services: []batch.ServiceID{"new"}})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Zero(t, found[0].ClaimTTL)
	assert.False(t, found[0].Was.MovedAt.IsZero())
}

// A database without the tables of the stats serves everything else, and gets them while batches are
// added and claimed.
func TestStatsUpgradeUnderLoad(t *testing.T) {
	ctx := t.Context()
	s, err := New(openClock(t, t.TempDir()+"/q.db", &clock{}), &Options{AllowNormal: true})
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, s.db, Migrations(), goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 2)
	require.NoError(t, err)
	_, err = s.RefreshStats(ctx, store.RefreshQuery{})
	require.ErrorIs(t, err, ErrNotMigrated)
	_, err = s.Stats(ctx)
	require.ErrorIs(t, err, ErrNotMigrated)
	require.ErrorIs(t, s.KeepInstance(ctx, store.Instance{ID: "i"}), ErrNotMigrated)
	_, err = s.ListBulks(ctx, 1)
	require.ErrorIs(t, err, ErrNotMigrated)
	_, err = s.db.ExecContext(ctx, `ALTER TABLE ledgers RENAME TO elsewhere`)
	require.NoError(t, err)
	_, err = s.KeepTraits(ctx, "ledger", "", "")
	require.ErrorContains(t, err, "ledgers")
	require.NotErrorIs(t, err, ErrNotMigrated, "a migration would not help")
	_, err = s.db.ExecContext(ctx, `ALTER TABLE elsewhere RENAME TO ledgers`)
	require.NoError(t, err)

	const n = 60
	half := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			assert.NoError(t, s.Add(ctx, batch.Batch{Service: "s", ID: batch.ID(fmt.Sprint(i)), Payload: []byte("p")}))
			c, err := s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: n, TTL: time.Minute, Resend: nil},
				func(l batch.Lane) []batch.Run { return []batch.Run{{len(l.Batches) - 1}} })
			assert.NoError(t, err)
			assert.Len(t, c.Runs, 1)
			if i == n/2 {
				close(half)
			}
		}
	})
	<-half
	require.NoError(t, s.Migrate(ctx))
	wg.Wait()
	did, err := s.RefreshStats(ctx, store.RefreshQuery{})
	require.NoError(t, err)
	require.True(t, did)
	got, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, map[batch.State]int{batch.Submitting: n}, got.Open)
	assert.Equal(t, int64(schemaVersion), got.Schema)
	require.NoError(t, s.KeepInstance(ctx, store.Instance{ID: "i", Schema: 1}))
	got, err = s.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(schemaVersion), got.Instances[0].Schema, "which its code knows")
	sizes := map[string]bool{}
	for _, size := range got.Sizes {
		sizes[size.Name] = size.Bytes > 0
	}
	assert.Equal(t, map[string]bool{"database": true, "log": true}, sizes)
}

// A database without the column for trace contexts serves everything else, and gets it while batches
// are added and claimed. From then on contexts are kept, in a process that was running before, too.
func TestTraceUpgradeUnderLoad(t *testing.T) {
	ctx := t.Context()
	db := openClock(t, t.TempDir()+"/q.db", &clock{})
	open := func() *Store {
		s, err := New(db, &Options{AllowNormal: true})
		require.NoError(t, err)
		return s
	}
	s, other := open(), open()
	p, err := goose.NewProvider(goose.DialectSQLite3, s.db, Migrations(), goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 3)
	require.NoError(t, err)

	const n, parent = 60, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := func(id string) batch.Batch {
		return batch.Batch{Service: "s", ID: batch.ID(id), Payload: []byte("p"), TraceParent: parent}
	}
	kept := func(s *Store, id string) string {
		r, err := s.Get(ctx, traced(id).Key())
		require.NoError(t, err, "lost")
		return r.TraceParent
	}
	half := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			assert.NoError(t, s.Add(ctx, traced(fmt.Sprint(i))))
			c, err := s.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: n, TTL: time.Minute},
				func(l batch.Lane) []batch.Run { return []batch.Run{{len(l.Batches) - 1}} })
			assert.NoError(t, err)
			assert.Len(t, c.Runs, 1)
			if i == n/2 {
				close(half)
			}
		}
	})
	<-half
	require.Empty(t, kept(other, "0"))
	ordered := func(s *Store, id batch.OrderID) string {
		require.NoError(t, s.AddOrders(ctx, batch.Order{ID: id, Party: "p", Payload: []byte("p"), TraceParent: parent}))
		found, err := s.NextOrders(ctx, "p", store.NextQuery{Max: 9})
		require.NoError(t, err)
		return found[len(found)-1].TraceParent
	}
	assert.Empty(t, ordered(s, "without any column"))
	_, err = p.UpTo(ctx, 4)
	require.NoError(t, err)
	assert.Empty(t, ordered(s, "without the column of orders"))
	require.NoError(t, s.Add(ctx, traced("with the column of batches")))
	assert.Equal(t, parent, kept(s, "with the column of batches"))
	require.NoError(t, open().Migrate(ctx))
	assert.Equal(t, parent, ordered(s, "with all"))
	assert.Equal(t, parent, ordered(other, "in another process"))
	wg.Wait()
	assert.Empty(t, kept(s, "0"), "nobody knows it any more")
	for id, s := range map[string]*Store{"the same process": s, "another": other} {
		require.NoError(t, s.Add(ctx, traced(id)))
		assert.Equal(t, parent, kept(s, id))
	}

	// Code of the version before names no such column. What is no context is in no column.
	_, err = db.ExecContext(ctx, `INSERT INTO batches (id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key, trace,
		payload_hash, budget_attempts, budget_every_try) VALUES (?, 'old', 'old', 1, '', '', 0, x'00', 0, 0)`, idHash("old"))
	require.NoError(t, err)
	_, err = db.ExecContext(ctx, `UPDATE batches SET trace_parent = 'short' WHERE header_signature = 'old'`)
	require.ErrorContains(t, err, "CHECK")
	_, err = db.ExecContext(ctx, `UPDATE orders SET trace_parent = 'short'`)
	require.ErrorContains(t, err, "CHECK")
}

// A database without the tables of bulk actions and summaries serves everything else. One migration
// brings both, so that code of the version before goes on working; a process that was running before
// has them, too.
func TestOperatorUpgrade(t *testing.T) {
	ctx := t.Context()
	s, err := New(openClock(t, t.TempDir()+"/q.db", &clock{}), &Options{AllowNormal: true})
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, s.db, Migrations(), goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 5)
	require.NoError(t, err)
	b, by := batch.Batch{Service: "s", ID: "b", Payload: []byte("p")}, batch.By{Actor: "ada", Reason: "why"}
	require.NoError(t, s.Add(ctx, b))
	seen, err := s.Get(ctx, b.Key())
	require.NoError(t, err)
	_, err = s.Cancel(ctx, seen, by)
	require.NoError(t, err)
	acts, _, err := s.Acts(ctx, store.ActsQuery{})
	require.NoError(t, err)
	require.Len(t, acts, 1, "the list of all acts reads the whole table")
	calls := map[string]func() error{
		"ListBulks":   func() error { _, err := s.ListBulks(ctx, 1); return err },
		"AddBulk":     func() error { _, err := s.AddBulk(ctx, "token", "{}", []string{"{}"}, 0); return err },
		"Summary":     func() error { _, err := s.Summary(ctx, "causes"); return err },
		"KeepSummary": func() error { _, err := s.KeepSummary(ctx, "causes", 0, store.Summary{}); return err },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), ErrNotMigrated, name)
	}
	_, err = p.UpTo(ctx, 6)
	require.NoError(t, err)
	for name, call := range calls {
		require.NoError(t, call(), name)
	}
	again, _, err := s.Acts(ctx, store.ActsQuery{})
	require.NoError(t, err)
	assert.Equal(t, acts, again)
}

// On a schema that is more than one version further on every call gives that error, and nothing is
// done. On the next version everything goes on.
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
	require.ErrorIs(t, open().Migrate(ctx), ErrNewerSchema)
	for name, call := range map[string]func(s *Store) error{
		"Add":  func(s *Store) error { return s.Add(ctx, b) },
		"Get":  func(s *Store) error { _, err := s.Get(ctx, b.Key()); return err },
		"Look": func(s *Store) error { _, err := s.Look(ctx, b.Key(), 1); return err },
		"AddTx": func(s *Store) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, tx.Rollback()) }()
			err = s.AddTx(ctx, tx, b)
			_, other := tx.ExecContext(ctx, "SELECT 1")
			assert.NoError(t, other, "the application's transaction goes on")
			return err
		},
	} {
		err := call(open())
		require.ErrorIs(t, err, ErrNewerSchema, name)
		require.NotErrorIs(t, err, ErrNotMigrated, name)
		until := s.checked.Load()
		require.Less(t, time.Until(*until), time.Minute)
		over := time.Now() // of the minute after which a store that runs looks again
		s.checked.Store(&over)
		require.ErrorIs(t, call(s), ErrNewerSchema, name)
		s.checked.Store(until)
	}
}
