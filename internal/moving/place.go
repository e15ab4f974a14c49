package moving

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// placeTables moves the tables of the new server into their schema. From now on the new server
// serves.
func (m *Move) placeTables(ctx context.Context, f facts) error {
	s := m.new
	return s.withMark(ctx, f.newMark, func(tx pgx.Tx) error {
		list, err := relations(ctx, tx, s.arrivingSchema())
		if err != nil {
			return err
		}
		if err := moveToSchema(ctx, tx, list, s.arrivingSchema(), s.schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DROP SCHEMA `+pgx.Identifier{s.arrivingSchema()}.Sanitize()); err != nil {
			return err
		}
		if err := s.setNote(ctx, tx, ""); err != nil {
			return err
		}
		return s.setMark(ctx, tx, stateTablesPlaced)
	})
}

// unmark removes the mark.
func (s *side) unmark(ctx context.Context, at *mark) error {
	return s.withMark(ctx, at, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DROP TABLE `+s.markTable())
		return err
	})
}
