package moving

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// canGoBack reports whether the old server was not given up yet.
func (f facts) canGoBack() bool {
	return f.old != nil && f.old.Role == roleOld && (f.old.State == announced || f.old.State == moved || f.old.State == returning) &&
		(f.new == nil || f.new.State != arrived)
}

// Back takes the move back: the old server serves as before. It may be interrupted and called
// again. If the new database is not known, what the move has made there stays, and nothing uses
// it.
func (m *Move) Back(ctx context.Context) error {
	f, err := m.look(ctx)
	if err != nil {
		return err
	}
	switch {
	case f.old == nil:
		return refuse("no move is under way")
	case f.new != nil && (f.new.Move != f.old.Move || f.new.Role != roleNew):
		return refuse("the move %s goes to another database than this", f.old.Move)
	case !f.canGoBack():
		return refuse("the old server was given up: the new one may have served already")
	}
	if f.old.State != returning {
		if err := m.giveBack(ctx, f); err != nil {
			return err
		}
		if f, err = m.look(ctx); err != nil {
			return err
		}
	}
	if f.new != nil {
		if err := m.clear(ctx, f); err != nil {
			return fmt.Errorf("the new database: %w", err)
		}
	}
	if ours(f.control, f.old.Move) {
		if err := m.old.resume(ctx, f); err != nil {
			return err
		}
	}
	return m.old.unmark(ctx, f.old)
}

// giveBack moves the tables back to the schema where users of the old server find them.
func (m *Move) giveBack(ctx context.Context, f facts) error {
	s := m.old
	return s.at(ctx, f.old, func(tx pgx.Tx) error {
		if f.old.State == moved {
			list, err := relations(ctx, tx, s.leaving())
			if err != nil {
				return err
			}
			if err := shift(ctx, tx, list, s.leaving(), s.schema); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DROP SCHEMA `+pgx.Identifier{s.leaving()}.Sanitize()); err != nil {
				return err
			}
			if err := s.setNote(ctx, tx, ""); err != nil {
				return err
			}
		}
		return s.setMark(ctx, tx, returning)
	})
}

// clear removes from the new database what the move has made there, except the empty schema.
func (m *Move) clear(ctx context.Context, f facts) error {
	s := m.new
	return s.at(ctx, f.new, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{s.arriving()}.Sanitize()+` CASCADE`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+s.mark())
		return err
	})
}
