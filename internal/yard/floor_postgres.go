package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	pgxdriver "github.com/jackc/pgx/v5"
)

// One table holds the columns that never change. The other holds the columns that do: it is narrow
// and leaves room in its pages for new versions of its rows. The floor finds states by a number
// that grows.
var floorSchema = []string{
	`CREATE SCHEMA floor`,
	`CREATE TABLE floor.payloads (seq bigint PRIMARY KEY, payload bytea NOT NULL)`,
	`CREATE TABLE floor.states (seq bigint PRIMARY KEY, id text NOT NULL, lane text NOT NULL, state smallint NOT NULL DEFAULT 0) WITH (fillfactor = 50)`,
}

const (
	floorClaimSQL = `WITH next AS (
	SELECT seq FROM floor.states WHERE seq > $1 AND state = 0 ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED
), claimed AS (
	UPDATE floor.states s SET state = 1 FROM next WHERE s.seq = next.seq RETURNING s.seq, s.id, s.lane
) SELECT c.seq, c.id, c.lane, p.payload FROM claimed c JOIN floor.payloads p ON p.seq = c.seq`
	floorRecordSQL = `UPDATE floor.states SET state = $2 WHERE seq = ANY($1)`
)

// floorPostgres returns the floor's tables in PostgreSQL, with a connection for each step.
func floorPostgres(ctx context.Context, d *database) (*floorTables, error) {
	if err := d.exec(ctx, floorSchema...); err != nil {
		return nil, err
	}
	config, err := d.pgxConfig()
	if err != nil {
		return nil, err
	}
	var conns [4]*pgxdriver.Conn
	for i := range conns {
		if conns[i], err = pgxdriver.ConnectConfig(ctx, config); err != nil {
			return nil, err
		}
	}
	record := func(c *pgxdriver.Conn, state int16) func([]*floorRow) {
		return func(rows []*floorRow) {
			seqs := make([]int64, len(rows))
			for i, x := range rows {
				seqs[i] = x.seq
			}
			tag, err := c.Exec(ctx, floorRecordSQL, seqs, state)
			panicOnError(err)
			if int(tag.RowsAffected()) != len(rows) {
				panicOnError(fmt.Errorf("recorded %d of %d", tag.RowsAffected(), len(rows)))
			}
		}
	}
	return &floorTables{
		add:       func(rows []floorRow) { floorAdd(ctx, conns[0], rows) },
		claim:     func(after int64) []*floorRow { return floorClaimRows(ctx, conns[1], after) },
		accepted:  record(conns[2], 2),
		committed: record(conns[3], 3),
		countFinal: func() (n int) {
			panicOnError(conns[0].QueryRow(ctx, `SELECT count(*) FROM floor.states WHERE state = 3`).Scan(&n))
			return n
		},
		close: func() {
			for _, c := range conns {
				_ = c.Close(ctx) // closed with the process
			}
		},
	}, nil
}

func floorAdd(ctx context.Context, c *pgxdriver.Conn, rows []floorRow) {
	panicOnError(pgxdriver.BeginFunc(ctx, c, func(tx pgxdriver.Tx) error {
		_, err := tx.CopyFrom(ctx, pgxdriver.Identifier{"floor", "payloads"}, []string{"seq", "payload"},
			pgxdriver.CopyFromSlice(len(rows), func(i int) ([]any, error) { return []any{rows[i].seq, rows[i].payload}, nil }))
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgxdriver.Identifier{"floor", "states"}, []string{"seq", "id", "lane"},
			pgxdriver.CopyFromSlice(len(rows), func(i int) ([]any, error) { return []any{rows[i].seq, rows[i].id, rows[i].lane}, nil }))
		return err
	}))
}

func floorClaimRows(ctx context.Context, c *pgxdriver.Conn, after int64) []*floorRow {
	rows, err := c.Query(ctx, floorClaimSQL, after, floorRows)
	panicOnError(err)
	defer rows.Close()
	claimed := make([]*floorRow, 0, floorRows)
	for rows.Next() {
		v := rows.RawValues() // the payload comes from the database, not from memory
		claimed = append(claimed, &floorRow{int64(binary.BigEndian.Uint64(v[0])), string(v[1]), string(v[2]), bytes.Clone(v[3])})
	}
	panicOnError(rows.Err())
	return claimed
}
