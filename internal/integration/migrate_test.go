package integration

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// Any number of processes may migrate one schema at once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq, pqBouncer, pooledBouncer} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			o := &postgres.Options{Schema: s.schema + "_new"} // this schema does not exist yet
			var stores []*postgres.Store
			for range 6 { // a separate pool for each, as in separate processes
				stores = append(stores, s.open(o).Store)
			}
			all := func(do func(st *postgres.Store) error) {
				var wg sync.WaitGroup
				errs := make([]error, len(stores))
				for i, st := range stores {
					wg.Go(func() { errs[i] = do(st) })
				}
				wg.Wait()
				require.NoError(t, errors.Join(errs...))
			}
			for range 2 {
				all(func(st *postgres.Store) error { return st.Migrate(t.Context()) })
				var versions int
				row := s.admin.QueryRow(`SELECT count(*) FROM ` + o.Schema + `.` + postgres.MigrationsTable + ` WHERE version_id = 1`)
				require.NoError(t, row.Scan(&versions))
				assert.Equal(t, 1, versions)
				require.NoError(t, stores[0].Add(t.Context(), newBatch("a", 1)))
				s.exec(`DROP SCHEMA ` + o.Schema + ` CASCADE`)
				require.ErrorIs(t, stores[1].Add(t.Context(), newBatch("a", 1)), store.ErrNotMigrated)
			}
		})
	}
}

// Every method returns store.ErrNotMigrated if there are no tables, or an error about the version
// if the tables are of another one.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.open(nil)
			every := func(want error) {
				for name, call := range storeCalls(t, st.Store) {
					assert.ErrorIs(t, call(), want, name)
				}
				tx := st.mustBegin(t)
				require.ErrorIs(t, st.addTx(t.Context(), tx, newBatch("a", 1)), want)
				require.ErrorIs(t, st.addOrdersTx(t.Context(), tx, anOrder("a", "1")), want)
				require.NoError(t, tx.exec(t.Context(), "SELECT 1"), "the application's transaction goes on")
				require.NoError(t, tx.rollback())
			}
			every(store.ErrNotMigrated)
			require.NoError(t, st.Migrate(t.Context()))
			for name, call := range storeCalls(t, st.Store) {
				assert.NotErrorIs(t, call(), store.ErrNotMigrated, name)
			}
			table := s.schema + "." + postgres.MigrationsTable
			s.exec(`INSERT INTO ` + table + ` (version_id, is_applied) VALUES (99, true)`)
			st = st.openAnother(t, &postgres.Options{Schema: s.schema})
			every(store.ErrNewerSchema)
			require.ErrorIs(t, st.Migrate(t.Context()), store.ErrNewerSchema)
			// The store works with the next version of the schema, and Migrate does not change it,
			// so that processes can be replaced one by one.
			s.exec(`UPDATE ` + table + ` SET version_id = 2 WHERE version_id = 99`)
			st = st.openAnother(t, &postgres.Options{Schema: s.schema})
			require.NoError(t, st.Migrate(t.Context()))
			require.NoError(t, st.Add(t.Context(), newBatch("a", "rolling")))
			s.exec(`UPDATE ` + table + ` SET version_id = 99 WHERE version_id = 2`)
			s.exec(`DELETE FROM ` + table + ` WHERE version_id = 99`)
			require.NoError(t, st.Add(t.Context(), newBatch("a", "new")))
			// The store also notices if tables are removed while it runs.
			s.exec(`ALTER TABLE ` + s.schema + `.batches RENAME TO elsewhere`)
			require.ErrorIs(t, st.Add(t.Context(), newBatch("a", 2)), store.ErrNotMigrated)
		})
	}
}

