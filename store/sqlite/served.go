package sqlite

import (
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// Serve is [store.Engine].Serve.
func (s *Store) Serve(ctx context.Context, services []store.Served) ([]string, error) {
	const op = "record who serves"
	names := make([]string, len(services))
	unknown := false
	err := s.read(ctx, op, func(ctx context.Context, t *session) error {
		unknown = false
		for i, want := range services {
			known, err := t.served(ctx, want, &names[i])
			if err != nil {
				return err
			}
			unknown = unknown || !known
		}
		return nil
	})
	if err != nil || !unknown {
		return names, err
	}
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		var database string
		if err := t.ledger(ctx, &database); err != nil {
			return err
		}
		for i, want := range services {
			if err := t.serve(ctx, want, database, &names[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// served reads the recorded name.
func (t *session) served(ctx context.Context, want store.Served, name *string) (known bool, err error) {
	err = t.get(ctx, name, sqlServed, string(want.Service))
	if noRows(err) {
		return false, nil
	}
	return err == nil, err
}

// serve records the ledger of a service, where none is recorded.
func (t *session) serve(ctx context.Context, want store.Served, database string, name *string) error {
	if known, err := t.served(ctx, want, name); err != nil || known {
		return err
	}
	var attempted bool
	if err := t.get(ctx, &attempted, sqlAttemptedService, string(want.Service), string(want.Service), store.ServedReach); err != nil {
		return err
	}
	*name = store.Serving(want.Ledger, database, attempted)
	if want.Ledger == "" || *name == "" {
		return nil
	}
	_, err := t.exec(ctx, sqlServe, string(want.Service), *name)
	return err
}

// KeepTraits is [store.Engine].KeepTraits.
func (s *Store) KeepTraits(ctx context.Context, name, traits, seen string) (string, error) {
	const op = "keep a ledger's traits"
	var kept string
	err := s.read(ctx, op, func(ctx context.Context, t *session) error { return t.traits(ctx, name, &kept) })
	if err != nil || traits == "" || kept != "" && kept != seen {
		return kept, err
	}
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		if _, err := t.exec(ctx, sqlKeepTraits, name, traits, seen); err != nil {
			return err
		}
		return t.traits(ctx, name, &kept)
	})
	if err != nil {
		return "", err
	}
	return kept, nil
}

func (t *session) traits(ctx context.Context, name string, kept *string) error {
	*kept = ""
	if err := t.get(ctx, kept, sqlTraits, name); err != nil && !noRows(err) {
		return err
	}
	return nil
}
