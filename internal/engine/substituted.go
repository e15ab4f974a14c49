package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// substituted is a store that answers for abilities which the store inside lacks: by the methods that
// every store has, where these are enough, or by an answer that changes nothing. Calls that need other
// abilities give [store.ErrUnsupported].
type substituted struct {
	store.Store
	can store.Abilities // of the store inside
}

func (s substituted) Abilities() store.Abilities { return s.can }

// Finals reads outcomes from a store that cannot read many at once, one by one.
func (s substituted) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	if s.can.Has(store.CanReadFinals) {
		return s.Store.Finals(ctx, keys)
	}
	seen := make(map[batch.Key]struct{}, len(keys))
	read := 0
	from := rand.IntN(len(keys) + 1) // each call begins elsewhere: the time may not suffice for all
	for _, key := range slices.Concat(keys[from:], keys[:from]) {
		if _, twice := seen[key]; twice {
			continue
		}
		seen[key] = struct{}{}
		rec, failed := s.Get(ctx, key)
		switch {
		case errors.Is(failed, batch.ErrNotFound):
			missing = append(missing, key)
		case failed != nil:
			err = failed // the batch counts as open, and is asked about again
			continue
		case rec.Final():
			final = append(final, rec)
		}
		read++
	}
	if read == 0 {
		return nil, nil, err
	}
	return final, missing, nil
}

// Witnesses finds none in a store that cannot look for them.
func (s substituted) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	if s.can.Has(store.CanFindWitnesses) {
		return s.Store.Witnesses(ctx, ref, limit)
	}
	return nil, nil
}

// Ledger never contradicts where the store records nothing of ledgers, nor do Serve and KeepTraits.
func (s substituted) Ledger(ctx context.Context, name string) (string, error) {
	if s.can.Has(store.CanKeepLedgers) {
		return s.Store.Ledger(ctx, name)
	}
	return name, nil
}

func (s substituted) Serve(ctx context.Context, services []store.Served) ([]string, error) {
	if s.can.Has(store.CanKeepLedgers) {
		return s.Store.Serve(ctx, services)
	}
	names := make([]string, len(services))
	for i, served := range services {
		names[i] = served.Ledger
	}
	return names, nil
}

func (s substituted) KeepTraits(ctx context.Context, name, traits, seen string) (string, error) {
	if s.can.Has(store.CanKeepLedgers) {
		return s.Store.KeepTraits(ctx, name, traits, seen)
	}
	return traits, nil
}
