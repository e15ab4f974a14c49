package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/batch/autobatch/ordertest"
)

// The conformance suite of orders passes with pgx's pool and lib/pq, and with either of them
// through PgBouncer.
func TestOrders(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq, pooledBouncer, pqBouncer} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ordertest.Run(t, func(t *testing.T) ordertest.Harness { return orderHarness(t, d) })
		})
	}
}

func orderHarness(t *testing.T, d driver) ordertest.Harness {
	s := usedSpace(t, d)
	a := s.app()
	return ordertest.Harness{
		Store: a.driverStore(),
		Reopen: func(t *testing.T) ordertest.Store {
			a.close()
			a = s.open(nil)
			return a.driverStore()
		},
		StepClock: s.stepClock,
		AddOrdersTx: func(ctx context.Context, orders ...order.Order) (commit, rollback func() error, err error) {
			tx, err := a.begin(ctx)
			if err != nil {
				return nil, nil, err
			}
			if err := a.addOrdersTx(ctx, tx, orders...); err != nil {
				return nil, nil, errors.Join(err, tx.rollback())
			}
			return tx.commit, tx.rollback, nil
		},
	}
}

func anOrder(party batch.ServiceID, id order.ID) order.Order {
	return order.Order{ID: id, Party: party, Payload: []byte("x")}
}

func refsOf(orders []order.Waiting) (refs []order.Ref) {
	for _, o := range orders {
		refs = append(refs, order.Ref{ID: o.ID, Version: o.Version})
	}
	return refs
}

// Orders with equal order keys, which overlapping AddOrders may give, are sorted by id, also if a
// batch ends between them.
func TestOrderTiesBreakByID(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	for _, id := range []order.ID{"d", "b", "c", "a"} {
		require.NoError(t, st.AddOrders(t.Context(), anOrder("p", id)))
	}
	for _, table := range []string{"orders", "open_orders"} {
		s.exec(`UPDATE ` + s.schema + `.` + table + ` SET created_at = 1`)
	}
	next, err := st.NextOrders(t.Context(), "p", order.NextQuery{Max: 2})
	require.NoError(t, err)
	require.Len(t, next, 2)
	assert.Equal(t, order.ID("a"), next[0].ID)
	assert.Equal(t, order.ID("b"), next[1].ID)
	var got []order.ID
	for q := (order.ListQuery{Limit: 3}); ; {
		found, cursor, err := st.ListOrders(t.Context(), q)
		require.NoError(t, err)
		for _, r := range found {
			got = append(got, r.ID)
		}
		if q.After = cursor; cursor == "" {
			break
		}
	}
	assert.Equal(t, []order.ID{"a", "b", "c", "d"}, got)
}

// The preparation of a second batch of a party waits for the transaction that settles the first
// one. Rows of the first batch that are about to be removed do not make it fail.
func TestPrepareWaitsForSettling(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	require.NoError(t, st.AddOrders(t.Context(), anOrder("p", "a"), anOrder("p", "b")))
	next, err := st.NextOrders(t.Context(), "p", order.NextQuery{Max: 2})
	require.NoError(t, err)
	refs := refsOf(next)
	done, err := st.PrepareBatch(t.Context(), newBatch("p", "first"), refs[:1])
	require.NoError(t, err)
	require.True(t, done)
	_, err = st.Cancel(t.Context(), batch.Record{Key: newBatch("p", "first").Key(), Version: 1}, batch.By{Actor: "test"})
	require.NoError(t, err)
	s.exec(`CREATE FUNCTION ` + s.schema + `.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END'`)
	s.exec(`CREATE TRIGGER slow AFTER DELETE ON ` + s.schema + `.unsettled_batches EXECUTE FUNCTION ` + s.schema + `.slow()`)
	found, err := st.SettleableBatches(t.Context(), 9)
	require.NoError(t, err)
	require.Len(t, found, 1)
	settled := make(chan error, 1)
	go func() {
		did, err := st.SettleOrders(t.Context(), []order.Settlement{{Batch: found[0].Record.Key, Version: found[0].Record.Version,
			Orders: []order.Verdict{{Ref: found[0].Orders[0], State: order.Failed}}}})
		if err == nil && !did[0] {
			err = errors.New("not settled")
		}
		settled <- err
	}()
	require.Eventually(t, func() bool { return s.countSessions("wait_event = 'PgSleep'") == 1 }, 10*time.Second, 5*time.Millisecond)
	done, err = st.PrepareBatch(t.Context(), newBatch("p", "second"), refs[1:])
	require.NoError(t, err)
	assert.True(t, done)
	require.NoError(t, <-settled)
}

// A write of an order names the version that it was decided on, and changes nothing if the order
// has another version.
func TestOrderWritesNameTheVersion(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := newSpace(t, pgx)
	st, _ := s.store()
	require.NoError(t, st.AddOrders(ctx, anOrder("p", "a")))
	next, err := st.NextOrders(ctx, "p", order.NextQuery{Max: 1})
	require.NoError(t, err)
	version := next[0].Version
	var seq int64
	require.NoError(t, s.admin.QueryRow(`SELECT seq FROM `+s.schema+`.orders`).Scan(&seq))
	all := statements(t)
	run := func(name string, args ...any) int64 {
		res, err := s.admin.ExecContext(ctx, tableToken.ReplaceAllString(all[name], s.schema+".$1"), args...)
		require.NoError(t, err)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		return n
	}
	row := func(was int64) []any {
		return []any{fmt.Sprintf("{%d}", seq), fmt.Sprintf("{%d}", was), "{2}", fmt.Sprintf("{%d}", version), "{b}", "{0}", "{1}", `{""}`}
	}
	for _, was := range []int64{version - 1, version + 1} {
		assert.Zero(t, run("sqlUpdateOrders", row(was)...), "from version %d of %d", was, version)
		assert.Zero(t, run("sqlDeleteOpenOrders", row(was)[:2]...), "from version %d of %d", was, version)
	}
	assert.EqualValues(t, 1, run("sqlUpdateOrders", row(version)...))
	assert.EqualValues(t, 1, run("sqlDeleteOpenOrders", row(version)[:2]...))
}
