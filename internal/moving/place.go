package moving

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// place moves the tables of the new server into their schema. From now on the new server serves.
func (m *Move) place(ctx context.Context, f facts) error {
	s := m.new
	return s.at(ctx, f.new, func(tx pgx.Tx) error {
		list, err := relations(ctx, tx, s.arriving())
		if err != nil {
			return err
		}
		if err := shift(ctx, tx, list, s.arriving(), s.schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DROP SCHEMA `+pgx.Identifier{s.arriving()}.Sanitize()); err != nil {
			return err
		}
		if err := s.setNote(ctx, tx, ""); err != nil {
			return err
		}
		return s.setMark(ctx, tx, arrived)
	})
}

// unmark removes the mark.
func (s *side) unmark(ctx context.Context, at *mark) error {
	return s.at(ctx, at, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DROP TABLE `+s.mark())
		return err
	})
}
