package integration

import (
	"context"
	"errors"
	"fmt"
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

// Serializable transactions that add to different lanes do not make each other fail: none of them
// reads a page of a table or an index that another one writes. In this test all transactions are
// open together, and take turns.
func TestSerializableTxOfDifferentLanes(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := newSpace(t, d)
			st := s.app()
			allowed := st.openAnother(t, &postgres.Options{Schema: s.schema, AllowSnapshotTx: true})
			addFinished(t, st, "a", "b", "c")
			_, err := st.Prune(ctx, store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
			require.NoError(t, err)
			require.NoError(t, allowed.Add(ctx, newBatch("lane0", "history"), newBatch("lane1", "history 1")))
			const lanes = 4
			for round := range 3 {
				var open []*appTx
				for range lanes {
					tx := st.mustBegin(t)
					require.NoError(t, tx.exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
					open = append(open, tx)
				}
				for part := range 2 {
					for i, tx := range open {
						b := newBatch(fmt.Sprint("lane", i), fmt.Sprint(round, "/", i, "/", part))
						b.DataChangeID = string(b.ID)
						require.NoError(t, allowed.addTx(ctx, tx, b))
						o := anOrder(batch.ServiceID(fmt.Sprint("party", i)), order.ID(b.ID))
						o.Key = string(b.ID)
						require.NoError(t, allowed.addOrdersTx(ctx, tx, o))
					}
				}
				var locked string
				require.NoError(t, s.admin.QueryRow(`SELECT coalesce(string_agg(DISTINCT c.relname, ' '), '') FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
					WHERE l.mode = 'SIReadLock' AND c.relname <> 'clock' AND c.relnamespace = '`+s.schema+`'::regnamespace`).Scan(&locked))
				assert.Empty(t, locked, "predicate locks")
				for _, tx := range open {
					require.NoError(t, tx.commit())
				}
			}
			for i := range lanes {
				var want []batch.ID
				if i < 2 {
					want = append(want, []batch.ID{"history", "history 1"}[i])
				}
				for round := range 3 {
					for part := range 2 {
						want = append(want, batch.ID(fmt.Sprint(round, "/", i, "/", part)))
					}
				}
				assert.Equal(t, want, waitingIDs(t, st.Store, batch.ServiceID(fmt.Sprint("lane", i))))
			}
			var left int
			require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM `+s.schema+`.tombstones`).Scan(&left))
			assert.Equal(t, 3, left, "no tombstone of what was added stays")
		})
	}
}

// After the clock was stepped back, a process that has seen the earlier time keeps the order of a
// lane also in serializable transactions.
func TestSerializableTxAfterAStepBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newSpace(t, nativePool)
	st := s.app()
	allowed := st.openAnother(t, &postgres.Options{Schema: s.schema, AllowSnapshotTx: true})
	other := st.openAnother(t, &postgres.Options{Schema: s.schema})
	require.NoError(t, other.Add(ctx, newBatch("s", "first")))
	require.NoError(t, allowed.Add(ctx, newBatch("t", "elsewhere")))
	s.stepClock(-time.Hour)
	add := func(ids ...string) {
		tx := st.mustBegin(t)
		require.NoError(t, tx.exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
		for _, id := range ids {
			require.NoError(t, allowed.addTx(ctx, tx, newBatch("s", id)))
		}
		require.NoError(t, tx.commit())
	}
	add("second", "third")
	add("fourth")
	assert.Equal(t, []batch.ID{"first", "second", "third", "fourth"}, waitingIDs(t, st.Store, "s"))
}

// A batch that has ended without effect, and was removed, is also refused in the application's
// transaction, by its id and by its key. The transaction can continue.
func TestAddTxOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			ctx := t.Context()
			s := newSpace(t, nativePool)
			st := s.app()
			allowed := st.openAnother(t, &postgres.Options{Schema: s.schema, AllowSnapshotTx: true})
			b := newBatch("lane", "a")
			b.DataChangeID = "key"
			require.NoError(t, st.Add(ctx, b))
			rec, err := st.Get(ctx, b.Key())
			require.NoError(t, err)
			_, err = st.Cancel(ctx, rec, batch.By{Actor: "ada", Reason: "not now"})
			require.NoError(t, err)
			p, err := st.Prune(ctx, store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
			require.NoError(t, err)
			require.Equal(t, 1, p.Batches)
			again := b
			again.ID = "another id"
			for _, b := range []batch.Batch{b, again} {
				tx := st.mustBegin(t)
				require.NoError(t, tx.exec(ctx, "SET TRANSACTION ISOLATION LEVEL "+level))
				err = allowed.addTx(ctx, tx, newBatch("lane", "no"), b)
				var ended *batch.EndedError
				require.ErrorAs(t, err, &ended)
				assert.Equal(t, batch.ID("a"), ended.Record.ID)
				assert.Equal(t, batch.KindCancelled, ended.Record.Error.Kind)
				require.NoError(t, allowed.addTx(ctx, tx, newBatch("lane", "of "+string(b.ID))))
				require.NoError(t, tx.commit())
			}
			assert.Equal(t, []batch.ID{"of a", "of another id"}, waitingIDs(t, st.Store, "lane"))
		})
	}
}

// A copy made by logical replication has the rows, and sequences that begin anew. Each kind of Add
// first moves the sequences behind the rows.
func TestSequencesBehindTheRows(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := newSpace(t, d)
			st := s.app()
			for i := range 20 { // more than the repetitions of one Add
				require.NoError(t, st.Add(ctx, newBatch("old", i)))
				require.NoError(t, st.AddOrders(ctx, anOrder("old", order.ID(fmt.Sprint(i)))))
			}
			behind := func() {
				s.exec(`SELECT setval('` + s.schema + `.batch_seq', 1, false), setval('` + s.schema + `.orders_seq', 1, false)`)
			}
			many := make([]batch.Batch, 150) // by COPY
			for i := range many {
				many[i] = newBatch("new", fmt.Sprint("many", i))
			}
			behind()
			require.NoError(t, st.Add(ctx, newBatch("new", "quick")))
			require.NoError(t, st.AddOrders(ctx, anOrder("new", "one")))
			behind()
			require.NoError(t, st.Add(ctx, many...))
			behind()
			require.NoError(t, st.Add(ctx, newBatch("new", "quick"), newBatch("new", "careful")))
			behind()
			tx := st.mustBegin(t)
			require.NoError(t, st.addTx(ctx, tx, newBatch("new", "tx")))
			require.NoError(t, st.addOrdersTx(ctx, tx, anOrder("new", "two")))
			require.NoError(t, tx.commit())
			behind()
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				wg.Go(func() { errs[i] = st.Add(ctx, newBatch(fmt.Sprint("at once ", i), i+100)) })
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...))
			var rows, numbers int
			require.NoError(t, s.admin.QueryRow(`SELECT count(*), count(DISTINCT seq) FROM `+s.schema+`.batches`).Scan(&rows, &numbers))
			assert.Equal(t, 20+1+150+1+1+4, rows)
			assert.Equal(t, rows, numbers)
		})
	}
}

// A violation of the application's own unique index is an error. The store does not treat it as a
// batch that is known already.
func TestAnotherUniqueIndex(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := newSpace(t, d)
			st := s.app()
			s.exec(`CREATE UNIQUE INDEX one_signer ON ` + s.schema + `.batches (signer_public_key) WHERE signer_public_key <> ''`)
			first, second := newBatch("s", 1), newBatch("s", 2)
			first.SignerPublicKey, second.SignerPublicKey = "key", "key"
			require.NoError(t, st.Add(ctx, first))
			require.ErrorContains(t, st.Add(ctx, second), "one_signer")
			require.NoError(t, st.Add(ctx, first))
			require.ErrorContains(t, st.Add(ctx, second), "unique index that dltbatch has not made")
			assert.Equal(t, []batch.ID{"1"}, waitingIDs(t, st.Store, "s"))
		})
	}
}
