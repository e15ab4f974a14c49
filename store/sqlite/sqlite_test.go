package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// callsOfStore returns a call of every method, each with something to do.
func callsOfStore(t *testing.T, s *Store) map[string]func() error {
	return callsWith(t.Context(), s)
}

func callsWith(ctx context.Context, s *Store) map[string]func() error {
	b := newBatch("calls", 1)
	ref, seen := store.Ref{Key: b.Key(), Row: 1}, batch.Record{Key: b.Key(), Version: 1}
	return map[string]func() error{
		"Add":  func() error { return s.Add(ctx, b) },
		"Get":  func() error { _, err := s.Get(ctx, b.Key()); return err },
		"List": func() error { _, _, err := s.List(ctx, store.ListQuery{}); return err },
		"Prune": func() error {
			_, err := s.Prune(ctx, store.PruneQuery{OlderThan: time.Hour})
			return err
		},
		"Lanes":    func() error { _, err := s.Lanes(ctx, store.LanesQuery{Start: true, Limit: 1}); return err },
		"Claim":    func() error { _, err := s.Claim(ctx, claimQuery("calls"), chooseSerially); return err },
		"Payloads": func() error { _, err := s.Payloads(ctx, []store.Ref{ref}); return err },
		"Record": func() error {
			_, err := s.Record(ctx, []store.Outcome{{Ref: ref, Finding: store.Accepted, By: batch.BySubmitter}})
			return err
		},
		"Pending":   func() error { _, err := s.Pending(ctx, store.PendingQuery{Limit: 1, Lease: time.Second}); return err },
		"Checked":   func() error { return s.Checked(ctx, []store.Due{{Ref: ref}}) },
		"ReadTexts": func() error { _, _, err := s.ReadTexts(ctx, "kind", "x"); return err },
		"SwapTexts": func() error { _, err := s.SwapTexts(ctx, store.Text{Kind: "kind", Name: "x", Body: "t"}); return err },
		"Cancel":    func() error { _, err := s.Cancel(ctx, seen, batch.By{Actor: "test", Reason: "why"}); return err },
		"Requeue":   func() error { _, err := s.Requeue(ctx, seen, store.Requeue{}, batch.By{Actor: "test"}); return err },
		"Decide": func() error {
			_, err := s.Decide(ctx, seen, batch.NotExecutedSendAgain, batch.By{Actor: "test", Reason: "why"})
			return err
		},
	}
}

// Any number of processes may migrate one file at the same time.
func TestMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	var g errgroup.Group
	start := make(chan struct{})
	for range 4 { // each has its own *sql.DB, as processes have
		// Neither transactions that begin with the lock nor a shared store are used here.
		db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_busy_timeout=1000&_synchronous=FULL")
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		for range 2 {
			s, err := New(db, nil)
			require.NoError(t, err)
			g.Go(func() error {
				<-start
				return s.Migrate(t.Context())
			})
		}
	}
	close(start)
	require.NoError(t, g.Wait())
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var versions int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+MigrationsTable+" WHERE version_id = 1").Scan(&versions))
	assert.Equal(t, 1, versions)
	s, err := New(db, nil)
	require.NoError(t, err)
	require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
}

// A panic of choose undoes the claim and leaves the connection fit for use.
func TestPanicOfChoose(t *testing.T) {
	s, _, _ := newTestStore(t)
	s.db.SetMaxOpenConns(1) // with one connection the next call gets the same
	ctx := t.Context()
	require.NoError(t, s.Add(ctx, newBatch("a", 1), newBatch("b", 2)))
	panics := func(l batch.Lane) []batch.Run {
		if l.Service == "b" {
			panic("strategy")
		}
		return chooseSerially(l)
	}
	assert.PanicsWithValue(t, "strategy", func() { _, _ = s.Claim(ctx, claimQuery("a", "b"), panics) })
	got, err := s.Claim(ctx, claimQuery("a", "b"), chooseSerially)
	require.NoError(t, err)
	require.Len(t, got.Runs, 2)
	assert.Equal(t, 1, got.Runs[0].Batches[0].Attempt, "the attempt that was counted before the panic is undone")
}

// AddTx is part of the application's transaction. After an error of AddTx the transaction can go
// on.
func TestAddTx(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	require.NoError(t, s.Add(ctx, newBatch("a", 1)))
	_, err := s.db.Exec("CREATE TABLE app (n INTEGER)")
	require.NoError(t, err)
	in := func(end func(*sql.Tx) error, do func(*sql.Tx)) {
		tx, err := s.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.Exec("INSERT INTO app VALUES (1)")
		require.NoError(t, err)
		do(tx)
		require.NoError(t, end(tx))
	}
	other := newBatch("a", 1)
	other.Payload = []byte("other")
	in((*sql.Tx).Commit, func(tx *sql.Tx) {
		assert.ErrorIs(t, s.Tx(tx).Add(ctx, newBatch("a", 2), other), batch.ErrConflict)
		require.NoError(t, s.Tx(tx).Add(ctx, newBatch("a", 3)))
	})
	in((*sql.Tx).Rollback, func(tx *sql.Tx) { require.NoError(t, s.Tx(tx).Add(ctx, newBatch("a", 4))) })
	var rows int
	require.NoError(t, s.db.QueryRow("SELECT count(*) FROM app").Scan(&rows))
	assert.Equal(t, 1, rows, "the application's own row")
	found, _, err := s.List(ctx, store.ListQuery{})
	require.NoError(t, err)
	var ids []batch.ID
	for _, r := range found {
		ids = append(ids, r.ID)
	}
	assert.Equal(t, []batch.ID{newBatch("a", 1).ID, newBatch("a", 3).ID}, ids)
}

