package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// PrepareBatch is [store.OrderEngine].PrepareBatch. Batches of one party, and batches of one
// id, wait for each other at unique indexes, before any order is locked.
func (s *Store) PrepareBatch(ctx context.Context, b batch.Batch, refs []store.OrderRef) (bool, error) {
	const op = "prepare a batch"
	in, err := prepareAdd([]batch.Batch{b})
	if err == nil {
		err = store.CheckRefs(b.Key(), refs)
	}
	if err != nil {
		return false, wrap(op, err)
	}
	return done(s.adding(ctx, op, func(ctx context.Context, t *session) error {
		if err := t.add(ctx, in, false); err != nil {
			return err
		}
		seqs, err := t.seqs(ctx, 1, func(int) store.Ref { return store.Ref{Key: b.Key()} })
		if err != nil {
			return err
		}
		id := func(i int) batch.OrderID { return refs[i].ID }
		if seqs[0] != in[0].seq { // or 0, where it is buried or its DataChangeID belongs to another batch
			return t.prepared(ctx, b, refs)
		}
		n, err := t.exec(ctx, sqlInsertUnsettled, in[0].seq, string(b.Service))
		if err != nil {
			return err
		}
		orders, err := t.lockOrders(ctx, len(refs), id)
		if err != nil {
			return err
		}
		if err := sameParty(b, orders); err != nil {
			return err
		}
		if n == 0 {
			return errFenced
		}
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		changed := make([]orderChange, len(refs))
		for i, o := range orders {
			if o == nil {
				return errFenced
			}
			next, ok := o.Row().Dequeue(sqlstore.FromMicro(now), sqlstore.FromMicro(o.Deadline), refs[i].Version, b.ID, i)
			if !ok {
				return errFenced
			}
			changed[i] = orderChange{o, next}
		}
		return t.saveOrders(ctx, changed)
	}))
}

// prepared returns nil where the stored batch was made of these orders.
func (t *session) prepared(ctx context.Context, b batch.Batch, refs []store.OrderRef) error {
	orders, err := t.ordersOf(ctx, (*sqlstore.OrderCols).RecordDest, sqlOrderRows, len(refs), func(i int) batch.OrderID { return refs[i].ID })
	if err != nil {
		return err
	}
	if err := sameParty(b, orders); err != nil {
		return err
	}
	for i, o := range orders {
		if o == nil || !o.Row().DequeuedFrom(refs[i].Version, b.ID) {
			return store.PrepareConflict(b.Key())
		}
	}
	return nil
}

func sameParty(b batch.Batch, orders []*sqlstore.OrderCols) error {
	for _, o := range orders {
		if o != nil && o.Party != string(b.Service) {
			return store.WrongParty(b.Key(), batch.ServiceID(o.Party))
		}
	}
	return nil
}

// done is the result of a call that must not be done in part: a fence gives false.
func done(err error) (bool, error) {
	if errors.Is(err, errFenced) {
		return false, nil
	}
	return err == nil, err
}

// lockOrders locks and reads the open orders of n ids, in the order of the ids; nil for an id
// without one.
func (t *session) lockOrders(ctx context.Context, n int, id func(i int) batch.OrderID) ([]*sqlstore.OrderCols, error) {
	return t.ordersOf(ctx, (*sqlstore.OrderCols).Dest, sqlLockOrders, n, id)
}

func (t *session) ordersOf(ctx context.Context, dest func(*sqlstore.OrderCols) []any, statement string, n int, id func(i int) batch.OrderID) ([]*sqlstore.OrderCols, error) {
	var ids []batch.OrderID
	for i := range n {
		if sqlstore.CanStore("", string(id(i))) {
			ids = append(ids, id(i))
		}
	}
	found, err := query(ctx, t, dest, statement, texts(ids))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*sqlstore.OrderCols, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	list := make([]*sqlstore.OrderCols, n)
	for i := range n {
		list[i] = byID[string(id(i))]
	}
	return list, nil
}

// orderChange is an open order and its next row.
type orderChange struct {
	*sqlstore.OrderCols
	next store.OrderRow
}

