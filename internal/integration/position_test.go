package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// newOrderKeyGate makes a gate at which sessions of one name wait after they have read the clock
// for an order key: batches that others add meanwhile have later keys, and are visible sooner.
func newOrderKeyGate(s *testSpace) *clockGate {
	g := &clockGate{space: s, name: "slow_" + s.schema, key: schemas.Add(1)}
	s.exec(fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE plpgsql AS '
		DECLARE
			now timestamptz := pg_catalog.clock_timestamp();
		BEGIN
			IF current_setting(''application_name'') = ''%s'' AND current_query() LIKE ''%%nextval%%'' THEN
				PERFORM pg_advisory_xact_lock_shared(%d);
			END IF;
			RETURN now;
		END'`, s.schema, g.name, g.key))
	return g
}

// learnPosition lets a store learn as much as possible about the start of a lane's open work:
// batches are added, claimed and finished for long enough.
func learnPosition(t testing.TB, st *postgres.Store, lane string, name string) {
	t.Helper()
	for n, end := 0, time.Now().Add(600*time.Millisecond); time.Now().Before(end); n++ {
		require.NoError(t, st.Add(t.Context(), newBatch(lane, fmt.Sprint(name, n, " of ", lane))))
		for more := 1; more > 0; {
			var err error
			more, err = deliverAll(t.Context(), st, time.Minute, batch.ServiceID(lane))
			require.NoError(t, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// claimFirst claims the first batch of a lane.
func claimFirst(t testing.TB, st *postgres.Store, lane batch.ServiceID) batch.ID {
	t.Helper()
	got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{lane}, Limit: 1, Window: 9, TTL: time.Minute}, pickFront)
	require.NoError(t, err)
	if len(got.Runs) == 0 {
		return ""
	}
	return got.Runs[0].Batches[0].Key.ID
}

// The store's remembered start of a lane does not pass an order key that a slow call has got and
// not yet stored: a batch that becomes visible long after later batches is claimed in its place.
func TestSlowAddersAreSeen(t *testing.T) {
	late := newBatch("s", "late")
	for name, prepare := range map[string]func(t *testing.T, st, slow *testApp) func() error{
		"Add": func(t *testing.T, _, slow *testApp) func() error {
			return func() error { return slow.Add(t.Context(), late) }
		},
		"AddTx": func(t *testing.T, _, slow *testApp) func() error {
			return func() error {
				tx, err := slow.begin(t.Context())
				if err != nil {
					return err
				}
				if err := slow.addTx(t.Context(), tx, late); err != nil {
					return err
				}
				return tx.commit()
			}
		},
		"PrepareBatch": func(t *testing.T, st, slow *testApp) func() error {
			require.NoError(t, st.AddOrders(t.Context(), anOrder("s", "o")))
			orders, err := st.NextOrders(t.Context(), "s", order.NextQuery{Max: 9})
			require.NoError(t, err)
			return func() error {
				_, err := slow.PrepareBatch(t.Context(), late, refsOf(orders))
				return err
			}
		},
	} {
		for _, d := range []driver{nativePool, libpq} {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				s := newSpace(t, d)
				st := s.app()
				g := newOrderKeyGate(s)
				slow := openApp(t, d, strings.Replace(s.dsn, "application_name="+s.schema, "application_name="+g.name, 1), &postgres.Options{Schema: s.schema})
				add := prepare(t, st, slow)
				_, err := slow.Get(t.Context(), batch.Key{Service: "s", ID: "none"})
				require.ErrorIs(t, err, batch.ErrNotFound)
				learnPosition(t, st.Store, "s", "before")
				open := g.close()
				done := make(chan error, 1)
				go func() { done <- add() }()
				require.Eventually(t, g.hasWaiting, 10*time.Second, 5*time.Millisecond)
				learnPosition(t, st.Store, "s", "later")
				open()
				require.NoError(t, <-done)
				require.NoError(t, st.Add(t.Context(), newBatch("s", "last")))
				rec, err := st.Get(t.Context(), late.Key())
				require.NoError(t, err)
				other, err := st.Get(t.Context(), batch.Key{Service: "s", ID: "later0 of s"})
				require.NoError(t, err)
				require.True(t, rec.CreatedAt.Before(other.CreatedAt), "else this shows nothing")
				assert.Equal(t, late.ID, claimFirst(t, st.Store, "s"))
			})
		}
	}
}

// A batch that another process puts back into its place is claimed before all later batches,
// whether or not it was ever attempted.
func TestRequeueByAnotherProcess(t *testing.T) {
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			st, _ := s.store()
			other := s.open(nil)
			back := func(lane string, rec batch.Record) {
				learnPosition(t, st, lane, "later")
				_, err := other.Requeue(t.Context(), rec, store.Requeue{}, batch.By{Actor: "test"})
				require.NoError(t, err)
				require.NoError(t, st.Add(t.Context(), newBatch(lane, "last of "+lane)))
				assert.Equal(t, rec.ID, claimFirst(t, st, batch.ServiceID(lane)), lane)
			}
			require.NoError(t, st.Add(t.Context(), newBatch("waited", "canceled")))
			rec, err := st.Cancel(t.Context(), batch.Record{Key: newBatch("waited", "canceled").Key(), Version: 1}, batch.By{Actor: "test"})
			require.NoError(t, err)
			back("waited", rec)
			require.NoError(t, st.Add(t.Context(), newBatch("attempted", "refused")))
			c := claimFront(t, st, "attempted", time.Minute)
			recordFinding(t, st, c, store.Refused, 0)
			rec, err = st.Get(t.Context(), c.Key)
			require.NoError(t, err)
			back("attempted", rec)
		})
	}
}

