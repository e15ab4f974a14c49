package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// FinalOrders is [store.OrderStore].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []batch.OrderID) ([]batch.OrderRecord, []batch.OrderID, error) {
	var final []batch.OrderRecord
	var missing []batch.OrderID
	err := s.tx(ctx, "find final orders", func(ctx context.Context, t *session) error {
		ask, want := sqlstore.WantOrders(ids) // anew each time: a found record is taken out of want
		final = nil
		for some := range slices.Chunk(ask, store.MaxKeys) {
			found, err := query(ctx, t, (*sqlstore.OrderCols).RecordDest, sqlOrderRows, texts(some))
			if err != nil {
				return err
			}
			for i := range found {
				if r := found[i].Record(); want.Take(batch.Key{ID: batch.ID(r.ID)}) && r.State.Final() {
					final = append(final, r)
				}
			}
		}
		missing = sqlstore.MissingOrders(want)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, missing, nil
}

// ListOrders is [store.OrderStore].ListOrders. Without a party or a batch it also reads the
// records that the states exclude: it is for people and tools.
func (s *Store) ListOrders(ctx context.Context, q store.ListOrdersQuery) (found []batch.OrderRecord, next store.Cursor, err error) {
	const op = "list orders"
	q = q.Bounded()
	text, args, err := listOrdersSQL(q)
	if err != nil {
		return nil, "", wrap(op, err)
	}
	if !sqlstore.CanStore("", "x"+string(q.Batch)) || (q.Party != nil && !sqlstore.CanStore(*q.Party)) {
		return nil, "", nil
	}
	var rows []sqlstore.OrderCols
	err = s.tx(ctx, op, func(ctx context.Context, t *session) (err error) {
		rows, err = queryText(ctx, t, 0, (*sqlstore.OrderCols).RecordDest, s.names.fill(text), args...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = store.CursorAfter(sqlstore.FromMicro(rows[q.Limit-1].CreatedAt), rows[q.Limit-1].ID)
	}
	for i := range rows {
		found = append(found, rows[i].Record())
	}
	return found, next, nil
}

// listOrdersSQL builds the statement, which asks for one record more than the limit.
func listOrdersSQL(q store.ListOrdersQuery) (string, []any, error) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprint("$", len(args))
	}
	from, where := listOrders, []string{"TRUE"}
	if q.Batch != "" {
		from = listBatchOrders
		arg(string(q.Batch))
	}
	if q.Party != nil {
		where = append(where, "o.party = "+arg(string(*q.Party))+"::text")
	}
	if len(q.States) > 0 {
		states := arg(intArray(len(q.States), func(i int) int64 { return int64(q.States[i]) }))
		where = append(where, "coalesce(q.state, f.state) = ANY ("+states+"::smallint[])")
	}
	if q.After != "" {
		at, id, err := store.ParseCursor(q.After)
		if err != nil {
			return "", nil, err
		}
		where = append(where, fmt.Sprintf("(o.created_at, o.order_id) > (%s::bigint, %s::text)", arg(at), arg(id)))
		// The same again for the index, which does not hold the id.
		where = append(where, fmt.Sprintf("o.created_at >= %s::bigint", arg(at)))
	}
	return from + strings.Join(where, " AND ") + " ORDER BY o.created_at, o.order_id LIMIT " + arg(int64(q.Limit+1)) + "::bigint", args, nil
}

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
	if err := t.placeOrders(ctx, in); err != nil {
		return err
	}
	// In the order of keys and then of ids, as batches are.
	sorted := make([]*newOrder, 0, len(in))
	var ask []*newOrder
	for i := range in {
		if in[i].twin {
			ask = append(ask, &in[i])
		} else {
			sorted = append(sorted, &in[i])
		}
	}
	slices.SortStableFunc(sorted, func(a, b *newOrder) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) })
	added := make(map[int64]bool, len(in))
	for rest := sorted; len(rest) > 0; {
		n := chunkOrders(rest)
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

// chunkOrders is how many of the first orders go into one statement.
func chunkOrders(in []*newOrder) int {
	size := 0
	for i, o := range in {
		size += sha256.Size + len(o.Payload)
		if i > 0 && (size > chunkBytes || i == chunkRows) {
			return i
		}
	}
	return len(in)
}

// placeOrders gives each order its order key and its number, as order does for batches.
func (t *session) placeOrders(ctx context.Context, in []newOrder) error {
	last := map[batch.ServiceID]int64{}
	var parties []batch.ServiceID
	for _, o := range in {
		if _, ok := last[o.Party]; !ok {
			last[o.Party] = 0
			parties = append(parties, o.Party)
		}
	}
	now, seqs, err := t.before(ctx, sqlBeforeOrders, parties, len(in), last)
	if err != nil {
		return err
	}
	latest := now - 1
	for i := range in {
		latest = max(latest, last[in[i].Party]) + 1
		in[i].at, in[i].seq = latest, seqs[i]
		last[in[i].Party] = latest
	}
	return nil
}

// insertOrders puts into added the numbers of the orders that were not known.
func (t *session) insertOrders(ctx context.Context, in []*newOrder, added map[int64]bool) error {
	var bytes []byte
	at := make([]int64, len(in))
	for i, o := range in {
		at[i] = int64(len(bytes) + 1)
		bytes = append(append(bytes, o.hash[:]...), o.Payload...)
	}
	n := len(in)
	seqs, err := query(ctx, t, value[int64], sqlInsertOrders,
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
		bytes, store.NewOrderRow().Version)
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
	type known struct{ party, name, hash string }
	read := func(k *known) []any { return []any{&k.name, &k.party, &k.hash} }
	rows, err := query(ctx, t, read, sqlKnownOrders, textArray(len(ask), func(i int) string { return string(ask[i].ID) }))
	if err != nil {
		return err
	}
	byID := make(map[string]known, len(rows))
	for _, r := range rows {
		byID[r.name] = r
	}
	rows, err = query(ctx, t, func(k *known) []any { return []any{&k.party, &k.name, &k.hash} }, sqlKnownOrderKeys,
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
			if k.party != string(o.Party) || k.hash != string(o.hash[:]) {
				return store.OrderConflict(o.ID)
			}
			continue
		}
		k, ok := byKey[key{string(o.Party), o.Key}]
		switch {
		case ok && k.hash != string(o.hash[:]):
			return store.OrderKeyConflict(*o.Order)
		case !ok && !o.twin:
			return errMoved // pruned since
		}
	}
	return nil
}
