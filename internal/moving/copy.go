package moving

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/store/postgres"
)

// copyRows copies all rows, in one transaction on each server.
func (m *Move) copyRows(ctx context.Context, f facts) error {
	return m.new.withMark(ctx, f.newMark, func(to pgx.Tx) error {
		list, err := relations(ctx, to, m.new.arrivingSchema())
		if err != nil {
			return err
		}
		return m.old.readOnlySnapshot(ctx, func(from pgx.Tx) error {
			for _, r := range list {
				if err := m.copyRelation(ctx, from, to, r); err != nil {
					return fmt.Errorf("%s: %w", r.Name, err)
				}
			}
			return m.new.setMark(ctx, to, stateRowsCopied)
		})
	})
}

func (m *Move) copyRelation(ctx context.Context, from, to pgx.Tx, r relation) error {
	source, target := pgx.Identifier{m.old.movedSchema(), r.Name}.Sanitize(), pgx.Identifier{m.new.arrivingSchema(), r.Name}.Sanitize()
	if r.IsSequence {
		var last int64
		var called bool
		if err := from.QueryRow(ctx, `SELECT last_value, is_called FROM `+source).Scan(&last, &called); err != nil {
			return err
		}
		_, err := to.Exec(ctx, `SELECT setval($1::text::regclass, $2, $3)`, target, last, called)
		return err
	}
	if m.isMigrationsTable(r) {
		return nil
	}
	if _, err := to.Exec(ctx, `TRUNCATE `+target); err != nil {
		return err
	}
	columns := columnsOf(r)
	read, write := io.Pipe()
	var work errgroup.Group
	work.Go(func() error {
		_, err := from.Conn().PgConn().CopyTo(ctx, write, `COPY `+source+` (`+columns+`) TO STDOUT (FORMAT binary)`)
		_ = write.CloseWithError(err) // with a nil error the rows end; it returns nil
		return err
	})
	work.Go(func() error {
		_, err := to.Conn().PgConn().CopyFrom(ctx, read, `COPY `+target+` (`+columns+`) FROM STDIN (FORMAT binary)`)
		_ = read.CloseWithError(err) // the other end stops, too; it returns nil
		return err
	})
	if err := work.Wait(); err != nil {
		return err
	}
	// Without statistics the server would choose bad plans until it collects them itself.
	_, err := to.Exec(ctx, `ANALYZE `+target)
	return err
}

// isMigrationsTable reports whether a table holds the record of the migrations, which Migrate
// itself writes on the new server.
func (m *Move) isMigrationsTable(r relation) bool {
	return r.Name == m.old.prefix+postgres.MigrationsTable
}

func columnsOf(r relation) string {
	all := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		all[i] = pgx.Identifier{c}.Sanitize()
	}
	return strings.Join(all, ", ")
}

// readOnlySnapshot runs do in a read-only transaction that sees one snapshot.
func (s *side) readOnlySnapshot(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, transactionSettings); err != nil {
			return err
		}
		return do(tx)
	})
}
