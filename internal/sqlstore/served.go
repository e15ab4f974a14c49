package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/store"
)

// Ledger is [store.Store].Ledger.
func (s *Store) Ledger(ctx context.Context, name string) (known string, err error) {
	return s.once(ctx, "read the ledger's name", sqlLedger, nil, func(known string) bool { return known == "" && name != "" },
		sqlSetLedger, name)
}

// KeepTraits is [store.Store].KeepTraits.
func (s *Store) KeepTraits(ctx context.Context, name, traits, seen string) (kept string, err error) {
	return s.once(ctx, "keep a ledger's traits", sqlTraits, []any{name}, func(kept string) bool { return traits != "" && (kept == "" || kept == seen) },
		sqlKeepTraits, name, traits, seen)
}

// once returns the kept text. If it wanted to write the text it reads it again afterwards:
// another call may have been faster.
func (s *Store) once(ctx context.Context, op, read string, of []any, wanted func(kept string) bool, write string, args ...any) (kept string, err error) {
	look := func(ctx context.Context, t Tx) (err error) {
		kept, _, err = Get[string](ctx, t, read, of...)
		return err
	}
	if err = s.d.Read(ctx, op, look); err == nil && wanted(kept) {
		err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
			if _, err := t.Exec(ctx, write, args...); err != nil {
				return err
			}
			return look(ctx, t)
		})
	}
	if err != nil {
		return "", err
	}
	return kept, nil
}

// Serve is [store.Store].Serve.
func (s *Store) Serve(ctx context.Context, services []store.Served) (names []string, err error) {
	const op = "record who serves"
	if len(services) == 0 {
		return nil, nil
	}
	var known map[string]string
	err = s.d.Read(ctx, op, func(ctx context.Context, t Tx) (err error) {
		known, err = served(ctx, t, services)
		return err
	})
	var record []store.Served
	for _, want := range services {
		if _, there := known[string(want.Service)]; !there && want.Ledger != "" {
			record = append(record, want)
		}
	}
	if err == nil && len(record) > 0 {
		err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error { return serve(ctx, t, record, known) })
	}
	if err != nil {
		return nil, err
	}
	names = make([]string, len(services))
	for i, want := range services {
		names[i] = known[string(want.Service)]
	}
	return names, nil
}

// served returns the recorded names.
func served(ctx context.Context, t Tx, services []store.Served) (map[string]string, error) {
	return ledgers(ctx, t, sqlServed, serviceNames(t, services))
}

// ledgers reads the recorded names of services.
func ledgers(ctx context.Context, t Tx, statement string, args ...any) (map[string]string, error) {
	type row struct {
		Service string `db:"service_id"`
		Ledger  string `db:"ledger"`
	}
	known := map[string]string{}
	return known, Each(ctx, t, func(r *row) error {
		known[r.Service] = r.Ledger
		return nil
	}, statement, args...)
}

func serviceNames(t Tx, services []store.Served) any {
	return t.Array(len(services), func(i int) any { return string(services[i].Service) })
}

// serve records the ledgers of services that have none, and adds the recorded names to known. It
// records in one order, so that no two calls wait for each other.
func serve(ctx context.Context, t Tx, record []store.Served, known map[string]string) error {
	slices.SortFunc(record, func(a, b store.Served) int { return strings.Compare(string(a.Service), string(b.Service)) })
	names := make([]string, len(record))
	for i, want := range record {
		names[i], known[string(want.Service)] = want.Ledger, want.Ledger
	}
	did, err := t.Exec(ctx, sqlServe, serviceNames(t, record), texts(t, names))
	if err != nil || int(did) == len(record) {
		return err
	}
	recorded, err := served(ctx, t, record) // another call was faster for some of them
	maps.Copy(known, recorded)
	return err
}
