package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// AddOrders is [order.Store].AddOrders.
func (s *Store) AddOrders(ctx context.Context, orders ...order.Order) error {
	const op = "add orders"
	in, err := sqlstore.PrepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.tx(ctx, op, func(ctx context.Context, t *session) error { return t.addOrders(ctx, in) })
}

// AddOrdersTx is AddOrders in the application's own transaction. The rules of [Store.Tx] for
// batches and lanes hold for orders and parties; a transaction above READ COMMITTED gets an
// [*IsolationError].
func (s *Store) AddOrdersTx(ctx context.Context, tx *sql.Tx, orders ...order.Order) error {
	return s.addOrdersTx(ctx, sqlTxOf(tx), orders...)
}

func (s *Store) addOrdersTx(ctx context.Context, tx conns.Tx, orders ...order.Order) error {
	const op = "add orders in a transaction"
	in, err := sqlstore.PrepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.inTx(ctx, op, tx, false, func(t *session) error {
		if err := t.addOrders(ctx, in); err != nil || !s.opts.NotifyInTx {
			return err
		}
		return sendHint(ctx, tx, notifyAtCommitStatement, s.names.channel(), store.Hint{WholeTopics: store.TopicOrders})
	})
}

func (t *session) addOrders(ctx context.Context, in []sqlstore.NewOrder) error {
	if err := t.recheckShard(ctx); err != nil {
		return err
	}
	if err := t.store.checkOwns(len(in), func(i int) batch.ServiceID { return in[i].Party }); err != nil {
		return err
	}
	seqs, err := t.orderKeys(ctx, orderNumbering, len(in), func(i int) (batch.ServiceID, *int64) { return in[i].Party, &in[i].At })
	if err != nil {
		return err
	}
	first := make([]*sqlstore.NewOrder, 0, len(in))
	var twins []*sqlstore.NewOrder
	for i := range in {
		if in[i].Seq = seqs[i]; in[i].Twin {
			twins = append(twins, &in[i])
		} else {
			first = append(first, &in[i])
		}
	}
	for {
		left, err := t.addFirstOrders(ctx, first, twins)
		if err != nil || len(left) == 0 {
			return err
		}
		ids, keys := map[order.ID]bool{}, map[changeKey]bool{}
		first, twins = splitTwins(left, func(o *sqlstore.NewOrder) bool {
			key := changeKey{o.Party, o.Key}
			twin := ids[o.ID] || o.Key != "" && keys[key]
			ids[o.ID], keys[key] = true, true
			return twin
		})
	}
}

// addFirstOrders adds orders that may be new. It returns the twins of which, after that, neither
// the id nor the Key is stored.
func (t *session) addFirstOrders(ctx context.Context, sorted, twins []*sqlstore.NewOrder) (left []*sqlstore.NewOrder, err error) {
	// Orders are in the order of keys and then of ids, as batches are.
	slices.SortStableFunc(sorted, func(a, b *sqlstore.NewOrder) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) })
	added := make(map[int64]bool, len(sorted))
	for rest := sorted; len(rest) > 0; {
		n := rowsOfChunk(rest, func(o *sqlstore.NewOrder) int { return len(o.Hash) + len(o.Payload) })
		if err := t.insertOrders(ctx, rest[:n], added); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	var known []*sqlstore.NewOrder
	for _, o := range sorted {
		if !added[o.Seq] {
			known = append(known, o)
		}
	}
	left, err = sqlstore.CompareOrders(ctx, t, known, twins)
	if errors.Is(err, sqlstore.ErrMoved) {
		seqs := make([]int64, len(known))
		for i, o := range known {
			seqs[i] = o.Seq
		}
		err = t.notStored(ctx, orderNumbering, seqs...)
	}
	return left, err
}

// insertOrders adds to added the numbers of the orders that were not known.
func (t *session) insertOrders(ctx context.Context, in []*sqlstore.NewOrder, added map[int64]bool) error {
	var bytes []byte
	at := make([]int64, len(in))
	for i, o := range in {
		at[i] = int64(len(bytes) + 1)
		bytes = append(append(bytes, o.Hash[:]...), o.Payload...)
	}
	n, statement := len(in), sqlInsertOrders
	args := []any{
		intArray(n, func(i int) int64 { return in[i].Seq }),
		textArray(n, func(i int) string { return string(in[i].ID) }),
		textArray(n, func(i int) string { return string(in[i].Party) }),
		intArray(n, func(i int) int64 { return in[i].At }),
		textArray(n, func(i int) string { return in[i].Key }),
		intArray(n, func(i int) int64 { return int64(in[i].Priority) }),
		boolArray(n, func(i int) bool { return in[i].Urgent }),
		intArray(n, func(i int) int64 { return sqlstore.ToMicro(in[i].Deadline) }),
		ints(at),
		intArray(n, func(i int) int64 { return int64(len(in[i].Payload)) }),
		bytes, order.NewRow().Version,
	}
	traced := func(o *sqlstore.NewOrder) bool { return o.TraceParent != "" }
	if slices.ContainsFunc(in, traced) {
		statement, args = sqlInsertOrdersTraced, append(args, textArray(n, func(i int) string { return in[i].TraceParent }))
	}
	seqs, err := sqlstore.Query[int64](ctx, t, statement, args...)
	for _, seq := range seqs {
		added[seq] = true
	}
	return err
}
