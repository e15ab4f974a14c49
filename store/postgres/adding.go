package postgres

import "context"

// adding is tx for what gives out order keys: see beginAdd. Where the server has no numbers
// of transactions there is none to take, and nobody remembers positions.
func (s *Store) adding(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if !s.checked.Load() {
		if err := s.tx(ctx, op, func(context.Context, *session) error { return nil }); err != nil {
			return err
		}
	}
	if !s.numbers.Load() {
		return s.tx(ctx, op, do)
	}
	return s.txAs(ctx, op, s.sql(beginAdd), do)
}
