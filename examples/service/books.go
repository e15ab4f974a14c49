package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

const createTable = `CREATE TABLE IF NOT EXISTS payments (id text PRIMARY KEY, recipient text NOT NULL, cents bigint NOT NULL, batch text NOT NULL)`

// postgresBooks keeps the books in the same database as the batches.
type postgresBooks struct {
	pool  *pgxpool.Pool
	store *native.Store
}

// Enter implements books.
func (b postgresBooks) Enter(ctx context.Context, p payment, id batch.ID, add func(store.Tx) error) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		const insert = `INSERT INTO payments VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`
		if _, err := tx.Exec(ctx, insert, p.ID, p.To, p.Cents, string(id)); err != nil {
			return err
		}
		var there string
		if err := tx.QueryRow(ctx, `SELECT batch FROM payments WHERE id = $1`, p.ID).Scan(&there); err != nil {
			return err
		}
		if there != string(id) {
			return errIDTaken
		}
		return add(b.store.Tx(tx)) // adding the same batch again changes nothing
	})
}

// Batch implements books.
func (b postgresBooks) Batch(ctx context.Context, payment string) (id batch.ID, err error) {
	err = b.pool.QueryRow(ctx, `SELECT batch FROM payments WHERE id = $1`, payment).Scan((*string)(&id))
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errMissing
	}
	return id, err
}