// A batch returns to its place in a lane from which nothing was claimed so far, while a first
// claim begins.
func TestRequeueIntoALaneThatIsNew(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	other := s.open(nil)
	old := newBatch("s", "old")
	require.NoError(t, st.Add(t.Context(), old))
	rec, err := st.Cancel(t.Context(), batch.Record{Key: old.Key(), Version: 1}, batch.By{Actor: "test"})
	require.NoError(t, err)
	tx, err := s.admin.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT 1 FROM ` + s.schema + `.outcomes FOR UPDATE`)
	require.NoError(t, err)
	requeued := make(chan error, 1)
	go func() {
		_, err := other.Requeue(t.Context(), rec, store.Requeue{}, batch.By{Actor: "test"})
		requeued <- err
	}()
	require.Eventually(t, func() bool { return s.countSessions("wait_event_type = 'Lock'") == 1 }, 10*time.Second, 5*time.Millisecond)
	learned := make(chan struct{})
	go func() { // a claim may wait for the requeue
		defer close(learned)
		learnPosition(t, st, "s", "meanwhile")
	}()
	select {
	case <-learned:
	case <-time.After(time.Second):
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, <-requeued)
	<-learned
	got, err := st.Get(t.Context(), old.Key())
	require.NoError(t, err)
	if got.State == batch.Queued { // otherwise another claim has taken the batch
		assert.Equal(t, old.ID, claimFirst(t, st, "s"))
	}
}

// While a lane is paused a read of it returns nothing, and the store does not treat the lane as
// empty.
func TestAPausedLaneKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	learnPosition(t, st, "s", "before")
	require.NoError(t, st.Add(t.Context(), newBatch("s", "first"), newBatch("s", "second")))
	look := func() {
		for range 30 {
			_, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: time.Minute},
				func(batch.Lane) []batch.Run { return nil })
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
	}
	look()
	steer := func(action batch.Action, seen int64) batch.Control {
		c, _, err := st.Steer(t.Context(), store.Steering{Scope: batch.Only("s"), Action: action, By: batch.By{Actor: "test"}, Seen: seen})
		require.NoError(t, err)
		return c
	}
	paused := steer(batch.ActionPause, 0)
	look()
	steer(batch.ActionResume, paused.Version)
	assert.Equal(t, batch.ID("first"), claimFirst(t, st, "s"))
}

// The remembered start of a lane does not pass the order key of a transaction that has added and
// stays open. Until it has ended the store reports that claims become slower, and which
// transaction causes this.
func TestALongAddIsReported(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, db := s.store()
	slow := func() error {
		warnings, err := st.Upkeep(t.Context())
		require.NoError(t, err)
		for _, w := range warnings {
			return w.Err
		}
		return nil
	}
	learnPosition(t, st, "s", "before")
	require.NoError(t, slow())
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(t, st.Tx(tx).Add(t.Context(), newBatch("t", "late")))
	var who string
	require.NoError(t, tx.QueryRow(`SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() LIMIT 1`).Scan(&who))
	for end := time.Now().Add(time.Minute); slow() == nil; {
		require.True(t, time.Now().Before(end))
		learnPosition(t, st, "s", "later"+time.Now().String())
	}
	require.ErrorIs(t, slow(), postgres.ErrSlowClaims)
	assert.ErrorContains(t, slow(), who)
	require.NoError(t, tx.Commit())
	for end := time.Now().Add(time.Minute); slow() != nil; {
		require.True(t, time.Now().Before(end))
		learnPosition(t, st, "s", "after"+time.Now().String())
	}
}
