package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // registers "sqlite3"
)

// floorSQLite returns the floor's tables in SQLite, with one connection, because SQLite has one
// writer.
func floorSQLite(ctx context.Context, d *database) (*floorTables, error) {
	path := filepath.Join(d.job.Dir, "floor.db")
	if err := removeSQLite(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_txlock=immediate&_synchronous=FULL")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	for _, s := range []string{
		`CREATE TABLE payloads (seq INTEGER PRIMARY KEY, payload BLOB NOT NULL)`,
		`CREATE TABLE states (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, lane TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0)`,
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	record := func(state int) func([]*floorRow) {
		return func(rows []*floorRow) {
			seqs := make([]int64, len(rows))
			for i, x := range rows {
				seqs[i] = x.seq
			}
			list, err := json.Marshal(seqs)
			panicOnError(err)
			done, err := db.ExecContext(ctx, `UPDATE states SET state = ? WHERE seq IN (SELECT value FROM json_each(?))`, state, string(list))
			panicOnError(err)
			n, err := done.RowsAffected()
			panicOnError(err)
			if int(n) != len(rows) {
				panicOnError(fmt.Errorf("recorded %d of %d", n, len(rows)))
			}
		}
	}
	return &floorTables{
		add:       func(rows []floorRow) { floorSQLiteAdd(ctx, db, rows) },
		claim:     func(after int64) []*floorRow { return floorSQLiteClaimRows(ctx, db, after) },
		accepted:  record(2),
		committed: record(3),
		countFinal: func() (n int) {
			panicOnError(db.QueryRowContext(ctx, `SELECT count(*) FROM states WHERE state = 3`).Scan(&n))
			return n
		},
		close: func() { _ = db.Close() }, // at the end of the process
	}, nil
}

func inSQLiteTx(ctx context.Context, db *sql.DB, do func(*sql.Tx)) {
	tx, err := db.BeginTx(ctx, nil)
	panicOnError(err)
	do(tx)
	panicOnError(tx.Commit())
}

func floorSQLiteAdd(ctx context.Context, db *sql.DB, rows []floorRow) {
	inSQLiteTx(ctx, db, func(tx *sql.Tx) {
		payload, err := tx.PrepareContext(ctx, `INSERT INTO payloads (seq, payload) VALUES (?, ?)`)
		panicOnError(err)
		defer payload.Close()
		state, err := tx.PrepareContext(ctx, `INSERT INTO states (seq, id, lane) VALUES (?, ?, ?)`)
		panicOnError(err)
		defer state.Close()
		for _, x := range rows {
			_, err := payload.ExecContext(ctx, x.seq, x.payload)
			panicOnError(err)
			_, err = state.ExecContext(ctx, x.seq, x.id, x.lane)
			panicOnError(err)
		}
	})
}

func floorSQLiteClaimRows(ctx context.Context, db *sql.DB, after int64) []*floorRow {
	claimed := make([]*floorRow, 0, floorRows)
	inSQLiteTx(ctx, db, func(tx *sql.Tx) {
		rows, err := tx.QueryContext(ctx, `SELECT s.seq, s.id, s.lane, p.payload FROM states s JOIN payloads p ON p.seq = s.seq
			WHERE s.seq > ? AND s.state = 0 ORDER BY s.seq LIMIT ?`, after, floorRows)
		panicOnError(err)
		defer rows.Close()
		for rows.Next() {
			x := &floorRow{}
			panicOnError(rows.Scan(&x.seq, &x.id, &x.lane, &x.payload))
			claimed = append(claimed, x)
		}
		panicOnError(rows.Err())
		if n := len(claimed); n > 0 {
			_, err := tx.ExecContext(ctx, `UPDATE states SET state = 1 WHERE seq > ? AND seq <= ? AND state = 0`, after, claimed[n-1].seq)
			panicOnError(err)
		}
	})
	return claimed
}
