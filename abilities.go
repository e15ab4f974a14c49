package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/whole"
	"github.com/dltbatch/dltbatch/queuer"
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

// checkStore refuses a store that lacks an ability which the options or the ledger's traits
// need. given are the options without defaults.
func checkStore(s store.Store, given *Options, o Options, t dlt.Traits) error {
	switch {
	case queuer.ReliesOnOrder(o.Strategy) && !is[store.Lister](s):
		return lacks(s, "store.Lister", fmt.Sprintf("Options.Strategy (%s), which relies on the order of submission", o.strategyType()))
	case o.Policy != batch.PolicyContinue && !is[store.Controls](s):
		return lacks(s, "store.Controls", fmt.Sprintf("Options.Policy (%s)", o.Policy))
	case o.Policy == batch.PolicyQuarantine && !is[store.Operator](s):
		return lacks(s, "store.Operator", fmt.Sprintf("Options.Policy (%s)", o.Policy))
	case given != nil && given.Retention > 0 && !is[store.Pruner](s):
		return lacks(s, "store.Pruner", fmt.Sprintf("Options.Retention (%s)", given.Retention))
	}
	return checkNeeds(s, t)
}

// checkNeeds refuses a store that lacks an ability which the ledger's traits need.
func checkNeeds(s store.Store, t dlt.Traits) error {
	switch {
	case t.Prepares && !is[store.PreparedKeeper](s):
		return lacks(s, "store.PreparedKeeper", fmt.Sprintf("the ledger %q, which prepares batches (dlt.Traits.Prepares)", t.Name))
	case t.Routed && !is[store.Ledgers](s):
		return lacks(s, "store.Ledgers", "a ledger that is made of several (dlt.Traits.Routed)")
	}
	return nil
}

// lacks is the error about a store without an ability that something else needs.
func lacks(s store.Store, ability, by string) error {
	return optionError("store", fmt.Sprintf("%T", s), fmt.Sprintf("a %s, for %s (a struct that wraps a store has its own methods only: store.Full has them all)", ability, by))
}

// logLosses writes down once which abilities the store lacks, since a store that was wrapped may
// have lost them by mistake.
func (r *Runner) logLosses(ctx context.Context) {
	var losses []slog.Attr
	for _, a := range store.Abilities(r.store.given()) {
		if !a.Has {
			losses = append(losses, slog.String(a.Interface, a.Loss))
		}
	}
	if len(losses) > 0 {
		r.o.Logger.LogAttrs(ctx, slog.LevelWarn, lineLosses, slog.GroupAttrs("lost", losses...))
	}
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
