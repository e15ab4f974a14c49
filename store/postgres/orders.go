package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// AddOrders is [store.OrderStore].AddOrders.
func (s *Store) AddOrders(ctx context.Context, orders ...batch.Order) error {
	const op = "add orders"
	in, err := prepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.tx(ctx, op, func(ctx context.Context, t *session) error { return t.addOrders(ctx, in) })
}

// AddOrdersTx is AddOrders in the application's own transaction. [Store.AddTx]'s rules for
// batches and lanes hold for orders and parties; a transaction above READ COMMITTED gets an
// [*IsolationError].
func (s *Store) AddOrdersTx(ctx context.Context, tx *sql.Tx, orders ...batch.Order) error {
	return s.addOrdersTx(ctx, sqlTx{tx}, orders...)
}

func (s *Store) addOrdersTx(ctx context.Context, tx conns.Tx, orders ...batch.Order) error {
	const op = "add orders in a transaction"
	in, err := prepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.inTx(ctx, op, tx, false, func(t *session) error { return t.addOrders(ctx, in) })
}

// newOrder is an order that passed the checks before the first statement.
type newOrder struct {
	*batch.Order
	hash [sha256.Size]byte
	at   int64 // the order key
	seq  int64
	twin bool // of an earlier order of the call; not stored
}

func prepareOrders(orders []batch.Order) ([]newOrder, error) {
	twins, err := store.CheckOrders(orders)
	if err != nil {
		return nil, err
	}
	in := make([]newOrder, len(orders))
	for i := range orders {
		in[i] = newOrder{Order: &orders[i], hash: orders[i].Hash(), twin: twins[i]}
	}
	return in, nil
}

func (t *session) addOrders(ctx context.Context, in []newOrder) error {
	if !t.s.texts.TracedOrders() {
		if err := t.watchMigration(ctx); err != nil {
			return err
		}
	}
	seqs, err := t.orderKeys(ctx, sqlBeforeOrders, len(in), func(i int) (batch.ServiceID, *int64) { return in[i].Party, &in[i].at })
	if err != nil {
		return err
	}
	// In the order of keys and then of ids, as batches are.
	sorted := make([]*newOrder, 0, len(in))
	var ask []*newOrder
	for i := range in {
		if in[i].seq = seqs[i]; in[i].twin {
			ask = append(ask, &in[i])
		} else {
			sorted = append(sorted, &in[i])
		}
	}
	slices.SortStableFunc(sorted, func(a, b *newOrder) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) })
	added := make(map[int64]bool, len(in))
	for rest := sorted; len(rest) > 0; {
		n := chunk(rest, func(o *newOrder) int { return len(o.hash) + len(o.Payload) })
		if err := t.insertOrders(ctx, rest[:n], added); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for _, o := range sorted {
		if !added[o.seq] {
			ask = append(ask, o)
		}
	}
	return t.compareOrders(ctx, ask)
}

// insertOrders puts into added the numbers of the orders that were not known.
func (t *session) insertOrders(ctx context.Context, in []*newOrder, added map[int64]bool) error {
	var bytes []byte
	at := make([]int64, len(in))
	for i, o := range in {
		at[i] = int64(len(bytes) + 1)
		bytes = append(append(bytes, o.hash[:]...), o.Payload...)
	}
	n, statement := len(in), sqlInsertOrders
	args := []any{
		intArray(n, func(i int) int64 { return in[i].seq }),
		textArray(n, func(i int) string { return string(in[i].ID) }),
		textArray(n, func(i int) string { return string(in[i].Party) }),
		intArray(n, func(i int) int64 { return in[i].at }),
		textArray(n, func(i int) string { return in[i].Key }),
		intArray(n, func(i int) int64 { return int64(in[i].Priority) }),
		boolArray(n, func(i int) bool { return in[i].Urgent }),
		intArray(n, func(i int) int64 { return sqlstore.ToMicro(in[i].Deadline) }),
		ints(at),
		intArray(n, func(i int) int64 { return int64(len(in[i].Payload)) }),
		bytes, store.NewOrderRow().Version,
	}
	traced := func(o *newOrder) bool { return o.TraceParent != "" }
	if t.s.texts.TracedOrders() && slices.ContainsFunc(in, traced) {
		statement, args = sqlInsertOrdersTraced, append(args, textArray(n, func(i int) string { return in[i].TraceParent }))
	}
	seqs, err := sqlstore.Query(ctx, t, sqlstore.Value[int64], statement, args...)
	for _, seq := range seqs {
		added[seq] = true
	}
	return err
}

// compareOrders compares the orders that were not added with the stored orders.
func (t *session) compareOrders(ctx context.Context, ask []*newOrder) error {
	if len(ask) == 0 {
		return nil
	}
	type known struct {
		party, name string
		hash        []byte
	}
	read := func(k *known) []any { return []any{&k.name, &k.party, &k.hash} }
	rows, err := sqlstore.Query(ctx, t, read, sqlKnownOrders, textArray(len(ask), func(i int) string { return string(ask[i].ID) }))
	if err != nil {
		return err
	}
	byID := make(map[string]known, len(rows))
	for _, r := range rows {
		byID[r.name] = r
	}
	rows, err = sqlstore.Query(ctx, t, func(k *known) []any { return []any{&k.party, &k.name, &k.hash} }, sqlKnownOrderKeys,
		textArray(len(ask), func(i int) string { return string(ask[i].Party) }),
		textArray(len(ask), func(i int) string { return ask[i].Key }))
	if err != nil {
		return err
	}
	type key struct{ party, name string }
	byKey := make(map[key]known, len(rows))
	for _, r := range rows {
		byKey[key{r.party, r.name}] = r
	}
	for _, o := range ask {
		if k, ok := byID[string(o.ID)]; ok {
			if k.party != string(o.Party) || string(k.hash) != string(o.hash[:]) {
				return store.OrderConflict(o.ID)
			}
			continue
		}
		k, ok := byKey[key{string(o.Party), o.Key}]
		switch {
		case ok && string(k.hash) != string(o.hash[:]):
			return store.OrderKeyConflict(*o.Order)
		case !ok && !o.twin:
			return sqlstore.ErrMoved // pruned since
		}
	}
	return nil
}
