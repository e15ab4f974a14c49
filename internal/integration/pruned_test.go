package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// addFinished adds a batch and an order for each id, and brings them to their ends.
func addFinished(t *testing.T, st *testApp, ids ...string) {
	t.Helper()
	ctx := t.Context()
	for _, id := range ids {
		require.NoError(t, st.Add(ctx, newBatch("lane", id)))
		_, err := deliverAll(ctx, st.Store, time.Minute, "lane")
		require.NoError(t, err)
		require.NoError(t, st.AddOrders(ctx, anOrder("party", order.ID(id))))
		next, err := st.NextOrders(ctx, "party", order.NextQuery{Max: 1})
		require.NoError(t, err)
		done, err := st.FailOrders(ctx, []order.Verdict{{Ref: refsOf(next)[0], State: order.Failed}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, done)
	}
}

// A transaction that names known batches and orders keeps Prune from removing these, and only
// these, however long it stays open, and it may name more of them later.
func TestPruneBesideAnOpenAddTx(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := newSpace(t, d)
			st := s.app()
			addFinished(t, st, "a", "b", "c")
			tx := st.mustBegin(t)
			require.NoError(t, st.addTx(ctx, tx, newBatch("lane", "b")))
			require.NoError(t, st.addOrdersTx(ctx, tx, anOrder("party", "b")))
			p, err := st.Prune(ctx, store.PruneQuery{})
			require.NoError(t, err)
			assert.Equal(t, store.Pruned{Batches: 2, Orders: 2}, p)
			p, err = st.Prune(ctx, store.PruneQuery{Limit: 1})
			require.NoError(t, err)
			assert.Zero(t, p)
			require.NoError(t, st.addTx(ctx, tx, newBatch("lane", "a"), newBatch("lane", "b")))
			require.NoError(t, tx.commit())
			p, err = st.Prune(ctx, store.PruneQuery{})
			require.NoError(t, err)
			assert.Equal(t, store.Pruned{Batches: 1, Orders: 1}, p, "a is open")
		})
	}
}

// A snapshot from before Prune does not show the tombstone that Prune left. The batch must still
// not be queued again, because it would be executed twice.
func TestSnapshotTxOfWhatIsPrunedMeanwhile(t *testing.T) {
	t.Parallel()
	buried := store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }}
	for _, d := range []driver{nativePool, libpq} {
		for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
			t.Run(d.name+"/"+level, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				s := newSpace(t, d)
				st := s.app()
				allowed := st.openAnother(t, &postgres.Options{Schema: s.schema, AllowSnapshotTx: true})
				begin := func() *appTx {
					tx := st.mustBegin(t)
					require.NoError(t, tx.exec(ctx, "SET TRANSACTION ISOLATION LEVEL "+level))
					var n int
					require.NoError(t, tx.read(ctx, &n, "SELECT 1")) // takes the snapshot
					return tx
				}
				addFinished(t, st, "a")
				tx := begin()
				p, err := st.Prune(ctx, buried)
				require.NoError(t, err)
				require.Equal(t, 1, p.Batches)
				var state interface{ SQLState() string }
				require.ErrorAs(t, allowed.addTx(ctx, tx, newBatch("lane", "new"), newBatch("lane", "a")), &state)
				assert.Equal(t, "40001", state.SQLState())
				require.NoError(t, tx.rollback())

				tx = begin()
				require.NoError(t, allowed.addTx(ctx, tx, newBatch("lane", "new"), newBatch("lane", "a")), "the next snapshot shows it")
				require.NoError(t, tx.commit())
				checkRemoved(t, st, newBatch("lane", "a"))
				_, err = st.Get(ctx, newBatch("lane", "new").Key())
				require.NoError(t, err)
				_, err = deliverAll(ctx, st.Store, time.Minute, "lane")
				require.NoError(t, err)
				p, err = st.Prune(ctx, store.PruneQuery{})
				require.NoError(t, err)
				require.Equal(t, 1, p.Batches)
				require.NoError(t, st.Add(ctx, newBatch("lane", "new"), newBatch("lane", "a")))
				_, err = st.Get(ctx, newBatch("lane", "new").Key())
				require.NoError(t, err, "no tombstone of a batch that was added stays")
				checkRemoved(t, st, newBatch("lane", "a"))
			})
		}
	}
}

