package moving

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// state is the progress of a move in one of the two databases.
type state string

// States of a mark, in their order. Back leads from each state before gone to returning.
const (
	announced state = "announced" // both databases: this schema takes part in a move
	ready     state = "ready"     // new database: the tables are made, and empty
	moved     state = "moved"     // old database: the tables are in NAME_moved
	copied    state = "copied"    // new database: the tables have the rows
	compared  state = "compared"  // new database: its rows are those of the old server
	gone      state = "gone"      // old database: the old server is given up
	arrived   state = "arrived"   // new database: the tables are in place
	done      state = "done"      // old database: the new server serves
	returning state = "returning" // old database: the move is being taken back
)

// Roles of the two databases.
const (
	roleOld = "old"
	roleNew = "new"
)

// mark is the one row of the table that a database has while it takes part in a move.
type mark struct {
	Role  string
	Move  string // id of the move
	State state
	// Place names the database to which the rows go, so that they never go to two.
	Place string
}

// errMovedOn means that another process has changed the mark since it was read.
var errMovedOn = errors.New("another process changed the move meanwhile")

// names has the schema and the prefix, which are the same on both servers.
type names struct{ schema, prefix string }

func (n names) leaving() string  { return n.schema + "_moved" }
func (n names) arriving() string { return n.schema + "_arriving" }
func (n names) mark() string     { return n.in(n.schema, sqlstore.MovedTable) }

// in returns the quoted name of a table of the store in a schema.
func (n names) in(schema, table string) string {
	return pgx.Identifier{schema, n.prefix + table}.Sanitize()
}

// querier is a pool, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// exists reports whether there is a table with that quoted name.
func exists(ctx context.Context, q querier, name string) (found bool, err error) {
	err = q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&found)
	return found, err
}

// readMark returns the mark, or nil if there is none.
func (n names) readMark(ctx context.Context, q querier) (*mark, error) {
	found, err := exists(ctx, q, n.mark())
	if err != nil || !found {
		return nil, err
	}
	return n.scanMark(ctx, q, "")
}

func (n names) scanMark(ctx context.Context, q querier, lock string) (*mark, error) {
	var m mark
	err := q.QueryRow(ctx, `SELECT role, move, state, place FROM `+n.mark()+lock).Scan(&m.Role, &m.Move, &m.State, &m.Place)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", n.mark(), err)
	}
	return &m, nil
}

// makeMark makes the mark of a database without one.
func (n names) makeMark(ctx context.Context, tx pgx.Tx, m mark, note string) error {
	for _, s := range []string{
		`CREATE TABLE ` + n.mark() + ` (one boolean PRIMARY KEY DEFAULT true CHECK (one), role text NOT NULL, move text NOT NULL,
			state text NOT NULL, place text NOT NULL, note text NOT NULL, since timestamptz NOT NULL DEFAULT clock_timestamp())`,
		`GRANT SELECT ON ` + n.mark() + ` TO PUBLIC`, // each user of the store must be able to read the note
	} {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO `+n.mark()+` (role, move, state, place, note) VALUES ($1, $2, $3, $4, $5)`,
		m.Role, m.Move, string(m.State), m.Place, note)
	return err
}

// setMark changes the state of a mark.
func (n names) setMark(ctx context.Context, tx pgx.Tx, to state) error {
	_, err := tx.Exec(ctx, `UPDATE `+n.mark()+` SET state = $1, since = clock_timestamp()`, string(to))
	return err
}

// setNote sets the note with which all calls of stores are refused. An empty note lets them
// through.
func (n names) setNote(ctx context.Context, tx pgx.Tx, note string) error {
	_, err := tx.Exec(ctx, `UPDATE `+n.mark()+` SET note = $1`, note)
	return err
}

// locally sets the settings of a transaction of a move. Its commit is on the disk when it returns,
// and the time limits of the role, which may be too short, do not count.
const locally = `SELECT set_config('synchronous_commit', 'on', true), set_config('statement_timeout', '0', true),
	set_config('idle_in_transaction_session_timeout', '0', true), set_config('lock_timeout', '2s', true), set_config('bytea_output', 'hex', true)`

// begin runs do in a transaction.
func (s *side) begin(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, locally); err != nil {
			return err
		}
		return do(tx)
	})
}

// at runs do in a transaction that locks the database's mark, if the mark is still as it was read.
func (s *side) at(ctx context.Context, read *mark, do func(tx pgx.Tx) error) error {
	return s.begin(ctx, func(tx pgx.Tx) error {
		found, err := exists(ctx, tx, s.mark())
		if err != nil {
			return err
		}
		if !found {
			return errMovedOn
		}
		now, err := s.scanMark(ctx, tx, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		if *now != *read {
			return errMovedOn
		}
		return do(tx)
	})
}

// advance is at for a step that only changes the state of the mark.
func (s *side) advance(ctx context.Context, read *mark, to state) error {
	return s.at(ctx, read, func(tx pgx.Tx) error { return s.setMark(ctx, tx, to) })
}
