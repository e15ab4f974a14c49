// Package texts keeps in a store the texts that the library has to read again later
// ([store.TextKind]).
package texts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that keeps texts.
type Store interface {
	ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error)
	ListTexts(ctx context.Context, q store.TextsQuery) ([]store.Text, time.Time, error)
	SwapTexts(ctx context.Context, texts ...store.Text) (bool, error)
}

// Read reads one text.
func Read(ctx context.Context, s Store, kind store.TextKind, name string) (store.Text, error) {
	found, _, err := s.ReadTexts(ctx, kind, name)
	if err != nil {
		return store.Text{}, err
	}
	return found[0], nil
}

// Ledger records the name of the ledger to which a store's batches belong, unless one is recorded,
// and returns the recorded name.
func Ledger(ctx context.Context, s Store, name string) (string, error) {
	names, err := keepOnce(ctx, s, store.TextLedger, []string{""}, []string{name})
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// Served is a service and the name of the ledger that is to serve it.
type Served struct {
	Service batch.ServiceID
	Ledger  string
}

// Serve records for each service the ledger that serves it, unless one is recorded, and returns
// the recorded names in the order of services. The name "" records nothing and only reads; the
// result is "" if no name is recorded.
func Serve(ctx context.Context, s Store, services []Served) ([]string, error) {
	names, ledgers := make([]string, len(services)), make([]string, len(services))
	for i, want := range services {
		names[i], ledgers[i] = string(want.Service), want.Ledger
	}
	return keepOnce(ctx, s, store.TextServed, names, ledgers)
}

// keepOnce writes each body that is not "" under its name, if no text is kept there, and returns
// the kept bodies.
func keepOnce(ctx context.Context, s Store, kind store.TextKind, names, bodies []string) ([]string, error) {
	for range len(names) + 1 {
		found, _, err := s.ReadTexts(ctx, kind, names...)
		if err != nil {
			return nil, err
		}
		kept := make([]string, len(names))
		var fresh []store.Text
		place := map[string]int{} // indexes in fresh
		for i, body := range bodies {
			t := found[i]
			kept[i] = t.Body
			if t.Version > 0 || body == "" {
				continue
			}
			at, twice := place[t.Name]
			if !twice {
				at = len(fresh)
				place[t.Name], fresh = at, append(fresh, store.Text{Kind: kind, Name: t.Name, Body: body})
			}
			kept[i] = fresh[at].Body
		}
		if len(fresh) == 0 {
			return kept, nil
		}
		if did, err := s.SwapTexts(ctx, fresh...); err != nil || did {
			return kept, err
		} // another call was faster for at least one of them
	}
	return nil, fmt.Errorf("%s of %d names: %w", kind, len(names), errBusy)
}

// Put writes a text over any that is kept, or removes it if t has no Body. It returns the version
// after that or, with an error, the last known version. t.Version is the version that the caller
// expects: if it is right, a read is saved.
func Put(ctx context.Context, s Store, t store.Text) (int64, error) {
	for range 4 {
		if t.Version > 0 || t.Body != "" {
			did, err := s.SwapTexts(ctx, t)
			switch {
			case err != nil:
				return t.Version, err
			case did && t.Body == "":
				return 0, nil
			case did:
				return t.Version + 1, nil
			}
		}
		now, err := Read(ctx, s, t.Kind, t.Name)
		if err != nil {
			return t.Version, err
		}
		if t.Version = now.Version; t.Version == 0 && t.Body == "" {
			return 0, nil
		}
	}
	return t.Version, fmt.Errorf("%s %s: %w", t.Kind, t.Name, errBusy)
}

// errBusy means that another process changed the text before each write.
var errBusy = errors.New("texts: another process was faster each time")