// checkRemoved checks that only the tombstone of a batch is left.
func checkRemoved(t *testing.T, st *testApp, b batch.Batch) {
	t.Helper()
	r, err := st.Get(t.Context(), b.Key())
	require.NoError(t, err)
	assert.False(t, r.PrunedAt.IsZero(), "a tombstone from before stays")
	assert.Equal(t, batch.Committed, r.State)
}

// A batch or an order that is removed while a transaction adds it again is added.
func TestAddTxOfWhatIsPrunedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := newSpace(t, d)
			st := s.app()
			held, heldOrder := newBatch("lane", "z"), anOrder("party", "z")
			held.DataChangeID, heldOrder.Key = "z", "z" // sorts after a
			for what, add := range map[string]func(tx *appTx, all bool) error{
				"batches": func(tx *appTx, all bool) error {
					if !all {
						return st.addTx(ctx, tx, held)
					}
					return st.addTx(ctx, tx, newBatch("lane", "a"), held)
				},
				"orders": func(tx *appTx, all bool) error {
					if !all {
						return st.addOrdersTx(ctx, tx, heldOrder)
					}
					return st.addOrdersTx(ctx, tx, anOrder("party", "a"), heldOrder)
				},
			} {
				addFinished(t, st, "a")
				other, tx := st.mustBegin(t), st.mustBegin(t)
				require.NoError(t, add(other, false))
				done := make(chan error, 1)
				go func() { done <- add(tx, true) }()
				waitFor(t, func() bool { return s.countSessions("wait_event_type = 'Lock'") == 1 })
				p, err := st.Prune(ctx, store.PruneQuery{})
				require.NoError(t, err)
				require.Equal(t, store.Pruned{Batches: 1, Orders: 1}, p)
				require.NoError(t, other.rollback())
				require.NoError(t, <-done, what)
				require.NoError(t, tx.commit())
				if what == "batches" {
					assert.ElementsMatch(t, []batch.ID{"a", "z"}, waitingIDs(t, st.Store, "lane"))
					continue
				}
				final, missing, err := st.FinalOrders(ctx, []order.ID{"a", "z"})
				require.NoError(t, err)
				assert.Empty(t, final)
				assert.Empty(t, missing)
			}
		})
	}
}

// If a lane was released between a read of its control and a new halt, the halt has the new
// reason.
func TestHaltAfterAReleaseHasItsOwnReason(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newSpace(t, nativePool)
	st := s.app()
	require.NoError(t, st.Add(ctx, newBatch("lane", "b")))
	got, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"lane"}, Limit: 1, Window: 1, TTL: time.Minute}, pickFrontIfIdle)
	require.NoError(t, err)
	c := got.Runs[0].Batches[0]
	s.exec(`INSERT INTO ` + s.schema + `.controls (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
		halt_reason, version) VALUES (false, 'lane', 0, '', '', 0, 5, 'a', 'an earlier reason', 5)`)
	tx, err := s.admin.BeginTx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `UPDATE `+s.schema+`.controls SET halted_at = 0, halted_by = '', halt_reason = '', version = 6`)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := st.Record(ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Refused, Policy: batch.PolicyHalt}})
		done <- err
	}()
	waitFor(t, func() bool { return s.countSessions("wait_event_type = 'Lock'") == 1 })
	require.NoError(t, tx.Commit())
	require.NoError(t, <-done)
	control, err := st.Control(ctx, batch.Only("lane"))
	require.NoError(t, err)
	assert.Equal(t, batch.ID("b"), control.HaltedBy)
	assert.Empty(t, control.HaltReason)
}
