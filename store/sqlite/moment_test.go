package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

type pausingTx struct {
	sqlstore.Tx
	queryCount  *int
	pauseBefore int
	pause       func()
}

func (p pausingTx) Query(ctx context.Context, st string, args ...any) (sqlstore.Rows, error) {
	if *p.queryCount++; *p.queryCount == p.pauseBefore {
		p.pause()
	}
	return p.Tx.Query(ctx, st, args...)
}

// storeWithPause returns a store on the same file that runs do before query number at of its first
// read.
func storeWithPause(t *testing.T, s *Store, at int, do func()) sqlstore.Store {
	t.Helper()
	d, n := s.driver(), 0
	paused := func(read func(context.Context, string, func(context.Context, sqlstore.Tx) error) error) func(context.Context, string, func(context.Context, sqlstore.Tx) error) error {
		return func(ctx context.Context, op string, f func(context.Context, sqlstore.Tx) error) error {
			return read(ctx, op, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, pausingTx{tx, &n, at, do}) })
		}
	}
	d.Read, d.Snapshot = paused(d.Read), paused(d.Snapshot)
	return sqlstore.New(d)
}

// NextOrders reads all orders of a batch at one moment. A batch with orders of two groups would be
// refused, and divided into parts with orders of both.
func TestNextOrdersAreOfOneMoment(t *testing.T) {
	s, clk, path := newTestStore(t)
	ctx := t.Context()
	o := func(id order.ID) order.Order { return order.Order{ID: id, Party: "p", Payload: []byte("x")} }
	require.NoError(t, s.AddOrders(ctx, o("1"), o("2"), o("3"), o("4")))
	torn := storeWithPause(t, openStoreAgain(t, path, clk), 3, func() {
		var vs []order.Verdict
		for i, id := range []order.ID{"1", "2", "3", "4"} {
			vs = append(vs, order.Verdict{Ref: order.Ref{ID: id, Version: 1}, State: order.Queued, Group: []string{"g0", "g1"}[i/2]})
		}
		ok, err := s.SplitOrders(ctx, vs)
		require.NoError(t, err)
		require.True(t, ok)
	})
	found, err := torn.NextOrders(ctx, "p", order.NextQuery{Max: 3})
	require.NoError(t, err)
	groups := map[string]int{}
	for _, f := range found {
		groups[f.Group]++
	}
	assert.Equal(t, map[string]int{"": 3}, groups)
}

// A record has the receipts of its own state, and not those of a later verdict.
func TestReceiptsAreOfTheirRecord(t *testing.T) {
	s, clk, path := newTestStore(t)
	ctx := t.Context()
	b := newBatch("a", 1)
	require.NoError(t, s.Add(ctx, b))
	claims, _ := claimAll(t, s, "a")
	c := claims[0]
	rec := func(o store.Outcome) {
		got, err := s.Record(ctx, []store.Outcome{o})
		require.NoError(t, err)
		require.Equal(t, store.Written, got[0].Result)
	}
	rec(store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter, Attempt: 1})
	rec(store.Outcome{Ref: c.Ref, Version: c.Version + 1, Finding: store.IsInvalid, By: batch.ByMonitor,
		Error:    &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad"},
		Receipts: []batch.Receipt{{TransactionID: "t", Message: "why it is invalid"}}})
	torn := storeWithPause(t, openStoreAgain(t, path, clk), 2, func() {
		rec(store.Outcome{Ref: c.Ref, Finding: store.IsCommitted, By: batch.ByMonitor, Receipts: []batch.Receipt{{TransactionID: "t", Valid: true, Message: "of the commit"}}})
	})
	final, _, err := torn.Finals(ctx, []batch.Key{b.Key()})
	require.NoError(t, err)
	require.Len(t, final, 1)
	assert.Equal(t, batch.Invalid, final[0].State)
	assert.Equal(t, []batch.Receipt{{TransactionID: "t", Message: "why it is invalid"}}, final[0].Receipts)
}

// On a full disk SQLite ends the application's transaction. AddTx returns that as an error, and
// adds nothing outside of a transaction.
func TestAddTxOnAFullDisk(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	s.db.SetMaxOpenConns(1)
	_, err := s.db.Exec("CREATE TABLE app (n INTEGER)")
	require.NoError(t, err)
	var pages int
	require.NoError(t, s.db.QueryRow("PRAGMA page_count").Scan(&pages))
	_, err = s.db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20))
	require.NoError(t, err)

	tx, err := s.db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO app VALUES (1)")
	require.NoError(t, err)
	big := newBatch("a", 1)
	big.Payload = make([]byte, 1<<20)
	require.ErrorIs(t, s.Tx(tx).Add(ctx, big), ErrTxEnded)
	require.ErrorIs(t, s.Tx(tx).Add(ctx, newBatch("a", 2)), ErrTxEnded)
	require.ErrorIs(t, s.AddOrdersTx(ctx, tx, order.Order{ID: "o", Party: "p", Payload: []byte("x")}), ErrTxEnded)
	_ = tx.Rollback() // there is no transaction any more
	var n int
	require.NoError(t, s.db.QueryRow("SELECT count(*) FROM app").Scan(&n))
	assert.Zero(t, n)
	_, err = s.Get(ctx, newBatch("a", 2).Key())
	require.ErrorIs(t, err, batch.ErrNotFound)
}

// A service name that is not valid UTF-8 does not claim from another lane.
func TestClaimOfANameThatIsNotUTF8(t *testing.T) {
	s, _, _ := newTestStore(t)
	require.NoError(t, s.Add(t.Context(), newBatch("\uFFFD", 1)))
	got, err := s.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"\xff"}, Limit: 9, Window: 9, TTL: time.Minute},
		func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
	require.NoError(t, err)
	assert.Empty(t, got.Runs)
}
