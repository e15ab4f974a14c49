package native_test //nolint:testableexamples // it needs a server

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// open opens a store over the pool that the rest of the service uses, too.
func open(ctx context.Context, pool *pgxpool.Pool) (*native.Store, error) {
	st, err := native.New(pool, &postgres.Options{Schema: "dltbatch"})
	if err != nil {
		return nil, err
	}
	return st, st.Migrate(ctx) // any number of processes may call Migrate at the same time
}

// ship changes a table of the service and adds a batch, both or neither.
func ship(ctx context.Context, pool *pgxpool.Pool, st *native.Store, runner *dltbatch.Runner, b batch.Batch) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit this does nothing
	if _, err := tx.Exec(ctx, "UPDATE shipments SET batch = $1 WHERE id = 7", string(b.ID)); err != nil {
		return err
	}
	if err := runner.AddTx(ctx, st.Tx(tx), b); err != nil { // checks the batch as Add does
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	runner.Wake(b.Service) // tells the processes that deliver; otherwise their next scan finds the batch
	return nil
}

// The example opens a store over a pool of pgx, and adds a batch in a transaction of pgx. It is
// not run here, because it needs a server.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://user:password@host/database?pool_max_conns=32")
	if err != nil {
		return
	}
	defer pool.Close()
	st, err := open(ctx, pool)
	if err != nil {
		return
	}
	runner, err := dltbatch.New(st, nil, nil) // a service also gives its ledger
	if err != nil {
		return
	}
	_ = ship(ctx, pool, st, runner, batch.Batch{Service: "shipments", ID: "a", Payload: []byte("x")})
}
