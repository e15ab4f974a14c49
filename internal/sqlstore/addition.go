package sqlstore

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Addition is a batch that an Add has checked before its first statement.
type Addition struct {
	*batch.Batch
	PayloadHash  [sha256.Size]byte
	IDHash       [16]byte
	FootprintCol []byte
	TagsCol      string // "" means no tags
	Twin         bool   // true if an earlier batch of the call may be the same: see [store.Twins]
	At           int64  // the order key
	Seq          int64  // 0 while the batch is not stored
}

// Prepare checks batches that are to be added.
func Prepare(batches []batch.Batch) ([]Addition, error) {
	in := make([]Addition, len(batches))
	for i := range batches {
		b := &batches[i]
		if err := b.Validate(); err != nil {
			return nil, err
		}
		in[i] = Addition{Batch: b, PayloadHash: b.Hash(), IDHash: IDHash(b.ID), FootprintCol: EncodeFootprint(b.Footprint), TagsCol: encodeTags(b.Tags)}
	}
	twins, err := store.Twins(batches)
	if err != nil {
		return nil, err
	}
	for i, twin := range twins {
		in[i].Twin = twin
	}
	return in, nil
}

// NewOrder is an order that an AddOrders has checked before its first statement.
type NewOrder struct {
	*order.Order
	Hash [sha256.Size]byte
	Twin bool  // true if an earlier order of the call may be the same: see [order.Check]
	At   int64 // the order key
	Seq  int64
}

// PrepareOrders checks orders that are to be added.
func PrepareOrders(orders []order.Order) ([]NewOrder, error) {
	twins, err := order.Check(orders)
	if err != nil {
		return nil, err
	}
	in := make([]NewOrder, len(orders))
	for i := range orders {
		in[i] = NewOrder{Order: &orders[i], Hash: orders[i].Hash(), Twin: twins[i]}
	}
	return in, nil
}

// CompareOrders compares the orders that the insert did not add with the stored orders of their
// ids and keys. It returns the twins of which neither the id nor the key is stored.
func CompareOrders(ctx context.Context, t Tx, known, twins []*NewOrder) (left []*NewOrder, err error) {
	in := slices.Concat(known, twins)
	if len(in) == 0 {
		return nil, nil
	}
	type stored struct {
		Name  string `db:"name"`
		Party string `db:"party"`
		Hash  []byte `db:"payload_hash"`
	}
	type key struct{ party, name string }
	byID, byKey := map[string]stored{}, map[key]stored{}
	err = Each(ctx, t, func(k *stored) error {
		byID[k.Name] = *k
		return nil
	}, sqlKnownOrders, t.Array(len(in), func(i int) any { return string(in[i].ID) }))
	if err != nil {
		return nil, err
	}
	err = Each(ctx, t, func(k *stored) error {
		byKey[key{k.Party, k.Name}] = *k
		return nil
	}, sqlKnownOrderKeys, t.Array(len(in), func(i int) any { return string(in[i].Party) }), t.Array(len(in), func(i int) any { return in[i].Key }))
	if err != nil {
		return nil, err
	}
	for i, o := range in {
		if k, ok := byID[string(o.ID)]; ok {
			if k.Party != string(o.Party) || string(k.Hash) != string(o.Hash[:]) {
				return nil, order.Conflict(o.ID)
			}
			continue
		}
		k, ok := byKey[key{string(o.Party), o.Key}]
		switch {
		case ok && string(k.Hash) != string(o.Hash[:]):
			return nil, order.KeyConflict(*o.Order)
		case !ok && i < len(known):
			return nil, ErrMoved // the stored order was pruned since the insert
		case !ok:
			left = append(left, o)
		}
	}
	return left, nil
}
