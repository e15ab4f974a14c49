package postgres

import "context"

// adding is tx for calls that give out order keys: see beginAdd.
func (s *Store) adding(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if s.checked.Load() == nil {
		if err := s.tx(ctx, op, func(context.Context, *session) error { return nil }); err != nil {
			return err
		}
	}
	return s.txAs(ctx, op, s.sql(beginAdd), do)
}
