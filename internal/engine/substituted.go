package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// substituted is a store that answers for abilities which the store inside lacks: by the methods
// that every store has, where these are enough, or by an answer that changes nothing. Calls that
// need other abilities give [store.ErrUnsupported].
type substituted struct {
	store.Store
	abilities store.Abilities // of the store inside
}

func (s substituted) Abilities() store.Abilities { return s.abilities }

// Finals reads outcomes from a store that cannot read many at once, one by one.
func (s substituted) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	if s.abilities.Has(store.CanReadFinals) {
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
	if s.abilities.Has(store.CanFindWitnesses) {
		return s.Store.Witnesses(ctx, ref, limit)
	}
	return nil, nil
}

// ReadTexts finds none where the store keeps no texts, and SwapTexts keeps none: so nothing that
// is recorded contradicts.
func (s substituted) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if s.abilities.Has(store.CanKeepTexts) {
		return s.Store.ReadTexts(ctx, kind, names...)
	}
	none := make([]store.Text, len(names))
	for i, name := range names {
		none[i] = store.Text{Kind: kind, Name: name}
	}
	return none, time.Now(), nil
}

func (s substituted) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if s.abilities.Has(store.CanKeepTexts) {
		return s.Store.SwapTexts(ctx, texts...)
	}
	return true, nil
}