// saveOrders writes rows, by compare-and-set on the versions that were read, to the tables
// they belong in. If another transaction was faster the error is errMoved.
func (t *session) saveOrders(ctx context.Context, changed []orderChange) error {
	slices.SortFunc(changed, func(a, b orderChange) int { return cmp.Compare(a.Seq, b.Seq) })
	var open, final orderChanges
	for _, c := range changed {
		if c.next.State.Final() {
			final = append(final, c)
		} else {
			open = append(open, c)
		}
	}
	for _, step := range [...]struct {
		rows      orderChanges
		statement string
		args      []any
	}{
		{open, sqlUpdateOrders, slices.Concat(open.seq(), open.was(), open.row())},
		{final, sqlDeleteOpenOrders, slices.Concat(final.seq(), final.was())},
		{final, sqlInsertFinalOrders, slices.Concat(final.seq(), final.row(), final.end())},
	} {
		if len(step.rows) == 0 {
			continue
		}
		n, err := t.exec(ctx, step.statement, step.args...)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d orders written, want %d", errMoved, n, len(step.rows))
		}
	}
	return nil
}

// orderChanges turns rows into arrays, a column each.
type orderChanges []orderChange

func (c orderChanges) seq() []any {
	return []any{intArray(len(c), func(i int) int64 { return c[i].Seq })}
}

func (c orderChanges) was() []any {
	return []any{intArray(len(c), func(i int) int64 { return c[i].Version })}
}

func (c orderChanges) row() []any {
	return []any{
		intArray(len(c), func(i int) int64 { return int64(c[i].next.State) }),
		intArray(len(c), func(i int) int64 { return c[i].next.Version }),
		textArray(len(c), func(i int) string { return string(c[i].next.Batch) }),
		intArray(len(c), func(i int) int64 { return int64(c[i].next.Place) }),
		intArray(len(c), func(i int) int64 { return int64(c[i].next.Batches) }),
		textArray(len(c), func(i int) string { return c[i].next.Group }),
	}
}

func (c orderChanges) end() []any {
	return []any{
		intArray(len(c), func(i int) int64 { return sqlstore.ToMicro(c[i].next.FinalAt) }),
		nullTextArray(len(c), func(i int) (string, bool) {
			if e := c[i].next.Error; e != nil {
				return string(e.Kind), true
			}
			return "", false
		}),
		textArray(len(c), func(i int) string {
			if e := c[i].next.Error; e != nil {
				return e.Message
			}
			return ""
		}),
	}
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

// judge writes verdicts about open orders, each alone or, where all is set, all or none: then
// a fence gives errFenced.
func (s *Store) judge(ctx context.Context, op string, vs []store.OrderVerdict, all bool,
	rule func(store.OrderRow, time.Time, store.OrderVerdict) (store.OrderRow, bool), allowed ...batch.OrderState,
) (did []bool, err error) {
	if err := store.CheckVerdicts(vs, allowed...); err != nil || len(vs) == 0 {
		return nil, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		did = make([]bool, len(vs))
		orders, err := t.lockOrders(ctx, len(vs), func(i int) batch.OrderID { return vs[i].ID })
		if err != nil {
			return err
		}
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		var changed []orderChange
		for i, o := range orders {
			var next store.OrderRow
			if o != nil {
				next, did[i] = rule(o.Row(), sqlstore.FromMicro(now), vs[i])
			}
			switch {
			case did[i]:
				changed = append(changed, orderChange{o, next})
			case all:
				return errFenced
			}
		}
		return t.saveOrders(ctx, changed)
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// ExpireOrders is [store.OrderEngine].ExpireOrders. It leaves orders that another call holds
// to the next call.
func (s *Store) ExpireOrders(ctx context.Context, limit int) (n int, err error) {
	err = s.tx(ctx, "expire orders", func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		expired, err := query(ctx, t, (*sqlstore.OrderCols).Dest, sqlExpired, now, int64(max(0, limit)))
		if err != nil {
			return err
		}
		var changed []orderChange
		for i := range expired {
			if next, ok := expired[i].Row().Expire(sqlstore.FromMicro(now), sqlstore.FromMicro(expired[i].Deadline)); ok {
				changed = append(changed, orderChange{&expired[i], next})
			}
		}
		n = len(changed)
		return t.saveOrders(ctx, changed)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
