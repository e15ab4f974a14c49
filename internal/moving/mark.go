package moving

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// markState is the progress of a move in one of the two databases.
type markState string

// States of a mark, in their order. Back leads from each state before gone to returning.
const (
	stateAnnounced    markState = "announced" // both databases: this schema takes part in a move
	stateTablesMade   markState = "ready"     // new database: the tables are made, and empty
	stateTablesMoved  markState = "moved"     // old database: the tables are in NAME_moved
	stateRowsCopied   markState = "copied"    // new database: the tables have the rows
	stateRowsCompared markState = "compared"  // new database: its rows are those of the old server
	stateGivenUp      markState = "gone"      // old database: the old server is given up
	stateTablesPlaced markState = "arrived"   // new database: the tables are in place
	stateDone         markState = "done"      // old database: the new server serves
	stateTakenBack    markState = "returning" // old database: the move is being taken back
)

// Roles of the two databases.
const (
	roleOld = "old"
	roleNew = "new"
)

// mark is the only row of a table that a database has while it takes part in a move.
type mark struct {
	Role   string
	MoveID string // id of the move
	State  markState
	// PlaceID names the database to which the rows go, so that they never go to two.
	PlaceID string
}

// errMovedOn means that another process has changed the mark since it was read.
var errMovedOn = errors.New("another process changed the move meanwhile")

// schemaNames has the schema and the prefix, which are the same on both servers.
type schemaNames struct{ schema, prefix string }

func (n schemaNames) movedSchema() string    { return n.schema + "_moved" }
func (n schemaNames) arrivingSchema() string { return n.schema + "_arriving" }
func (n schemaNames) markTable() string      { return n.quotedTable(n.schema, sqlstore.MovedTable) }

// quotedTable returns the quoted name of a table of the store in a schema.
func (n schemaNames) quotedTable(schema, table string) string {
	return pgx.Identifier{schema, n.prefix + table}.Sanitize()
}

// querier is a pool, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// tableExists reports whether there is a table with that quoted name.
func tableExists(ctx context.Context, q querier, name string) (found bool, err error) {
	err = q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&found)
	return found, err
}

// readMark returns the mark, or nil if there is none.
func (n schemaNames) readMark(ctx context.Context, q querier) (*mark, error) {
	found, err := tableExists(ctx, q, n.markTable())
	if err != nil || !found {
		return nil, err
	}
	return n.scanMark(ctx, q, "")
}

func (n schemaNames) scanMark(ctx context.Context, q querier, lock string) (*mark, error) {
	var m mark
	err := q.QueryRow(ctx, `SELECT role, move, state, place FROM `+n.markTable()+lock).Scan(&m.Role, &m.MoveID, &m.State, &m.PlaceID)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", n.markTable(), err)
	}
	return &m, nil
}

// makeMark makes the mark of a database without one.
func (n schemaNames) makeMark(ctx context.Context, tx pgx.Tx, m mark, note string) error {
	for _, s := range []string{
		`CREATE TABLE ` + n.markTable() + ` (one boolean PRIMARY KEY DEFAULT true CHECK (one), role text NOT NULL, move text NOT NULL,
			state text NOT NULL, place text NOT NULL, note text NOT NULL, since timestamptz NOT NULL DEFAULT clock_timestamp())`,
		`GRANT SELECT ON ` + n.markTable() + ` TO PUBLIC`, // each user of the store must be able to read the note
	} {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO `+n.markTable()+` (role, move, state, place, note) VALUES ($1, $2, $3, $4, $5)`,
		m.Role, m.MoveID, string(m.State), m.PlaceID, note)
	return err
}

// setMark changes the state of a mark.
func (n schemaNames) setMark(ctx context.Context, tx pgx.Tx, to markState) error {
	_, err := tx.Exec(ctx, `UPDATE `+n.markTable()+` SET state = $1, since = clock_timestamp()`, string(to))
	return err
}

// setNote sets the note with which all calls of stores are refused. An empty note lets them
// through.
func (n schemaNames) setNote(ctx context.Context, tx pgx.Tx, note string) error {
	_, err := tx.Exec(ctx, `UPDATE `+n.markTable()+` SET note = $1`, note)
	return err
}

// transactionSettings sets the settings of a transaction of a move. Its commit is on the disk when
// it returns, and the time limits of the role, which may be too short, do not count.
const transactionSettings = `SELECT set_config('synchronous_commit', 'on', true), set_config('statement_timeout', '0', true),
	set_config('idle_in_transaction_session_timeout', '0', true), set_config('lock_timeout', '2s', true), set_config('bytea_output', 'hex', true)`

// inTransaction runs do in a transaction.
func (s *side) inTransaction(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, transactionSettings); err != nil {
			return err
		}
		return do(tx)
	})
}

// withMark runs do in a transaction that locks the database's mark, if the mark is still as it was
// read.
func (s *side) withMark(ctx context.Context, read *mark, do func(tx pgx.Tx) error) error {
	return s.inTransaction(ctx, func(tx pgx.Tx) error {
		found, err := tableExists(ctx, tx, s.markTable())
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

// setMarkState is at for a step that only changes the state of the mark.
func (s *side) setMarkState(ctx context.Context, read *mark, to markState) error {
	return s.withMark(ctx, read, func(tx pgx.Tx) error { return s.setMark(ctx, tx, to) })
}
