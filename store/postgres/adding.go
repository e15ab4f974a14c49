package postgres

import "context"

// adding is tx for calls that give out order keys: see beginAdd.
func (s *Store) adding(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.looked(ctx, op); err != nil {
		return err
	}
	return s.txAs(ctx, op, s.sql(beginAdd), do)
}

// looked makes sure that somebody has looked at the schema.
func (s *Store) looked(ctx context.Context, op string) error {
	if s.checked.Load() != nil {
		return nil
	}
	return s.tx(ctx, op, func(context.Context, *session) error { return nil })
}
