package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// clockGate makes sessions with one name wait when they read the clock. A claim reads the clock in
// the statement that locks its lanes: at that time it has its snapshot, and not yet the locks.
type clockGate struct {
	space *testSpace
	name  string // of the sessions that wait
	key   int64
}

func newGate(s *testSpace) *clockGate {
	g := &clockGate{space: s, name: "slow_" + s.schema, key: schemas.Add(1)}
	s.exec(fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE plpgsql AS '
		BEGIN
			IF current_setting(''application_name'') = ''%s'' THEN
				PERFORM pg_advisory_xact_lock_shared(%d);
			END IF;
			RETURN pg_catalog.clock_timestamp();
		END'`, s.schema, g.name, g.key))
	return g
}

// store opens a store whose sessions wait at the gate.
func (g *clockGate) store() *postgres.Store {
	return openApp(g.space.t, g.space.driver, withParams(g.space.dsn, "application_name="+g.name), &postgres.Options{Schema: g.space.schema}).Store
}

// close makes these sessions wait until open is called.
func (g *clockGate) close() (open func()) {
	g.space.t.Helper()
	c, err := g.space.admin.Conn(context.Background())
	require.NoError(g.space.t, err)
	g.space.t.Cleanup(func() { _ = c.Close() })
	_, err = c.ExecContext(context.Background(), fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, g.key))
	require.NoError(g.space.t, err)
	return func() {
		_, err := c.ExecContext(context.Background(), fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, g.key))
		require.NoError(g.space.t, err)
	}
}

func (g *clockGate) hasWaiting() bool {
	var n int
	require.NoError(g.space.t, g.space.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, g.name).Scan(&n))
	return n == 1
}

// A claim that waits for a lane's lock sees, once it has the lock, the batches that another claim
// took or that were committed meanwhile. Otherwise a batch could overtake one that is being sent.
func TestClaimSeesWhatCameBeforeItsLock(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, db := s.store()
	g := newGate(s)
	slow := g.store()
	require.NoError(t, st.Add(t.Context(), newBatch("s", "known")))
	_, err := st.Cancel(t.Context(), batch.Record{Key: newBatch("s", "known").Key(), Version: 1}, batch.By{Actor: "test"})
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, st.Tx(tx).Add(t.Context(), newBatch("s", "late")))
	require.NoError(t, st.Add(t.Context(), newBatch("s", "early")))
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 1, TTL: time.Minute}
	_, err = st.Claim(t.Context(), q, func(batch.Lane) []batch.Run { return nil }) // the lane has a row from now on
	require.NoError(t, err)

	open := g.close()
	serial := queuer.Serial().Select
	type answer struct {
		claimed store.Claimed
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := slow.Claim(t.Context(), q, serial)
		done <- answer{got, err}
	}()
	require.Eventually(t, g.hasWaiting, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, tx.Commit())
	got, err := st.Claim(t.Context(), q, serial)
	require.NoError(t, err)
	require.Len(t, got.Runs, 1, "the slow claim does not have the lock yet")
	assert.Equal(t, batch.ID("late"), got.Runs[0].Batches[0].Key.ID, "it was added first")
	open()
	a := <-done
	require.NoError(t, a.err)
	assert.Empty(t, a.claimed.Locked)
	assert.Empty(t, a.claimed.Runs, "one of the lane is being sent")
}

// An application's open transaction with the first batch of a lane delays neither other Adds to
// the lane nor their claim.
func TestOpenAddTxHoldsUpNoClaim(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.app()
			require.NoError(t, st.addTx(t.Context(), st.mustBegin(t), newBatch("s", "open")))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.NoError(t, st.Add(ctx, newBatch("s", "done")))
			got, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 1, TTL: time.Minute}, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			assert.Equal(t, batch.ID("done"), got.Runs[0].Batches[0].Key.ID)
		})
	}
}

// A claim expires after its TTL by the database's clock, not by the worker's.
func TestClaimsExpireOnTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			s := newSpace(t, pgx)
			st, _ := s.store()
			s.stepClock(ahead)
			require.NoError(t, st.Add(t.Context(), newBatch("s", "a")))
			got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			for _, want := range []int{0, 1} {
				due, err := st.Pending(t.Context(), store.PendingQuery{Limit: 9, Lease: time.Second})
				require.NoError(t, err)
				require.Len(t, due, want)
				s.stepClock(61 * time.Second)
			}
		})
	}
}
