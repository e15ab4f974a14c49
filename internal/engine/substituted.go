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

// substitutedStore is a store that replaces abilities which the store inside lacks: by the methods
// that every store has, if these are enough, or by an answer that changes nothing. Calls that need
// other abilities return [store.ErrUnsupported].
type substitutedStore struct {
	store.Store
	abilities store.Abilities // abilities of the store inside
}

func (s substitutedStore) Abilities() store.Abilities { return s.abilities }

// Finals reads records one by one if the store inside cannot read many at once.
func (s substitutedStore) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	if s.abilities.Has(store.CanReadFinals) {
		return s.Store.Finals(ctx, keys)
	}
	seen := make(map[batch.Key]struct{}, len(keys))
	read := 0
	from := rand.IntN(len(keys) + 1) // each call begins at another key, since the time may not be enough for all
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
			err = failed // the batch counts as open, and is read again later
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

// Witnesses returns none if the store inside cannot look for them.
func (s substitutedStore) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	if s.abilities.Has(store.CanFindWitnesses) {
		return s.Store.Witnesses(ctx, ref, limit)
	}
	return nil, nil
}

// ReadTexts finds no text if the store inside keeps no texts, and SwapTexts keeps none, so no
// recorded text contradicts the present settings.
func (s substitutedStore) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if s.abilities.Has(store.CanKeepTexts) {
		return s.Store.ReadTexts(ctx, kind, names...)
	}
	none := make([]store.Text, len(names))
	for i, name := range names {
		none[i] = store.Text{Kind: kind, Name: name}
	}
	return none, time.Now(), nil
}

func (s substitutedStore) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if s.abilities.Has(store.CanKeepTexts) {
		return s.Store.SwapTexts(ctx, texts...)
	}
	return true, nil
}
