package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A call that fails ends its transaction and returns its connection; a connection that may be in a
// transaction is not reused. The pool has one connection, so the next call gets it.
func TestAFailedCallLeavesNoTransaction(t *testing.T) {
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			other := s.app()
			if d.isPool {
				s.dsn = withParams(s.dsn, "pool_max_conns=1")
			}
			st := s.open(nil)
			st.db.SetMaxOpenConns(1)
			require.NoError(t, st.Add(t.Context(), newBatch("s", "known")))
			opened := func() int64 {
				if st.pool == nil {
					return 0
				}
				return st.pool.Stat().NewConnsCount()
			}
			begun := opened()
			goesOn := func(id string) {
				t.Helper()
				var n int
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in%'`, s.schema).Scan(&n))
				assert.Zero(t, n, "transactions that nobody ends")
				require.NoError(t, st.Add(t.Context(), newBatch("s", id)))
				_, err := other.Get(t.Context(), newBatch("s", id).Key())
				require.NoError(t, err, "what was added is committed")
			}
			conflict := newBatch("s", "known")
			conflict.Payload = []byte("other")
			require.ErrorIs(t, st.Add(t.Context(), newBatch("s", "with it"), conflict), batch.ErrConflict)
			goesOn("after a conflict")
			assert.Panics(t, func() {
				_, _ = st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
					func(batch.Lane) []batch.Run { panic("a strategy") })
			})
			goesOn("after a panic")
			assert.Equal(t, begun, opened(), "the connection was kept")

			require.NoError(t, other.addTx(t.Context(), other.mustBegin(t), newBatch("s", "held")))
			soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, st.Add(soon, newBatch("s", "waits"), newBatch("s", "held")), context.DeadlineExceeded)
			require.Eventually(t, func() bool { // the server notices after some time
				var n int
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, s.schema).Scan(&n))
				return n == 0
			}, 10*time.Second, 5*time.Millisecond)
			_, err := st.Get(t.Context(), newBatch("s", "waits").Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
		})
	}
}

// Each call takes this many round trips to the server, once its statements are prepared. With
// pgx's pool BEGIN and its settings share a round trip with the first statement.
func TestTrips(t *testing.T) {
	for _, c := range []struct {
		d    driver
		want map[string]int
	}{
		{nativePool, map[string]int{"add": 3, "claim": 5, "both": 3, "get": 2}},
		{pooledBouncer, map[string]int{"add": 3, "claim": 5, "both": 3, "get": 2}},
		{pgx, map[string]int{"add": 6, "claim": 6, "both": 5, "get": 3}},
	} {
		t.Run(c.d.name, func(t *testing.T) {
			s := newSpace(t, c.d)
			s.store()
			var seen traffic
			st := s.watchedStore(&seen)
			for round := range 3 {
				last := round == 2
				part := func(name string, do func() error) {
					t.Helper()
					before := seen.current().tripCount
					require.NoError(t, do())
					if n := seen.current().tripCount - before; last {
						assert.Equal(t, c.want[name], n, "trips of %s", name)
					}
				}
				bs := []batch.Batch{newBatch("a", fmt.Sprint("a", round)), newBatch("b", fmt.Sprint("b", round))}
				bs[0].Transactions = []batch.Transaction{{ID: "t"}}
				part("add", func() error { return st.Add(t.Context(), bs...) })
				var outcomes []store.Outcome
				part("claim", func() error {
					got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b"}, Limit: 2, Window: 1, TTL: time.Minute}, pickFront)
					for _, r := range got.Runs {
						c := r.Batches[0]
						outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Accepted})
					}
					return err
				})
				require.Len(t, outcomes, 2)
				record := func() error {
					applied, err := st.Record(t.Context(), outcomes)
					for i, a := range applied {
						require.Equal(t, store.Written, a.Result)
						outcomes[i].Version, outcomes[i].Was = a.Row.Version, &a.Row
					}
					return err
				}
				outcomes[1].Finding = store.IsCommitted
				part("both", record) // an acceptance and a commit
				outcomes = outcomes[:1]
				outcomes[0].By, outcomes[0].Finding = batch.ByMonitor, store.IsCommitted
				require.NoError(t, record())
				part("get", func() error { _, err := st.Get(t.Context(), bs[0].Key()); return err })
			}
		})
	}
}

// The settings of a transaction end with it, because the application uses the same connections,
// and behind PgBouncer other applications do.
func TestSettingsEndWithTheTransaction(t *testing.T) {
	for _, d := range []driver{nativePool, libpq, pooledBouncer, pooledSimple} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			if d.isPool {
				s.dsn = withParams(s.dsn, "pool_max_conns=1")
			}
			st := s.app()
			st.db.SetMaxOpenConns(1)
			left := func(after string) {
				t.Helper()
				var names string
				require.NoError(t, st.db.QueryRow(`SELECT coalesce(string_agg(name, ' '), '') FROM pg_settings WHERE source = 'session'`).Scan(&names))
				assert.Empty(t, names, "after %s", after)
			}
			b, conflict := newBatch("s", 1), newBatch("s", 1)
			conflict.Payload = []byte("other")
			require.NoError(t, st.Add(t.Context(), b))
			left("Add")
			require.ErrorIs(t, st.Add(t.Context(), conflict), batch.ErrConflict)
			left("a conflict")
			require.NoError(t, st.AddOrders(t.Context(), anOrder("p", "1")))
			left("AddOrders")
			c := claimFront(t, st.Store, "s", time.Minute)
			left("Claim")
			recordFinding(t, st.Store, c, store.Accepted, 0)
			left("Record")
			_, err := st.Look(t.Context(), b.Key(), 1)
			require.NoError(t, err)
			left("Look")
			tx := st.mustBegin(t)
			require.NoError(t, st.addTx(t.Context(), tx, newBatch("s", 2)))
			require.NoError(t, tx.commit())
			left("AddTx")
		})
	}
}