func storeCalls(t *testing.T, st *postgres.Store) map[string]func() error {
	ctx, b := t.Context(), newBatch("calls", 1)
	ref, seen := store.Ref{Key: b.Key(), Row: 1}, batch.Record{Key: b.Key(), Version: 1}
	o := order.Order{ID: "calls", Party: "calls", Payload: []byte("p")}
	return map[string]func() error{
		"Add":    func() error { return st.Add(ctx, b) },
		"Get":    func() error { _, err := st.Get(ctx, b.Key()); return err },
		"List":   func() error { _, _, err := st.List(ctx, store.ListQuery{}); return err },
		"Counts": func() error { _, err := st.Counts(ctx, store.CountsQuery{Start: true}); return err },
		"Finals": func() error { _, _, err := st.Finals(ctx, []batch.Key{b.Key()}); return err },
		"Prune":  func() error { _, err := st.Prune(ctx, store.PruneQuery{OlderThan: time.Hour}); return err },
		"Lanes":  func() error { _, err := st.Lanes(ctx, store.LanesQuery{Start: true, Limit: 1}); return err },
		"Claim": func() error {
			_, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"calls"}, Limit: 1}, pickFront)
			return err
		},
		"Payloads": func() error { _, err := st.Payloads(ctx, []store.Ref{ref}); return err },
		"Record": func() error {
			_, err := st.Record(ctx, []store.Outcome{{Ref: ref, Finding: store.Accepted, By: batch.BySubmitter}})
			return err
		},
		"Pending":     func() error { _, err := st.Pending(ctx, store.PendingQuery{Limit: 1, Lease: time.Second}); return err },
		"Witnesses":   func() error { _, err := st.Witnesses(ctx, ref, 9); return err },
		"Checked":     func() error { return st.Checked(ctx, []store.Due{{Ref: ref}}) },
		"LeaseStream": func() error { _, _, err := st.LeaseStream(ctx, "stream", "me", time.Hour); return err },
		"AppendStream": func() error {
			_, err := st.AppendStream(ctx, batch.StreamEntry{Stream: "stream", Epoch: 1})
			return err
		},
		"FindStream": func() error { _, err := st.FindStream(ctx, "stream", []string{"a"}); return err },
		"ReadTexts":  func() error { _, _, err := st.ReadTexts(ctx, "kind", "x"); return err },
		"ListTexts":  func() error { _, _, err := st.ListTexts(ctx, store.TextsQuery{Kind: "kind", Limit: 1}); return err },
		"SwapTexts":  func() error { _, err := st.SwapTexts(ctx, store.Text{Kind: "kind", Name: "x", Body: "t"}); return err },
		"Cancel":     func() error { _, err := st.Cancel(ctx, seen, batch.By{Actor: "test", Reason: "why"}); return err },
		"Requeue":    func() error { _, err := st.Requeue(ctx, seen, store.Requeue{}, batch.By{Actor: "test"}); return err },
		"Decide": func() error {
			_, err := st.Decide(ctx, seen, batch.NotExecutedSendAgain, batch.By{Actor: "test", Reason: "why"})
			return err
		},
		"CountOpen": func() error { _, err := st.CountOpen(ctx); return err },

		"AddOrders":   func() error { return st.AddOrders(ctx, o) },
		"FinalOrders": func() error { _, _, err := st.FinalOrders(ctx, []order.ID{o.ID}); return err },
		"ListOrders":  func() error { _, _, err := st.ListOrders(ctx, order.ListQuery{}); return err },
		"Parties": func() error {
			_, err := st.Parties(ctx, order.PartiesQuery{Start: true, Limit: 1, Cap: 1})
			return err
		},
		"NextOrders": func() error { _, err := st.NextOrders(ctx, "calls", order.NextQuery{Max: 1}); return err },
		"PrepareBatch": func() error {
			_, err := st.PrepareBatch(ctx, newBatch("calls", 2), []order.Ref{{ID: "none", Version: 1}})
			return err
		},
		"SettleableBatches": func() error { _, err := st.SettleableBatches(ctx, 1); return err },
		"SettleOrders": func() error {
			_, err := st.SettleOrders(ctx, []order.Settlement{{Batch: b.Key()}})
			return err
		},
		"FailOrders": func() error {
			_, err := st.FailOrders(ctx, []order.Verdict{{Ref: order.Ref{ID: "none"}, State: order.Failed}})
			return err
		},
		"SplitOrders": func() error {
			_, err := st.SplitOrders(ctx, []order.Verdict{{Ref: order.Ref{ID: "none"}, State: order.Queued}})
			return err
		},
		"ExpireOrders": func() error { _, err := st.ExpireOrders(ctx, 1); return err },
	}
}

// Reserved words of SQL are valid as names and prefixes. Two stores in one schema do not see each
// other's rows.
func TestNames(t *testing.T) {
	t.Parallel()
	s := newSpace(t, libpq)
	t.Cleanup(func() { s.exec(`DROP SCHEMA IF EXISTS "select" CASCADE`) })
	long := strings.Repeat("p", 30)
	var stores []*postgres.Store
	for _, o := range []*postgres.Options{{Schema: "select"}, {Schema: "select", Prefix: "order_"}, {Schema: "select", Prefix: long}} {
		st := s.open(o)
		require.NoError(t, st.Migrate(t.Context()), "%+v", o)
		stores = append(stores, st.Store)
	}
	for i, st := range stores {
		require.NoError(t, st.Add(t.Context(), newBatch("a", i)))
		found, _, err := st.List(t.Context(), store.ListQuery{})
		require.NoError(t, err)
		require.Len(t, found, 1)
	}
	for _, o := range []postgres.Options{{Schema: "Big"}, {Schema: `a"b`}, {Schema: "a.b"}, {Prefix: "x-"}, {Prefix: long + "p"}, {Schema: strings.Repeat("s", 64)}} {
		_, err := postgres.New(s.admin, &o)
		require.ErrorIs(t, err, batch.ErrInvalidInput, "%+v", o)
		_, err = postgres.Migrations(&o)
		require.ErrorIs(t, err, batch.ErrInvalidInput, "%+v", o)
	}
	files, err := postgres.Migrations(&postgres.Options{Schema: "select", Prefix: "order_"})
	require.NoError(t, err)
	text, err := fs.ReadFile(files, "00001_tables.sql")
	require.NoError(t, err)
	assert.Contains(t, string(text), `CREATE TABLE "select"."order_batches" (`)
	assert.NotContains(t, string(text), "{batches}")
}
