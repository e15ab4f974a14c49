package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// An idle instance on empty, vacuumed tables must not keep plans for tables without rows: with
// such plans each call of the next burst would read the whole table (524 batches a second instead
// of 27,000).
func TestIdleInstanceIsNotTrapped(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			if d.isPool {
				s.dsn = withParams(s.dsn, "pool_max_conns=1")
			}
			st := s.app()
			st.db.SetMaxOpenConns(1) // so that all plans are on one connection
			s.analyze("VACUUM ANALYZE")
			reads := func() (n int) { // rows read, by connections that have ended
				row := s.admin.QueryRow(`SELECT sum(n) FROM (SELECT seq_tup_read AS n FROM pg_stat_user_tables WHERE schemaname = $1 AND relname <> 'clock'
					UNION ALL SELECT idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = $1) t`, s.schema)
				require.NoError(t, row.Scan(&n))
				return n
			}
			key := batch.Key{Service: "lane0007", ID: "none"}
			round := func() int {
				lanes, err := st.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 20})
				require.NoError(t, err)
				q := store.ClaimQuery{Lanes: append(lanes, "lane0007"), Limit: 20, Window: 1, TTL: time.Minute}
				got, err := st.Claim(t.Context(), q, pickFront)
				require.NoError(t, err)
				var refs []store.Ref
				var known []store.Outcome
				outcomes := []store.Outcome{{Ref: store.Ref{Key: key, Row: 1 << 40}, Finding: store.IsCommitted, By: batch.ByMonitor}}
				for _, r := range got.Runs {
					for _, c := range r.Batches {
						refs = append(refs, c.Ref)
						o := store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.IsCommitted, By: batch.BySubmitter}
						if len(refs)%2 == 0 { // with the known row the store does not read it first
							o.Was, o.Report = c.Was, &batch.Report{Attempt: c.Attempt}
							known = append(known, o)
							continue
						}
						outcomes = append(outcomes, o)
					}
				}
				_, err = st.Payloads(t.Context(), append(refs, store.Ref{Key: key, Row: 1 << 40}))
				require.NoError(t, err)
				for _, some := range [][]store.Outcome{known, outcomes} {
					_, err = st.Record(t.Context(), some)
					require.NoError(t, err)
				}
				_, err = st.Get(t.Context(), key)
				require.ErrorIs(t, err, batch.ErrNotFound)
				tx := st.mustBegin(t)
				require.NoError(t, st.addTx(t.Context(), tx, batch.Batch{Service: "lane0007", ID: "rolled back", Payload: []byte("x")}))
				require.NoError(t, tx.rollback())
				return len(refs)
			}
			for range 12 {
				require.Zero(t, round())
			}
			// A connection that is closed reports its counts at once, and an idle one up to 10 s
			// later: so none of those that fill the tables is kept.
			s.admin.SetMaxIdleConns(-1)
			s.fill(rows, 0, rows)
			before := -1
			require.Eventually(t, func() bool {
				was := before
				before = reads()
				return was == before
			}, 30*time.Second, 1100*time.Millisecond)
			for range 3 {
				require.Equal(t, 20, round())
			}
			st.close() // a closed connection reports its counts
			last := -1
			require.Eventually(t, func() bool {
				was := last
				last = reads()
				return s.countSessions("true") == 0 && was == last
			}, 10*time.Second, 50*time.Millisecond)
			assert.Less(t, last-before, rows, "rows that were read in scans of whole tables, and of indexes")
		})
	}
}

// AddTx and AddOrdersTx leave the settings of the application's transaction as they were, also if
// they refuse.
func TestAddTxLeavesTheTransactionAsItWas(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, pgx, libpq, pooledBouncer, pooledSimple, pgxBouncer, pqBouncer} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.app()
			known, knownOrder := batch.Batch{Service: "s", ID: "known", Payload: []byte("x")}, anOrder("p", "known")
			require.NoError(t, st.Add(t.Context(), known))
			require.NoError(t, st.AddOrders(t.Context(), knownOrder))
			tx := st.mustBegin(t)
			require.NoError(t, tx.exec(t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`))
			require.NoError(t, tx.exec(t.Context(), `CREATE TABLE `+s.schema+`.app (n int)`))
			setting := func() (v string) {
				require.NoError(t, tx.read(t.Context(), &v, `SELECT current_setting('plan_cache_mode')`))
				return v
			}
			require.NoError(t, st.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "a", Payload: []byte("x")}))
			require.NoError(t, st.addOrdersTx(t.Context(), tx, anOrder("p", "a")))
			assert.Equal(t, "force_generic_plan", setting())
			other, otherOrder := known, knownOrder
			other.Payload, otherOrder.Payload = []byte("y"), []byte("y")
			err := st.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "b", Payload: []byte("x")}, other)
			require.ErrorIs(t, err, batch.ErrConflict)
			require.ErrorIs(t, st.addOrdersTx(t.Context(), tx, anOrder("p", "b"), otherOrder), batch.ErrConflict)
			assert.Equal(t, "force_generic_plan", setting())
			require.NoError(t, st.addOrdersTx(t.Context(), tx, anOrder("p", "c")))
			require.NoError(t, tx.exec(t.Context(), `INSERT INTO `+s.schema+`.app VALUES (1)`), "the transaction goes on")
			require.NoError(t, tx.commit())
			found, _, err := st.List(t.Context(), store.ListQuery{})
			require.NoError(t, err)
			var ids []string
			for _, r := range found {
				ids = append(ids, string(r.ID))
			}
			assert.Equal(t, []string{"known", "a"}, ids)
			next, err := st.NextOrders(t.Context(), "p", order.NextQuery{Max: 9})
			require.NoError(t, err)
			var orders []order.ID
			for _, o := range next {
				orders = append(orders, o.ID)
			}
			assert.Equal(t, []order.ID{"known", "a", "c"}, orders)
		})
	}
}

// AddTx and AddOrdersTx refuse a transaction that may not see the end of a lane, or of a party's
// queue, unless the options allow it.
func TestAddTxWantsReadCommitted(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, pgx, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.app()
			allowed := st.openAnother(t, &postgres.Options{Schema: s.schema, AllowSnapshotTx: true})
			begin := func(level string) *appTx {
				tx := st.mustBegin(t)
				require.NoError(t, tx.exec(t.Context(), "SET TRANSACTION ISOLATION LEVEL "+level))
				return tx
			}
			for i, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
				tx := begin(level)
				b := batch.Batch{Service: "s", ID: batch.ID(fmt.Sprint(i)), Payload: []byte("x")}
				var refused *postgres.IsolationError
				require.ErrorAs(t, st.addTx(t.Context(), tx, b), &refused)
				refused = nil
				o := anOrder("p", order.ID(b.ID))
				require.ErrorAs(t, st.addOrdersTx(t.Context(), tx, o), &refused)
				require.NoError(t, allowed.addTx(t.Context(), tx, b))
				require.NoError(t, allowed.addOrdersTx(t.Context(), tx, o))
				require.NoError(t, tx.commit())
				_, err := st.Get(t.Context(), b.Key())
				require.NoError(t, err)
				next, err := st.NextOrders(t.Context(), "p", order.NextQuery{Max: 9})
				require.NoError(t, err)
				require.Len(t, next, i+1)
			}
			tx := begin("READ UNCOMMITTED") // PostgreSQL treats it as READ COMMITTED
			require.NoError(t, st.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "u", Payload: []byte("x")}))
			require.NoError(t, tx.rollback())
		})
	}
}
