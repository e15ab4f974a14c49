package moving

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// canGoBack reports whether the old server was not given up yet.
func (f facts) canGoBack() bool {
	return f.oldMark != nil && f.oldMark.Role == roleOld && (f.oldMark.State == stateAnnounced || f.oldMark.State == stateTablesMoved || f.oldMark.State == stateTakenBack) &&
		(f.newMark == nil || f.newMark.State != stateTablesPlaced)
}

// Back takes the move back: the old server serves as before. It may be interrupted and called
// again. If the new database is not known, what the move has made there stays, and nothing uses
// it.
func (m *Move) Back(ctx context.Context) error {
	f, err := m.readFacts(ctx)
	if err != nil {
		return err
	}
	switch {
	case f.oldMark == nil:
		return refuse("no move is under way")
	case f.newMark != nil && (f.newMark.MoveID != f.oldMark.MoveID || f.newMark.Role != roleNew):
		return refuse("the move %s goes to another database than this", f.oldMark.MoveID)
	case !f.canGoBack():
		return refuse("the old server was given up: the new one may have served already")
	}
	if f.oldMark.State != stateTakenBack {
		if err := m.putTablesBack(ctx, f); err != nil {
			return err
		}
		if f, err = m.readFacts(ctx); err != nil {
			return err
		}
	}
	if f.newMark != nil {
		if err := m.clearNewDatabase(ctx, f); err != nil {
			return fmt.Errorf("the new database: %w", err)
		}
	}
	if isMovesPause(f.control, f.oldMark.MoveID) {
		if err := m.old.resumeOwnPause(ctx, f); err != nil {
			return err
		}
	}
	return m.old.unmark(ctx, f.oldMark)
}

// putTablesBack moves the tables back to the schema where users of the old server find them.
func (m *Move) putTablesBack(ctx context.Context, f facts) error {
	s := m.old
	return s.withMark(ctx, f.oldMark, func(tx pgx.Tx) error {
		if f.oldMark.State == stateTablesMoved {
			list, err := relations(ctx, tx, s.movedSchema())
			if err != nil {
				return err
			}
			if err := moveToSchema(ctx, tx, list, s.movedSchema(), s.schema); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DROP SCHEMA `+pgx.Identifier{s.movedSchema()}.Sanitize()); err != nil {
				return err
			}
			if err := s.setNote(ctx, tx, ""); err != nil {
				return err
			}
		}
		return s.setMark(ctx, tx, stateTakenBack)
	})
}

// clearNewDatabase removes from the new database what the move has made there, except the empty
// schema.
func (m *Move) clearNewDatabase(ctx context.Context, f facts) error {
	s := m.new
	return s.withMark(ctx, f.newMark, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{s.arrivingSchema()}.Sanitize()+` CASCADE`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+s.markTable())
		return err
	})
}
