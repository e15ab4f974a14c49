package moving

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// errStillUsed means that another transaction still works with the tables.
var errStillUsed = errors.New("still in use")

// renameTables takes the tables away from the users of the old server, once no claim may still be
// posting and each transaction that has used a table has ended.
func (m *Move) renameTables(ctx context.Context, f facts) error {
	list, err := relations(ctx, m.new.pool, m.new.arrivingSchema())
	if err != nil {
		return err
	}
	for {
		// The first look takes no lock, so Adds go on meanwhile.
		claims, err := m.old.countLiveClaims(ctx, m.old.pool)
		if err != nil {
			return err
		}
		if claims > 0 {
			if err := m.waitAndSay(ctx, fmt.Sprintf("waits for %d claims that may still be posting", claims)); err != nil {
				return err
			}
			continue
		}
		err = m.old.withMark(ctx, f.oldMark, func(tx pgx.Tx) error { return m.renameIfUnused(ctx, tx, list) })
		if !isLockError(err) {
			return err
		}
		holders, err := m.old.lockHolders(ctx, list)
		if err != nil {
			return err
		}
		if err := m.waitAndSay(ctx, "waits for transactions that have begun"+holders); err != nil {
			return err
		}
	}
}

// renameIfUnused is the transaction of rename.
func (m *Move) renameIfUnused(ctx context.Context, tx pgx.Tx, list []relation) error {
	s := m.old
	if err := lockTables(ctx, tx, list, s.schema); err != nil {
		return err
	}
	// With the locks held, each claim that began before the pause has ended, and is visible.
	var paused bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+s.quotedTable(s.schema, "controls")+` WHERE everything AND paused_at <> 0)`).Scan(&paused); err != nil {
		return err
	}
	if !paused {
		return errMovedOn // everything was resumed meanwhile
	}
	if claims, err := s.countLiveClaims(ctx, tx); err != nil {
		return err
	} else if claims > 0 {
		return errStillUsed
	}
	if _, err := tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{s.movedSchema()}.Sanitize()); err != nil {
		return err
	}
	if err := moveToSchema(ctx, tx, list, s.schema, s.movedSchema()); err != nil {
		return err
	}
	if err := s.setNote(ctx, tx, fmt.Sprintf("its tables are moved to %s (move %s)", m.new.displayName, m.moveID)); err != nil {
		return err
	}
	return s.setMark(ctx, tx, stateTablesMoved)
}

// countLiveClaims counts the claims that have not ended.
func (s *side) countLiveClaims(ctx context.Context, q querier) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM `+s.quotedTable(s.schema, "attempted_batches")+`
		WHERE state = $1 AND claim_expires > `+sqlstore.Clock+` AND claim_expires <> last_post`, int64(batch.Submitting)).Scan(&n)
	return n, err
}

// isLockError reports whether the error means that another transaction was in the way.
func isLockError(err error) bool {
	const lockNotAvailable, deadlock = "55P03", "40P01"
	if pg, is := errors.AsType[*pgconn.PgError](err); is {
		return pg.Code == lockNotAvailable || pg.Code == deadlock
	}
	return errors.Is(err, errStillUsed)
}

// lockHolders returns the transactions that use the tables, as a text.
func (s *side) lockHolders(ctx context.Context, list []relation) (string, error) {
	all := make([]string, len(list))
	for i, r := range list {
		all[i] = r.Name
	}
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction (pg_prepared_xacts)' ELSE
			format('process %s (%s, %s), for %s s', l.pid, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::bigint) END
		FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.granted AND l.locktype = 'relation' AND n.nspname = $1 AND c.relname = ANY ($2::text[])
			AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) ORDER BY 1 LIMIT 5`, s.schema, all)
	if err != nil {
		return "", err
	}
	who, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(who) == 0 {
		return "", err
	}
	return ": " + strings.Join(who, ", "), nil
}
