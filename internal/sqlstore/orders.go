package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// FinalOrders is [store.OrderStore].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []batch.OrderID) (final []batch.OrderRecord, missing []batch.OrderID, err error) {
	err = s.d.Read(ctx, "find final orders", func(ctx context.Context, t Tx) error {
		ask, want := wantOrders(ids) // anew each time: a found record is taken out of want
		final = nil
		for some := range slices.Chunk(ask, store.MaxKeys) {
			found, err := Query(ctx, t, (*orderCols).recordDest, sqlOrderRows, texts(t, some))
			if err != nil {
				return err
			}
			for i := range found {
				if r := found[i].record(); want.Take(batch.Key{ID: batch.ID(r.ID)}) && r.State.Final() {
					final = append(final, r)
				}
			}
		}
		missing = missingOrders(want)
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
	if err := checkCursor(q.After); err != nil {
		return nil, "", s.d.Wrap(op, err)
	}
	if !canStore("", "x"+string(q.Batch)) || (q.Party != nil && !canStore(*q.Party)) {
		return nil, "", nil
	}
	var rows []orderCols
	err = s.d.Read(ctx, op, func(ctx context.Context, t Tx) error {
		statement, args, err := listOrders(t, q)
		if err != nil {
			return err
		}
		rows, err = Query(ctx, t, (*orderCols).recordDest, statement, args...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = store.CursorAfter(FromMicro(rows[q.Limit-1].createdAt), rows[q.Limit-1].id)
	}
	for i := range rows {
		found = append(found, rows[i].record())
	}
	return found, next, nil
}

// listOrders builds the statement.
func listOrders(t Tx, q store.ListOrdersQuery) (string, []any, error) {
	var c conditions
	from := listAllOrders
	if q.Batch != "" {
		from = listBatchOrders
		c.arg(string(q.Batch), "text") // the first
	}
	if q.Party != nil {
		c.add("o.party = " + c.arg(string(*q.Party), "text"))
	}
	c.states(t, "coalesce(q.state, f.state)", len(q.States), func(i int) any { return int64(q.States[i]) })
	return c.page(from, q.After, "o.created_at", "o.order_id", q.Limit)
}

// PrepareBatch is [store.OrderEngine].PrepareBatch.
func (s *Store) PrepareBatch(ctx context.Context, b batch.Batch, refs []store.OrderRef) (bool, error) {
	const op = "prepare a batch"
	err := b.Validate()
	if err == nil {
		err = store.CheckRefs(b.Key(), refs)
	}
	if err != nil {
		return false, s.d.Wrap(op, err)
	}
	id := func(i int) batch.OrderID { return refs[i].ID }
	return done(s.d.Adding(ctx, op, func(ctx context.Context, t Tx) error {
		n, err := t.Add(ctx, b)
		if err != nil {
			return err
		}
		if n == 0 { // it is known
			return prepared(ctx, t, b, refs)
		}
		free, err := t.Exec(ctx, sqlInsertUnsettled, n, string(b.Service))
		if err != nil {
			return err
		}
		orders, err := ordersOf(ctx, t, (*orderCols).dest, s.d.LockOrders, len(refs), id)
		if err != nil {
			return err
		}
		if err := sameParty(b, orders); err != nil {
			return err
		}
		if free == 0 {
			return ErrFenced
		}
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		changed := make([]orderChange, len(refs))
		for i, o := range orders {
			if o == nil { // it is final, or not stored
				return notOpen(ctx, t, b, refs)
			}
			next, ok := o.row().Dequeue(FromMicro(now), FromMicro(o.deadline), refs[i].Version, b.ID, i)
			if !ok {
				return ErrFenced
			}
			changed[i] = orderChange{o, next}
		}
		return s.saveOrders(ctx, t, changed)
	}))
}

// notOpen returns the error of a batch with an order that is not open. An order of another party
// is the caller's mistake in any state.
func notOpen(ctx context.Context, t Tx, b batch.Batch, refs []store.OrderRef) error {
	orders, err := ordersOf(ctx, t, (*orderCols).recordDest, sqlOrderRows, len(refs), func(i int) batch.OrderID { return refs[i].ID })
	if err != nil {
		return err
	}
	if err := sameParty(b, orders); err != nil {
		return err
	}
	return ErrFenced
}

// prepared returns nil where the stored batch was made of these orders.
func prepared(ctx context.Context, t Tx, b batch.Batch, refs []store.OrderRef) error {
	orders, err := ordersOf(ctx, t, (*orderCols).recordDest, sqlOrderRows, len(refs), func(i int) batch.OrderID { return refs[i].ID })
	if err != nil {
		return err
	}
	if err := sameParty(b, orders); err != nil {
		return err
	}
	for i, o := range orders {
		if o == nil || !o.row().DequeuedFrom(refs[i].Version, b.ID) {
			return store.PrepareConflict(b.Key())
		}
	}
	return nil
}

func sameParty(b batch.Batch, orders []*orderCols) error {
	for _, o := range orders {
		if o != nil && o.party != string(b.Service) {
			return store.WrongParty(b.Key(), batch.ServiceID(o.party))
		}
	}
	return nil
}

// ErrFenced rolls back a call that must not be done. It never leaves the drivers.
var ErrFenced = errors.New("fenced")

// ErrMoved says that a row has changed since it was read: a driver begins the transaction again.
var ErrMoved = errors.New("another transaction was faster")

// done is the result of a call that must not be done in part: a fence gives false.
func done(err error) (bool, error) {
	if errors.Is(err, ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// ordersOf reads the orders of n ids, in the order of the ids; nil for an id without one.
func ordersOf(ctx context.Context, t Tx, dest func(*orderCols) []any, statement string, n int, id func(i int) batch.OrderID) ([]*orderCols, error) {
	var ids []batch.OrderID
	for i := range n {
		if canStore("", string(id(i))) {
			ids = append(ids, id(i))
		}
	}
	found, err := Query(ctx, t, dest, statement, texts(t, ids))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*orderCols, len(found))
	for i := range found {
		byID[found[i].id] = &found[i]
	}
	list := make([]*orderCols, n)
	for i := range n {
		list[i] = byID[string(id(i))]
	}
	return list, nil
}

// orderChange is an open order and its next row.
type orderChange struct {
	*orderCols
	next store.OrderRow
}

// saveOrders writes rows, by compare-and-set on the versions that were read, to the tables they
// belong in, in the order of their numbers. If another transaction was faster the error is
// ErrMoved.
func (s *Store) saveOrders(ctx context.Context, t Tx, changed []orderChange) error {
	slices.SortFunc(changed, func(a, b orderChange) int { return cmp.Compare(a.seq, b.seq) })
	var open, gone, final [][]any
	for _, c := range changed {
		r := c.next
		row := []any{c.seq, c.version, int64(r.State), r.Version, string(r.Batch), int64(r.Place), int64(r.Batches), r.Group}
		if !r.State.Final() {
			open = append(open, row)
			continue
		}
		kind, message := ErrorCols(r.Error)
		gone = append(gone, row[:2])
		final = append(final, append(append([]any{c.seq}, row[2:]...), ToMicro(r.FinalAt), kind, message))
	}
	for _, step := range [...]struct {
		statement string
		rows      [][]any
	}{{s.d.UpdateOrders, open}, {s.d.DeleteOpenOrders, gone}, {s.d.InsertFinalOrders, final}} {
		if len(step.rows) == 0 {
			continue
		}
		n, err := t.ExecAll(ctx, step.statement, step.rows)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d orders written, want %d", ErrMoved, n, len(step.rows))
		}
	}
	return nil
}

// FailOrders is [store.OrderEngine].FailOrders.
func (s *Store) FailOrders(ctx context.Context, vs []store.OrderVerdict) ([]bool, error) {
	return s.judge(ctx, "fail orders", vs, false, store.OrderRow.Fail, batch.OrderFailed, batch.OrderQuarantined)
}

// SplitOrders is [store.OrderEngine].SplitOrders.
func (s *Store) SplitOrders(ctx context.Context, vs []store.OrderVerdict) (bool, error) {
	_, err := s.judge(ctx, "split orders", vs, true, func(r store.OrderRow, _ time.Time, v store.OrderVerdict) (store.OrderRow, bool) {
		return r.Split(v)
	}, batch.OrderQueued)
	return done(err)
}

// judge writes verdicts about open orders, each alone or, where all is set, all or none: then a
// fence gives ErrFenced.
func (s *Store) judge(ctx context.Context, op string, vs []store.OrderVerdict, all bool,
	rule func(store.OrderRow, time.Time, store.OrderVerdict) (store.OrderRow, bool), allowed ...batch.OrderState,
) (did []bool, err error) {
	if err := store.CheckVerdicts(vs, allowed...); err != nil || len(vs) == 0 {
		return nil, s.d.Wrap(op, err)
	}
	err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
		did = make([]bool, len(vs))
		orders, err := ordersOf(ctx, t, (*orderCols).dest, s.d.LockOrders, len(vs), func(i int) batch.OrderID { return vs[i].ID })
		if err != nil {
			return err
		}
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		var changed []orderChange
		for i, o := range orders {
			var next store.OrderRow
			if o != nil {
				next, did[i] = rule(o.row(), FromMicro(now), vs[i])
			}
			switch {
			case did[i]:
				changed = append(changed, orderChange{o, next})
			case all:
				return ErrFenced
			}
		}
		return s.saveOrders(ctx, t, changed)
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// ExpireOrders is [store.OrderEngine].ExpireOrders. It leaves orders that another call holds to
// the next call.
func (s *Store) ExpireOrders(ctx context.Context, limit int) (n int, err error) {
	const op = "expire orders"
	if s.d.AnyExpired != "" {
		var some bool
		err := s.d.Read(ctx, op, func(ctx context.Context, t Tx) (err error) {
			some, _, err = Get[bool](ctx, t, s.d.AnyExpired)
			return err
		})
		if err != nil || !some {
			return 0, err
		}
	}
	err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		expired, err := Query(ctx, t, (*orderCols).dest, s.d.Expired, now, int64(max(0, limit)))
		if err != nil {
			return err
		}
		var changed []orderChange
		for i := range expired {
			if next, ok := expired[i].row().Expire(FromMicro(now), FromMicro(expired[i].deadline)); ok {
				changed = append(changed, orderChange{&expired[i], next})
			}
		}
		n = len(changed)
		return s.saveOrders(ctx, t, changed)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// SettleableBatches is [store.OrderEngine].SettleableBatches.
func (s *Store) SettleableBatches(ctx context.Context, limit int) (found []store.OrderBatch, err error) {
	err = s.d.Read(ctx, "find batches to settle", func(ctx context.Context, t Tx) error {
		found = nil
		batches, err := records(ctx, t, (*foundCols).outcomeDest, s.d.Settleable, int64(max(0, limit)))
		if err != nil || len(batches) == 0 {
			return err
		}
		of, err := ordersIn(ctx, t, sqlBatchOrders, len(batches), func(i int) batch.ID { return batches[i].ID })
		if err != nil {
			return err
		}
		for _, r := range batches {
			b := store.OrderBatch{Record: r}
			for _, o := range of[r.ID] {
				b.Orders, b.Group = append(b.Orders, o.ref()), o.group
			}
			if len(b.Orders) > 0 { // else it was settled between the two statements
				found = append(found, b)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ordersIn are the open orders that a statement finds in batches.
func ordersIn(ctx context.Context, t Tx, statement string, n int, id func(i int) batch.ID) (map[batch.ID][]*orderCols, error) {
	orders, err := Query(ctx, t, (*orderCols).dest, statement, t.Array(n, func(i int) any { return string(id(i)) }))
	if err != nil {
		return nil, err
	}
	of := make(map[batch.ID][]*orderCols, n)
	for i := range orders {
		id := batch.ID(orders[i].batch)
		of[id] = append(of[id], &orders[i])
	}
	return of, nil
}

// SettleOrders is [store.OrderEngine].SettleOrders. Each call is one transaction.
func (s *Store) SettleOrders(ctx context.Context, settled []store.Settlement) (did []bool, err error) {
	const op = "settle orders"
	for _, st := range settled {
		if err := store.CheckSettlement(st); err != nil {
			return nil, s.d.Wrap(op, err)
		}
	}
	if len(settled) == 0 {
		return nil, nil
	}
	err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
		did = make([]bool, len(settled))
		return s.settle(ctx, t, settled, did)
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// settle writes the settlements that apply, and marks them in did.
func (s *Store) settle(ctx context.Context, t Tx, settled []store.Settlement, did []bool) error {
	var ask []store.Ref
	asked := map[batch.ID]bool{} // an id may come twice, and its orders may not
	for _, st := range settled {
		if st.Batch.Validate() == nil {
			ask = append(ask, store.Ref{Key: st.Batch})
			asked[st.Batch.ID] = true
		}
	}
	ids := slices.Sorted(maps.Keys(asked))
	seqs, err := Seqs(ctx, t, len(ask), func(i int) store.Ref { return ask[i] })
	if err != nil {
		return err
	}
	// The rows of the batches are locked before the rows of their orders, each in one order.
	batches, us, err := t.Load(ctx, Known(seqs))
	if err != nil {
		return err
	}
	byKey := make(map[batch.Key]*Stored, len(ask))
	for _, b := range batches {
		byKey[b.Key()] = b
	}
	of, err := ordersIn(ctx, t, s.d.LockBatchOrders, len(ids), func(i int) batch.ID { return ids[i] })
	if err != nil {
		return err
	}
	var saved []*Stored
	var changed []orderChange
	var done []int64
	for i, st := range settled {
		b := byKey[st.Batch]
		if b == nil {
			continue
		}
		next, ok := b.Now.SettleOrders(st.Version)
		if !ok {
			continue
		}
		if err := st.Agrees(b.Now.State); err != nil {
			return err
		}
		rows, ok := verdicts(st, of[st.Batch.ID], FromMicro(us))
		if !ok {
			continue
		}
		did[i], b.Now = true, next
		saved, changed, done = append(saved, b), append(changed, rows...), append(done, b.Seq)
	}
	if len(saved) == 0 {
		return nil
	}
	if err := t.Save(ctx, saved); err != nil {
		return err
	}
	if err := s.saveOrders(ctx, t, changed); err != nil {
		return err
	}
	_, err = t.ExecAll(ctx, s.d.DeleteUnsettled, each(done))
	return err
}

// verdicts returns the changes to all orders of a batch, or false.
func verdicts(st store.Settlement, orders []*orderCols, now time.Time) ([]orderChange, bool) {
	if len(orders) != len(st.Orders) {
		return nil, false
	}
	changed := make([]orderChange, len(st.Orders))
	byID := make(map[string]*orderCols, len(orders))
	for _, o := range orders {
		byID[o.id] = o
	}
	for i, v := range st.Orders {
		o := byID[string(v.ID)]
		if o == nil {
			return nil, false
		}
		next, ok := o.row().Settle(now, st.Batch.ID, v)
		if !ok {
			return nil, false
		}
		changed[i] = orderChange{o, next}
	}
	return changed, true
}

// Known drops zeros and repeated numbers.
func Known(seqs []int64) []int64 {
	once := make([]int64, 0, len(seqs))
	seen := make(map[int64]struct{}, len(seqs))
	for _, seq := range seqs {
		if _, twice := seen[seq]; seq != 0 && !twice {
			seen[seq] = struct{}{}
			once = append(once, seq)
		}
	}
	return once
}

// Parties is [store.OrderEngine].Parties.
func (s *Store) Parties(ctx context.Context, q store.PartiesQuery) (found []store.PartyLoad, err error) {
	type load struct {
		store.PartyLoad
		us int64
	}
	statement, args := s.d.PartiesFirst, []any{int64(max(0, q.Limit)), int64(max(1, q.Cap))}
	if !q.Start {
		statement, args = s.d.PartiesAfter, append(args, string(q.After))
	}
	err = s.d.Read(ctx, "list parties", func(ctx context.Context, t Tx) error {
		rows, err := Query(ctx, t, func(l *load) []any {
			return []any{&l.Party, &l.Orders, &l.Bytes, &l.Urgent, &l.us, &l.Split}
		}, statement, args...)
		found = nil
		for _, r := range rows {
			r.Oldest = time.Duration(r.us) * time.Microsecond
			found = append(found, r.PartyLoad)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// NextOrders is [store.OrderEngine].NextOrders.
func (s *Store) NextOrders(ctx context.Context, party batch.ServiceID, q store.NextQuery) (next []store.QueuedOrder, err error) {
	if !canStore(party) {
		return nil, nil
	}
	err = s.d.Read(ctx, "find next orders", func(ctx context.Context, t Tx) error {
		next = nil
		seqs, err := s.next(ctx, t, party, q)
		if err != nil || len(seqs) == 0 {
			return err
		}
		rows, err := Query(ctx, t, (*queuedCols).dest, s.d.QueuedOrders, ints(t, seqs))
		next = queued(rows) // without the orders that have moved on since
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// next are the numbers of the orders of the next batch.
func (s *Store) next(ctx context.Context, t Tx, party batch.ServiceID, q store.NextQuery) ([]int64, error) {
	now, err := Now(ctx, t)
	if err != nil {
		return nil, err
	}
	split, err := Query(ctx, t, (*orderCols).dest, s.d.SplitOrders, string(party), now)
	if err != nil {
		return nil, err
	}
	if len(split) > 0 {
		return firstGroup(split), nil
	}
	front, err := Query(ctx, t, (*frontCols).dest, s.d.NextOrders, string(party), now, int64(max(1, q.Max)))
	if err != nil {
		return nil, err
	}
	return sortFront(front, q), nil
}
