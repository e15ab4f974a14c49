package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/whole"
	"github.com/dltbatch/dltbatch/store"
)

// wholeStore returns s with all methods. A group that s lacks is replaced by the core methods
// where these are enough, or by an answer that changes nothing; the others give
// [store.ErrUnsupported].
func wholeStore(s store.Store) *whole.Store {
	w := whole.Of(s, func(method, ability string) error { return unsupported(s, method, ability) })
	if !is[store.FinalReader](s) {
		w.FinalReader = oneByOne{s}
	}
	if !is[store.WitnessReader](s) {
		w.WitnessReader = noWitnesses{}
	}
	if !is[store.Ledgers](s) {
		w.Ledgers = noLedgers{}
	}
	return w
}

// is reports whether a store has an ability.
func is[T any](s store.Store) bool {
	_, ok := s.(T)
	return ok
}

// unsupported is the error of a call to a store that lacks the ability which the call needs.
func unsupported(s store.Store, method, ability string) error {
	return fmt.Errorf("%s: %w: %T is no %s", method, store.ErrUnsupported, s, ability)
}

// oneByOne reads outcomes from a store that cannot read many at once.
type oneByOne struct{ store.Store }

func (s oneByOne) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
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

// noWitnesses finds none.
type noWitnesses struct{}

func (noWitnesses) Witnesses(context.Context, store.Ref, int) ([]batch.ID, error) { return nil, nil }

// noLedgers records nothing, and never contradicts.
type noLedgers struct{}

func (noLedgers) Ledger(_ context.Context, name string) (string, error) { return name, nil }

func (noLedgers) Serve(_ context.Context, services []store.Served) ([]string, error) {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = s.Ledger
	}
	return names, nil
}

func (noLedgers) KeepTraits(_ context.Context, _, traits, _ string) (string, error) {
	return traits, nil
}
