package postgres

import "context"

// addTransaction is tx for calls that assign order keys: see beginAdd.
func (s *Store) addTransaction(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.ensureSchemaChecked(ctx, op); err != nil {
		return err
	}
	return s.txAs(ctx, op, s.sql(beginAdd), do)
}

// ensureSchemaChecked checks the schema, unless this process has checked it before.
func (s *Store) ensureSchemaChecked(ctx context.Context, op string) error {
	if s.schemaCheckedUntil.Load() != nil {
		return nil
	}
	return s.tx(ctx, op, func(context.Context, *session) error { return nil })
}