// Prune leaves no rows of a removed batch, whether or not foreign keys are enforced.
func TestPruneLeavesNothing(t *testing.T) {
	for _, fk := range []string{"on", "off"} {
		t.Run("foreign_keys="+fk, func(t *testing.T) {
			db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "q.db")+"?"+strings.Replace(testSettings, "_foreign_keys=on", "_foreign_keys="+fk, 1))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			s, err := New(db, &Options{AllowNormal: true})
			require.NoError(t, err)
			ctx := t.Context()
			require.NoError(t, s.Migrate(ctx))
			require.NoError(t, s.Add(ctx, newBatch("a", 1)))
			got, err := s.Claim(ctx, claimQuery("a"), chooseSerially)
			require.NoError(t, err)
			c := got.Runs[0].Batches[0]
			o := store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.IsCommitted, By: batch.BySubmitter,
				Receipts: []batch.Receipt{{TransactionID: "t", Data: []byte("x")}}}
			applied, err := s.Record(ctx, []store.Outcome{o})
			require.NoError(t, err)
			require.Equal(t, store.Written, applied[0].Result)
			require.NoError(t, s.AddOrders(ctx, order.Order{ID: "o", Party: "a", Payload: []byte("p"), Deadline: time.Unix(1, 0)}))
			expired, err := s.ExpireOrders(ctx, 9)
			require.NoError(t, err)
			require.Len(t, expired, 1)
			p, err := s.Prune(ctx, store.PruneQuery{})
			require.NoError(t, err)
			require.Equal(t, 1, p.Batches)
			require.Equal(t, 1, p.Orders)
			for _, table := range []string{"batches", "batch_payloads", "transactions", "batch_tags", "open_batches", "outcomes", "transaction_receipts", "tombstones",
				"orders", "order_payloads", "open_orders", "final_orders", "unsettled_batches", "batch_acts", "attempts", "controls", "lane_acts"} {
				var rows int
				require.NoError(t, db.QueryRow("SELECT count(*) FROM dltbatch_"+table).Scan(&rows))
				assert.Zero(t, rows, table)
			}
		})
	}
}

// While nothing is due Pending needs no lock, so it does not wait for another transaction that
// writes.
func TestPendingReadsWhileNothingIsDue(t *testing.T) {
	s, _, _ := newTestStore(t)
	tx, err := s.db.Begin() // BEGIN IMMEDIATE
	require.NoError(t, err)
	due, err := s.Pending(t.Context(), store.PendingQuery{Limit: 1, Lease: time.Second})
	require.NoError(t, err)
	assert.Empty(t, due)
	require.NoError(t, tx.Rollback())
}

// A ref whose number does not fit its key matches nothing. A commit is the exception, since it is
// a fact about the id: it applies to the batch of that id, such as one that was pruned and added
// again.
func TestNumberOfAnotherBatch(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	a, b := newBatch("a", 1), newBatch("b", 2)
	require.NoError(t, s.Add(ctx, a, b))
	got, err := s.Claim(ctx, claimQuery("a", "b"), chooseSerially)
	require.NoError(t, err)
	wrong := store.Ref{Key: a.Key(), Row: got.Runs[1].Batches[0].Row}
	for _, c := range []struct {
		finding store.Finding
		want    store.Result
	}{{store.Accepted, store.Gone}, {store.IsCommitted, store.Written}} {
		applied, err := s.Record(ctx, []store.Outcome{{Ref: wrong, Version: 2, Finding: c.finding, By: batch.BySubmitter}})
		require.NoError(t, err)
		assert.Equal(t, c.want, applied[0].Result, c.finding)
		other, err := s.Get(ctx, b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Submitting, other.State)
	}
	rec, err := s.Get(ctx, a.Key())
	require.NoError(t, err)
	assert.Equal(t, batch.Committed, rec.State)
}

// Errors wrap the error of SQLite.
func TestErrorsKeepTheirCause(t *testing.T) {
	s, _, path := newTestStore(t)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, s.db.Close())
	err := s.Add(t.Context(), newBatch("a", 1))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "sqlite: add: ")
	assert.NotErrorIs(t, err, store.ErrNotMigrated)
	assert.Error(t, errors.Unwrap(err))
}

// An application may have its own tables in the same file, whatever their names, and whoever
// creates tables first.
func TestApplicationsTables(t *testing.T) {
	const own = `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL); CREATE TABLE IF NOT EXISTS batches (id TEXT);
		CREATE INDEX IF NOT EXISTS batches_id ON batches (id); INSERT INTO orders VALUES ('o', 'apple')`
	for name, first := range map[string]bool{"its own come first": true, "its own come second": false} {
		t.Run(name, func(t *testing.T) {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "q.db"))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			s, err := New(db, nil)
			require.NoError(t, err)
			steps := []func() error{func() error { _, err := db.Exec(own); return err }, func() error { return s.Migrate(t.Context()) }}
			if !first {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				require.NoError(t, step())
			}
			require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
			require.NoError(t, s.AddOrders(t.Context(), order.Order{ID: "o", Party: "p", Payload: []byte("p")}))
			var others string
			require.NoError(t, db.QueryRow(`SELECT group_concat(name, ' ' ORDER BY name) FROM sqlite_schema
				WHERE name NOT LIKE 'dltbatch\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`).Scan(&others))
			assert.Equal(t, "batches batches_id orders", others)
		})
	}
}
