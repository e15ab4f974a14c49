package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Serve is [store.Engine].Serve.
func (s *Store) Serve(ctx context.Context, services []store.Served) (names []string, err error) {
	if len(services) == 0 {
		return nil, nil
	}
	err = s.tx(ctx, "record who serves", func(ctx context.Context, t *session) error {
		known, err := t.served(ctx, services)
		if err != nil {
			return err
		}
		names = make([]string, len(services))
		var missing []store.Served
		for i, want := range services {
			if name, there := known[string(want.Service)]; there {
				names[i] = name
			} else {
				missing = append(missing, want)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if known, err = t.serve(ctx, missing); err != nil {
			return err
		}
		for i, want := range services {
			if names[i] == "" {
				names[i] = known[string(want.Service)]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// KeepTraits is [store.Engine].KeepTraits.
func (s *Store) KeepTraits(ctx context.Context, name, traits, seen string) (kept string, err error) {
	err = s.tx(ctx, "keep a ledger's traits", func(ctx context.Context, t *session) (err error) {
		kept, _, err = sqlstore.Get[string](ctx, t, sqlTraits, name)
		if err != nil || traits == "" || kept != "" && kept != seen {
			return err
		}
		if _, err := t.Exec(ctx, sqlKeepTraits, name, traits, seen); err != nil {
			return err
		}
		kept, _, err = sqlstore.Get[string](ctx, t, sqlTraits, name) // another call may have been faster
		return err
	})
	if err != nil {
		return "", err
	}
	return kept, nil
}

// served returns the recorded names.
func (t *session) served(ctx context.Context, services []store.Served) (map[string]string, error) {
	type row struct{ service, ledger string }
	rows, err := sqlstore.Query(ctx, t, func(r *row) []any { return []any{&r.service, &r.ledger} }, sqlServed,
		textArray(len(services), func(i int) string { return string(services[i].Service) }))
	if err != nil {
		return nil, err
	}
	known := make(map[string]string, len(rows))
	for _, r := range rows {
		known[r.service] = r.ledger
	}
	return known, nil
}

// serve records the ledgers of services that had none a moment ago, and returns the recorded
// names. It records in one order, so that no two calls wait for each other.
func (t *session) serve(ctx context.Context, services []store.Served) (map[string]string, error) {
	database, _, err := sqlstore.Get[string](ctx, t, sqlLedger)
	if err != nil {
		return nil, err
	}
	attempted, err := sqlstore.Query(ctx, t, sqlstore.Value[string], sqlAttemptedServices,
		textArray(len(services), func(i int) string { return string(services[i].Service) }), int64(store.ServedReach))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	var record []store.Served
	for _, want := range services {
		name := store.Serving(want.Ledger, database, slices.Contains(attempted, string(want.Service)))
		names[string(want.Service)] = name
		if want.Ledger != "" && name != "" {
			record = append(record, store.Served{Service: want.Service, Ledger: name})
		}
	}
	if len(record) == 0 {
		return names, nil
	}
	slices.SortFunc(record, func(a, b store.Served) int { return strings.Compare(string(a.Service), string(b.Service)) })
	if _, err := t.Exec(ctx, sqlServe, textArray(len(record), func(i int) string { return string(record[i].Service) }),
		textArray(len(record), func(i int) string { return record[i].Ledger })); err != nil {
		return nil, err
	}
	recorded, err := t.served(ctx, record) // another call may have been faster
	maps.Copy(names, recorded)
	return names, err
}
