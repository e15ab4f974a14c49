package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// textCols is a row of the table of texts, or the clock if its version is 0.
type textCols struct {
	Name    string `db:"name"`
	Version int64  `db:"version"`
	Begun   int64  `db:"begun_at"`
	Changed int64  `db:"changed_at"`
	Body    string `db:"body"`
	Now     int64  `db:"now"`
}

func (c *textCols) text(kind store.TextKind) store.Text {
	return store.Text{Kind: kind, Name: c.Name, Version: c.Version, Begun: FromMicro(c.Begun), Changed: FromMicro(c.Changed), Body: c.Body}
}

// foundTexts are the texts and the clock that a statement finds.
type foundTexts struct {
	texts  []store.Text
	readAt time.Time
}

func (s *Store) readTextsWith(ctx context.Context, op string, kind store.TextKind, statement string, args func(t Tx) []any) (foundTexts, error) {
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) (found foundTexts, err error) {
		return found, Each(ctx, t, func(c *textCols) error {
			if c.Version == 0 {
				found.readAt = FromMicro(c.Now)
			} else {
				found.texts = append(found.texts, c.text(kind))
			}
			return nil
		}, statement, args(t)...)
	})
}

// ReadTexts is [store.Store].ReadTexts.
func (s *Store) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	const op = "read texts"
	if err := store.ValidTextNames(kind, names...); err != nil {
		return nil, time.Time{}, s.driver.Wrap(op, err)
	}
	found, err := s.readTextsWith(ctx, op, kind, sqlTexts, func(t Tx) []any { return []any{string(kind), textArray(t, names)} })
	if err != nil {
		return nil, time.Time{}, err
	}
	kept := make(map[string]store.Text, len(found.texts))
	for _, t := range found.texts {
		kept[t.Name] = t
	}
	all := make([]store.Text, len(names))
	for i, name := range names {
		t, is := kept[name]
		if !is {
			t = store.Text{Kind: kind, Name: name}
		}
		all[i] = t
	}
	return all, found.readAt, nil
}

// ListTexts is [store.Store].ListTexts.
func (s *Store) ListTexts(ctx context.Context, q store.TextsQuery) ([]store.Text, time.Time, error) {
	const op = "list texts"
	if err := store.ValidTextNames(q.Kind); err != nil {
		return nil, time.Time{}, s.driver.Wrap(op, err)
	}
	found, err := s.readTextsWith(ctx, op, q.Kind, sqlListTexts, func(Tx) []any {
		return []any{string(q.Kind), max(0, q.Unchanged).Microseconds(), int64(max(0, q.Limit))}
	})
	slices.SortFunc(found.texts, func(a, b store.Text) int { return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(a.Name, b.Name)) })
	return found.texts, found.readAt, err
}

// errTextVersion means that a text does not have the version that the caller saw.
var errTextVersion = errors.New("a text has another version")

// SwapTexts is [store.Store].SwapTexts. It writes in a fixed order, so that no two calls wait for
// each other.
func (s *Store) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	const op = "keep texts"
	if err := store.ValidTexts(all); err != nil {
		return false, s.driver.Wrap(op, err)
	}
	if len(all) == 0 {
		return true, nil
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b store.Text) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	err := s.driver.Write(ctx, op, func(ctx context.Context, t Tx) error {
		for rest := all; len(rest) > 0; {
			n := 1
			if rest[0].Version == 0 { // the new texts of one kind are written by one statement
				for n < len(rest) && rest[n].Version == 0 && rest[n].Kind == rest[0].Kind {
					n++
				}
			}
			did, err := swapTexts(ctx, t, rest[:n])
			if err == nil && did != int64(n) {
				err = errTextVersion
			}
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	if errors.Is(err, errTextVersion) {
		return false, nil
	}
	return err == nil, err
}

// swapTexts writes one text, or several new texts of one kind. It returns the number of texts
// written.
func swapTexts(ctx context.Context, t Tx, all []store.Text) (int64, error) {
	kind := string(all[0].Kind)
	switch one := all[0]; {
	case one.Version == 0:
		return t.Exec(ctx, sqlAddTexts, kind, t.Array(len(all), func(i int) any { return all[i].Name }), t.Array(len(all), func(i int) any { return all[i].Body }))
	case one.Body == "":
		return t.Exec(ctx, sqlRemoveText, kind, one.Name, one.Version)
	default:
		return t.Exec(ctx, sqlChangeText, kind, one.Name, one.Version, one.Body)
	}
}

// readLedgers reads the recorded ledgers of services.
func readLedgers(ctx context.Context, t Tx, statement string, args ...any) (map[string]string, error) {
	type row struct {
		Service string `db:"name"`
		Ledger  string `db:"body"`
	}
	known := map[string]string{}
	return known, Each(ctx, t, func(r *row) error {
		known[r.Service] = r.Ledger
		return nil
	}, statement, args...)
}
