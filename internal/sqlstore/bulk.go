package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// AddBulk is [store.Store].AddBulk.
func (s *Store) AddBulk(ctx context.Context, token, text string, parts []string, forget time.Duration) (b store.Bulk, err error) {
	const op = "keep a bulk action"
	if err := store.ValidBulkToken(token); err != nil {
		return b, s.d.Wrap(op, err)
	}
	err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		if old := now - int64(forget/time.Microsecond); forget > 0 {
			for _, statement := range []string{sqlForgetBulkParts, sqlForgetBulks} {
				if _, err := t.Exec(ctx, statement, old); err != nil {
					return err
				}
			}
		}
		n, err := t.Exec(ctx, sqlAddBulk, token, text, now)
		if err != nil {
			return err
		}
		for i := 0; n > 0 && i < len(parts); i++ {
			if _, err := t.Exec(ctx, sqlAddBulkPart, token, int64(i), parts[i]); err != nil {
				return err
			}
		}
		b, err = getBulk(ctx, t, token)
		return err
	})
	return b, err
}

// SetBulk is [store.Store].SetBulk.
func (s *Store) SetBulk(ctx context.Context, token string, version int64, text string, part *store.BulkPart) (b store.Bulk, err error) {
	err = s.d.Write(ctx, "change a bulk action", func(ctx context.Context, t Tx) error {
		if !isToken(token) {
			return noBulk(token)
		}
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		n, err := t.Exec(ctx, sqlSetBulk, token, version, text, now)
		if err != nil {
			return err
		}
		if b, err = getBulk(ctx, t, token); err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: bulk action %s", batch.ErrMovedOn, token)
		}
		if part == nil {
			return nil
		}
		n, err = t.Exec(ctx, sqlSetBulkPart, token, int64(part.Place), part.Text)
		if err == nil && n == 0 {
			err = noBulk(token)
		}
		return err
	})
	if err != nil {
		return store.Bulk{}, err
	}
	return b, nil
}

// GetBulk is [store.Store].GetBulk.
func (s *Store) GetBulk(ctx context.Context, token string) (b store.Bulk, err error) {
	err = s.d.Read(ctx, "read a bulk action", func(ctx context.Context, t Tx) error {
		if !isToken(token) {
			return noBulk(token)
		}
		b, err = getBulk(ctx, t, token)
		return err
	})
	return b, err
}

// GetBulkPart is [store.Store].GetBulkPart.
func (s *Store) GetBulkPart(ctx context.Context, token string, place int) (text string, err error) {
	err = s.d.Read(ctx, "read a part of a bulk action", func(ctx context.Context, t Tx) (err error) {
		found := false
		if isToken(token) {
			text, found, err = Get[string](ctx, t, sqlBulkPart, token, int64(place))
		}
		if err == nil && !found {
			err = noBulk(token)
		}
		return err
	})
	return text, err
}

// ListBulks is [store.Store].ListBulks.
func (s *Store) ListBulks(ctx context.Context, limit int) (all []store.Bulk, err error) {
	err = s.d.Read(ctx, "list bulk actions", func(ctx context.Context, t Tx) (err error) {
		all, err = bulks(ctx, t, sqlBulks, int64(min(max(0, limit), store.MaxBulks)))
		return err
	})
	return all, err
}

func getBulk(ctx context.Context, t Tx, token string) (store.Bulk, error) {
	found, err := bulks(ctx, t, sqlBulk, token)
	if err == nil && len(found) == 0 {
		err = noBulk(token)
	}
	if err != nil {
		return store.Bulk{}, err
	}
	return found[0], nil
}

func bulks(ctx context.Context, t Tx, statement string, args ...any) (all []store.Bulk, err error) {
	type row struct {
		Token   string `db:"token"`
		Version int64  `db:"version"`
		Begun   int64  `db:"begun_at"`
		Changed int64  `db:"changed_at"`
		Text    string `db:"detail"`
	}
	err = Each(ctx, t, func(r *row) error {
		all = append(all, store.Bulk{Token: r.Token, Version: r.Version, Begun: FromMicro(r.Begun), Changed: FromMicro(r.Changed), Text: r.Text})
		return nil
	}, statement, args...)
	return all, err
}

func noBulk(token string) error {
	return fmt.Errorf("%w: bulk action %s", batch.ErrNotFound, batch.Excerpt(token, 64))
}

// isToken reports whether a text can be a token. The database gets no other text.
func isToken(token string) bool { return store.ValidBulkToken(token) == nil }
