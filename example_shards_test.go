package dltbatch_test //nolint:testableexamples // it needs PostgreSQL

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/shards"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// Shard is the type of the same name in docs/scale.md.
type Shard = shards.Shard[*pgxpool.Pool, *native.Store]

// addToShard has the snippets of docs/scale.md.
func addToShard(ctx context.Context, list []Shard, ledger dlt.Ledger, options *dltbatch.Options, b batch.Batch) error {
	set, err := shards.New(func(s Shard) (*dltbatch.Runner, error) { return dltbatch.New(s.Store, ledger, options) }, list...)
	if err != nil {
		return err
	}
	add := func() error {
		s := set.Of(b.Service)
		err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			// ... the application's own rows
			return s.Runner.AddTx(ctx, s.Store.Tx(tx), b)
		})
		set.Wake(b.Service)
		return err
	}
	return add()
}

// Sixteen schemas on one server share one connection pool, and one session that listens. The
// example is only compiled here.
func Example_shards() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://127.0.0.1/payments")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	listen := native.ListenBeside(pool) // one session that listens for all shards
	var list []Shard
	for i := range 16 {
		st, err := native.New(pool, &postgres.Options{Schema: fmt.Sprintf("pay_%02d", i), Listen: listen, Shard: store.Shard{Set: "pay", Number: i, Of: 16}})
		if err == nil {
			err = st.Migrate(ctx)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		list = append(list, Shard{DB: pool, Store: st})
	}
	var ledger dlt.Ledger // yours
	err = addToShard(ctx, list, ledger, nil, batch.Batch{Service: "customer 17", ID: "b-1", Payload: []byte("signed")})
	if err != nil {
		fmt.Println(err)
	}
}
