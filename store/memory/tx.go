package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Tx is a transaction of a [Store]: its batches are not visible before Commit. In a test of a
// service that uses AddTx it stands for the application's transaction. As in a database, an Add of
// another caller that has one of its ids or keys waits until the transaction ends. So two
// transactions that add the same ids in opposite order wait for each other, until one of their
// contexts ends.
type Tx struct {
	store *Store
	ended chan struct{} // closed by Commit and Rollback

	// The following fields are the additions. s.mu guards them.
	batches     []*entry
	byID        map[batch.ID]*entry
	byChange    map[dataChangeKey]*entry
	orders      []*orderEntry
	ordersByID  map[order.ID]*orderEntry
	ordersByKey map[orderKey]*orderEntry
}

// Begin begins a transaction. It ends with Commit or Rollback.
func (s *Store) Begin() *Tx {
	t := &Tx{
		store: s, ended: make(chan struct{}),
		byID: map[batch.ID]*entry{}, byChange: map[dataChangeKey]*entry{},
		ordersByID: map[order.ID]*orderEntry{}, ordersByKey: map[orderKey]*orderEntry{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openTxs[t] = true
	return t
}

// Commit stores the additions. The error says that the transaction has ended already.
func (t *Tx) Commit() error {
	return t.end("commit", func() {
		for _, e := range t.batches {
			t.store.insertAt(e, e.created)
		}
		for _, o := range t.orders {
			t.store.orders.place(o)
		}
	})
}

// Rollback drops the additions. It returns an error if the transaction has ended already; so a
// Rollback after a Commit does no harm.
func (t *Tx) Rollback() error { return t.end("rollback", func() {}) }

func (t *Tx) end(op string, do func()) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if err := t.checkLive(); err != nil {
		return fmt.Errorf("memory: %s: %w", op, err)
	}
	do()
	delete(t.store.openTxs, t)
	close(t.ended)
	return nil
}

var errTxEnded = errors.New("the transaction has ended already, by a Commit or a Rollback")

// checkLive returns nil if the transaction is open. s.mu is held.
func (t *Tx) checkLive() error {
	if !t.store.openTxs[t] {
		return errTxEnded
	}
	return nil
}

// Tx takes a transaction that [Store.Begin] of this store began, for dltbatch.Runner.AddTx. The
// places of its batches in the lane follow the times at which they were added, but they come
// behind batches that were claimed before the Commit. After an error of an Add the transaction may
// go on.
func (s *Store) Tx(t *Tx) store.Tx { return ownTx{s, t} }

// Owns is [store.Store].Owns.
func (s *Store) Owns(t store.Tx) bool {
	own, is := t.(ownTx)
	return is && own.store == s
}

type ownTx struct {
	store *Store
	tx    *Tx
}

// Add implements [store.Tx].
func (o ownTx) Add(ctx context.Context, batches ...batch.Batch) error {
	return o.store.inTx(ctx, o.tx, func() error { return o.store.addTx(ctx, o.tx, batches) })
}

// AddOrdersTx is AddOrders in a transaction, by the rules of [Store.Tx].
func (s *Store) AddOrdersTx(ctx context.Context, t *Tx, orders ...order.Order) error {
	return s.inTx(ctx, t, func() error { return s.addOrders(ctx, t, orders) })
}

func (s *Store) inTx(ctx context.Context, t *Tx, add func() error) error {
	switch {
	case t == nil:
		return &batch.InputError{Field: "tx", Value: "nil", Want: "a transaction: what Begin of this store returns"}
	case t.store != s:
		return &batch.InputError{Field: "tx", Value: "a transaction of another store in memory", Want: "what Begin of this store returns"}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := add(); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	return nil
}

func (s *Store) addTx(ctx context.Context, t *Tx, batches []batch.Batch) error {
	entries, err := prepare(batches)
	if err != nil {
		return err
	}
	if err := s.lockFor(ctx, t, entries, nil); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := t.checkLive(); err != nil {
		return err
	}
	fresh, err := s.notStored(entries, t)
	if err != nil {
		return err
	}
	last := map[batch.ServiceID]time.Time{}
	for _, e := range t.batches {
		last[e.key.Service] = e.created
	}
	now := s.now()
	for i, e := range fresh {
		e.created = orderKeyAfter(last[e.key.Service], now.Add(time.Duration(i)*time.Microsecond))
		if l := s.lanes[e.key.Service]; l != nil {
			e.created = orderKeyAfter(l.lastKey, e.created)
		}
		last[e.key.Service] = e.created
		t.batches = append(t.batches, e)
		t.byID[e.key.ID] = e
		if e.dataChangeID != "" {
			t.byChange[e.dataChangeKeyOf()] = e
		}
	}
	return nil
}

// orderKeyAfter returns at, or, if at is not after the order key other, the next key after other.
func orderKeyAfter(other, at time.Time) time.Time {
	if next := other.Add(time.Microsecond); next.After(at) {
		return next
	}
	return at
}

// lockFor locks s.mu when no open transaction other than own has an id or a key of these batches
// and orders.
func (s *Store) lockFor(ctx context.Context, own *Tx, entries []*entry, orders []order.Order) error {
	for {
		s.mu.Lock()
		holder := s.txWithSameKeys(own, entries, orders)
		if holder == nil {
			return nil
		}
		s.mu.Unlock()
		select {
		case <-holder.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// txWithSameKeys returns an open transaction other than own that has one of these ids or keys, or
// nil. s.mu is held.
func (s *Store) txWithSameKeys(own *Tx, entries []*entry, orders []order.Order) *Tx {
	for t := range s.openTxs {
		if t == own {
			continue
		}
		for _, e := range entries {
			if t.byID[e.key.ID] != nil || t.byChange[e.dataChangeKeyOf()] != nil {
				return t
			}
		}
		for _, o := range orders {
			if t.ordersByID[o.ID] != nil || t.ordersByKey[orderKey{o.Party, o.Key}] != nil {
				return t
			}
		}
	}
	return nil
}
