package moving

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// markOldDatabase makes the mark of the old database.
func (m *Move) markOldDatabase(ctx context.Context, f facts) error {
	if err := m.checkBeforeMove(ctx, f); err != nil {
		return err
	}
	id := newID()
	err := m.old.inTransaction(ctx, func(tx pgx.Tx) error {
		return m.old.makeMark(ctx, tx, mark{Role: roleOld, MoveID: id, State: stateAnnounced}, "")
	})
	if err == nil {
		m.moveID = id
	}
	return err
}

// markNewDatabase makes the mark of the new database, before another process can make tables
// there.
func (m *Move) markNewDatabase(ctx context.Context, f facts) error {
	return m.new.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{m.new.schema}.Sanitize()); err != nil {
			return err
		}
		note := fmt.Sprintf("its tables are being moved here from %s (move %s), and have not arrived", m.old.displayName, f.oldMark.MoveID)
		if err := m.new.makeMark(ctx, tx, mark{Role: roleNew, MoveID: f.oldMark.MoveID, State: stateAnnounced, PlaceID: newID()}, note); err != nil {
			return err
		}
		found, err := tableExists(ctx, tx, m.new.quotedTable(m.new.schema, postgres.MigrationsTable))
		if err == nil && found {
			err = refuse("the new database has tables of a store in the schema already")
		}
		return err
	})
}

// writeDownPlace writes into the old database's mark to which database the rows go.
func (m *Move) writeDownPlace(ctx context.Context, f facts) error {
	return m.old.withMark(ctx, f.oldMark, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE `+m.old.markTable()+` SET place = $1`, f.newMark.PlaceID)
		return err
	})
}

// makeTables makes the tables in the new database, with the rights of the old tables.
func (m *Move) makeTables(ctx context.Context, f facts) error {
	o := m.options
	o.Schema = m.new.arrivingSchema()
	st, err := native.New(m.new.pool, &o)
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil {
		return err
	}
	rights, err := m.old.grants(ctx)
	if err != nil {
		return err
	}
	old, err := relations(ctx, m.old.pool, m.old.schema)
	if err != nil {
		return err
	}
	return m.new.withMark(ctx, f.newMark, func(tx pgx.Tx) error {
		list, err := relations(ctx, tx, m.new.arrivingSchema())
		if err != nil {
			return err
		}
		if err := checkSameShape(old, list); err != nil {
			return err
		}
		for _, g := range rights {
			on := pgx.Identifier{m.new.schema}.Sanitize()
			if g.Object != "" {
				if !containsName(list, g.Object) {
					continue
				}
				on = pgx.Identifier{m.new.arrivingSchema(), g.Object}.Sanitize()
			}
			to, option := "PUBLIC", ""
			if g.Role != nil {
				to = pgx.Identifier{*g.Role}.Sanitize()
			}
			if g.WithGrantOption {
				option = " WITH GRANT OPTION"
			}
			if _, err := tx.Exec(ctx, `GRANT `+g.Privilege+` ON `+g.Kind+` `+on+` TO `+to+option); err != nil {
				return err
			}
		}
		return m.new.setMark(ctx, tx, stateTablesMade)
	})
}

// relation is a table of the store, or a sequence of its own.
type relation struct {
	Name       string
	IsSequence bool
	Columns    []string // names of the columns that are copied
	Shape      string   // the columns and their types as a text
}

// relations lists the tables and sequences of a schema, without sequences that belong to a column.
func relations(ctx context.Context, q rowsQuerier, schema string) ([]relation, error) {
	rows, err := q.Query(ctx, `SELECT c.relname::text, c.relkind = 'S', coalesce(x.columns, '{}'), coalesce(x.shape, '')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL (
		SELECT array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE coalesce(pg_get_expr(d.adbin, d.adrelid), '') <> 'txid_current()') AS columns,
			string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attname) AS shape
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE c.relkind = 'r' AND a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) x
	WHERE n.nspname = $1 AND c.relkind IN ('r', 'S') AND NOT EXISTS (SELECT 1 FROM pg_depend d
		WHERE c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i'))
	ORDER BY c.relname COLLATE "C"`, schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []relation
	for rows.Next() {
		var r relation
		if err := rows.Scan(&r.Name, &r.IsSequence, &r.Columns, &r.Shape); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func containsName(list []relation, name string) bool {
	return slices.ContainsFunc(list, func(r relation) bool { return r.Name == name })
}

// moveToSchema moves the tables and sequences of a list to another schema. Objects that belong to
// a table move with it.
func moveToSchema(ctx context.Context, tx pgx.Tx, list []relation, from, to string) error {
	for _, r := range list {
		kind := "TABLE"
		if r.IsSequence {
			kind = "SEQUENCE"
		}
		if _, err := tx.Exec(ctx, `ALTER `+kind+` `+pgx.Identifier{from, r.Name}.Sanitize()+` SET SCHEMA `+pgx.Identifier{to}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// lockTables locks tables exclusively. It waits a short time for each table that another
// transaction has locked.
func lockTables(ctx context.Context, tx pgx.Tx, list []relation, schema string) error {
	var all []string
	for _, r := range list {
		if !r.IsSequence {
			all = append(all, pgx.Identifier{schema, r.Name}.Sanitize())
		}
	}
	_, err := tx.Exec(ctx, `LOCK TABLE `+strings.Join(all, ", ")+` IN ACCESS EXCLUSIVE MODE`)
	return err
}
