package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/shards"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

type (
	shard    = shards.Shard[*pgxpool.Pool, *native.Store]
	shardSet = shards.Set[*pgxpool.Pool, *native.Store]
)

// shardPool opens a pool of connections to a server.
func shardPool(t *testing.T, dsn string) *pgxpool.Pool {
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// shardSchema returns a name for a schema, which is removed at the end of the test.
func shardSchema(t *testing.T, pool *pgxpool.Pool, name string) string {
	schema := fmt.Sprintf("shards_%s_%d", name, time.Now().UnixNano())
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
		assert.NoError(t, err)
	})
	return schema
}

// openShards creates and migrates n shards, distributed over these servers.
func openShards(t *testing.T, n int, pools ...*pgxpool.Pool) (list []shard, schemas []string) {
	for i := range n {
		pool := pools[i%len(pools)]
		schema := shardSchema(t, pool, fmt.Sprint("s", i))
		st, err := native.New(pool, &postgres.Options{Schema: schema, Shard: store.Shard{Set: "test", Number: i, Of: n}})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		require.NoError(t, st.Migrate(t.Context()), "again")
		list, schemas = append(list, shard{DB: pool, Store: st}), append(schemas, schema)
	}
	return list, schemas
}

func joinShards(t *testing.T, l dlt.Ledger, list []shard) *shardSet {
	set, err := shards.New(func(s shard) (*dltbatch.Runner, error) {
		return dltbatch.New(s.Store, l, &dltbatch.Options{PollInterval: 20 * time.Millisecond, ScanInterval: 100 * time.Millisecond})
	}, list...)
	require.NoError(t, err)
	return set
}

// With adders in forty lanes, in calls and in transactions of the application, on two shards of
// one server and on four of two servers, each batch takes effect once, and each lane stays in
// order. The set lists all batches.
func TestShards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shards, servers int }{{2, 1}, {4, 2}} {
		t.Run(fmt.Sprint(c.shards, " on ", c.servers), func(t *testing.T) {
			t.Parallel()
			pools := []*pgxpool.Pool{shardPool(t, pgtest.Start(t))}
			if c.servers == 2 {
				pools = append(pools, shardPool(t, pgtest.NewCluster(t).DSN("")))
			}
			list, schemas := openShards(t, c.shards, pools...)
			for i, one := range list {
				_, err := one.DB.Exec(t.Context(), `CREATE TABLE `+schemas[i]+`.transfers (id text PRIMARY KEY)`)
				require.NoError(t, err)
			}
			traits := memory.Unforgiving(10 * time.Millisecond)
			ledger := memory.New(&memory.Options{Traits: &traits, CommitAfter: 2 * time.Millisecond})
			set := joinShards(t, ledger, list)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- set.Run(ctx, func(number int, err error) { assert.NoError(t, err, number) }) }()
			order := map[batch.ServiceID][]batch.ID{}
			var mu sync.Mutex
			var adders errgroup.Group
			for l := range 40 {
				lane := fmt.Sprint("lane ", l)
				adders.Go(func() error {
					for i := range 15 {
						b := newBatch(lane, fmt.Sprint(lane, " ", i))
						add := func() error { return set.Add(ctx, b) }
						if i%3 == 2 {
							add = func() error { return shardTx(ctx, set, schemas, b) }
						}
						if err := add(); err != nil {
							return err
						}
						mu.Lock()
						order[b.Service] = append(order[b.Service], b.ID)
						mu.Unlock()
					}
					return nil
				})
			}
			require.NoError(t, adders.Wait())
			within, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			require.NoError(t, set.Idle(within))
			require.NoError(t, ledger.Verify(order))
			used := map[int]int{}
			for service, ids := range order {
				assert.Equal(t, ids, ledger.Log(service), service)
				used[shards.Number(service, c.shards)]++
				for _, id := range ids {
					key := batch.Key{Service: service, ID: id}
					rec, err := set.Await(within, key)
					require.NoError(t, err)
					assert.Equal(t, batch.Committed, rec.State)
				}
			}
			assert.Len(t, used, c.shards, "every shard has lanes")
			var transfers int
			for i, one := range list {
				var n int
				require.NoError(t, one.DB.QueryRow(ctx, `SELECT count(*) FROM `+schemas[i]+`.transfers`).Scan(&n))
				transfers += n
			}
			assert.Equal(t, 40*5, transfers)
			last := order["lane 7"][14]
			found, more, err := set.Find(ctx, store.FindQuery{ID: last})
			require.NoError(t, err)
			require.Len(t, found, 1)
			assert.False(t, more)
			assert.Equal(t, batch.ServiceID("lane 7"), found[0].Service)
			held, err := set.Of("lane 7").Runner.Pause(ctx, batch.Only("lane 7"), batch.By{Actor: "test"})
			require.NoError(t, err)
			require.NoError(t, set.Add(ctx, newBatch("lane 7", "held")))
			_, err = set.Get(ctx, batch.Key{Service: "lane 7", ID: "held"})
			require.NoError(t, err)
			_, err = set.Of("lane 7").Runner.Resume(ctx, held, batch.By{Actor: "test"})
			require.NoError(t, err)
			require.NoError(t, set.Idle(within))
			stop()
			require.NoError(t, <-done)
		})
	}
}

// shardTx adds a batch and a row of the application in one transaction in the lane's shard.
func shardTx(ctx context.Context, set *shardSet, schemas []string, b batch.Batch) error {
	s := set.Of(b.Service)
	err := driverpgx.BeginFunc(ctx, s.DB, func(tx driverpgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO `+schemas[s.Store.Shard().Number]+`.transfers VALUES ($1)`, string(b.ID)); err != nil {
			return err
		}
		return s.Runner.AddTx(ctx, s.Store.Tx(tx), b)
	})
	set.Wake(b.Service)
	return err
}

// laneOf returns a lane that belongs to a shard.
func laneOf(number, of int) batch.ServiceID {
	for i := 0; ; i++ {
		if lane := batch.ServiceID(fmt.Sprint("lane ", i)); shards.Number(lane, of) == number {
			return lane
		}
	}
}

// A schema that is opened as another shard is refused by every call. A lane of another shard is
// refused by every Add, also in a process that does not know of shards.
func TestOtherShardsAreRefused(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), shardPool(t, pgtest.Start(t))
	list, schemas := openShards(t, 2, pool)
	mine, other := laneOf(0, 2), laneOf(1, 2)
	as := func(schema string, s store.Shard) *native.Store {
		st, err := native.New(pool, &postgres.Options{Schema: schema, Shard: s})
		require.NoError(t, err)
		return st
	}
	for _, wrong := range []store.Shard{{Set: "test", Number: 1, Of: 2}, {Set: "test", Number: 0, Of: 4}, {Set: "prod", Number: 0, Of: 2}} {
		st := as(schemas[0], wrong)
		require.ErrorIs(t, st.Migrate(ctx), store.ErrOtherShard, wrong)
		require.ErrorIs(t, st.Add(ctx, newBatch(string(mine), "x")), store.ErrOtherShard, wrong)
		_, err := st.Get(ctx, batch.Key{Service: mine, ID: "x"})
		require.ErrorIs(t, err, store.ErrOtherShard, wrong)
		r, err := dltbatch.New(st, memory.New(nil), nil)
		require.NoError(t, err)
		require.ErrorIs(t, r.Run(ctx), store.ErrOtherShard, wrong)
	}
	plain := as(schemas[0], store.Shard{})
	for _, st := range []*native.Store{list[0].Store, plain} {
		err := st.Add(ctx, newBatch(string(mine), "a"), newBatch(string(other), "b"))
		require.ErrorIs(t, err, store.ErrOtherShard)
		require.ErrorContains(t, err, `belongs to shard 1 of 2, and this is shard 0 of the set "test"`)
		_, err = st.Get(ctx, batch.Key{Service: mine, ID: "a"})
		require.ErrorIs(t, err, batch.ErrNotFound, "nothing of the call is stored")
		require.NoError(t, driverpgx.BeginFunc(ctx, pool, func(tx driverpgx.Tx) error {
			require.ErrorIs(t, st.Tx(tx).Add(ctx, newBatch(string(other), "b")), store.ErrOtherShard)
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		}), "the transaction goes on")
	}
	for _, st := range []*native.Store{list[0].Store, plain, as(schemas[0], store.Shard{})} {
		by := batch.By{Actor: "test"}
		_, _, err := st.Steer(ctx, store.Steering{Scope: batch.Only(other), Action: batch.ActionPause, By: by})
		require.ErrorIs(t, err, store.ErrOtherShard, "a pause would hold up nothing")
		require.ErrorIs(t, st.AddOrders(ctx, order.Order{ID: "o", Party: other, Payload: []byte("x")}), store.ErrOtherShard)
		require.NoError(t, driverpgx.BeginFunc(ctx, pool, func(tx driverpgx.Tx) error {
			require.ErrorIs(t, st.AddOrdersTx(ctx, tx, order.Order{ID: "o", Party: other, Payload: []byte("x")}), store.ErrOtherShard)
			return nil
		}))
	}
	set := joinShards(t, memory.New(nil), list)
	err := set.Add(ctx, newBatch(string(mine), "a"), newBatch(string(other), "b"))
	var inputErr *batch.InputError
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "batches[1].Service", inputErr.Field)
	require.NoError(t, set.Add(ctx, newBatch(string(mine), "a"), newBatch(string(mine), "b")))

	used := shardSchema(t, pool, "used")
	st := as(used, store.Shard{})
	require.NoError(t, st.Migrate(ctx))
	require.NoError(t, st.Add(ctx, newBatch(string(other), "x")))
	require.ErrorIs(t, as(used, store.Shard{Set: "test", Number: 0, Of: 2}).Migrate(ctx), store.ErrOtherShard, "a schema with batches becomes no shard")
	used = shardSchema(t, pool, "orders")
	st = as(used, store.Shard{})
	require.NoError(t, st.Migrate(ctx))
	require.NoError(t, st.AddOrders(ctx, order.Order{ID: "o", Party: other, Payload: []byte("x")}))
	require.ErrorIs(t, as(used, store.Shard{Set: "test", Number: 0, Of: 2}).Migrate(ctx), store.ErrOtherShard, "nor one with orders")

	_, err = shards.New(func(shard) (*dltbatch.Runner, error) { return nil, errors.New("not called") }, list[1], list[0])
	require.ErrorAs(t, err, &inputErr, "out of order")
}

// Stores of shards in one database share one session for hints, and each gets its own hints. After
// the session is lost, they share a new one.
func TestShardsShareASession(t *testing.T) {
	t.Parallel()
	const n = 4
	ctx, app := t.Context(), fmt.Sprint("shards share ", time.Now().UnixNano())
	config, err := pgxpool.ParseConfig(pgtest.Start(t))
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["application_name"] = app
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	sessions := func() (n int) {
		require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN%'`, app).Scan(&n))
		return n
	}
	listen := native.ListenBeside(pool)
	var stores []*native.Store
	var mu sync.Mutex
	live, heard := make([]int, n), make([]int, n)
	hearing, stop := context.WithCancel(ctx)
	var hear sync.WaitGroup
	for i := range n {
		st, err := native.New(pool, &postgres.Options{Schema: shardSchema(t, pool, fmt.Sprint("l", i)), Listen: listen})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(ctx))
		stores = append(stores, st)
		count := func(of []int) { mu.Lock(); defer mu.Unlock(); of[i]++ }
		hear.Go(func() {
			for ; hearing.Err() == nil; time.Sleep(50 * time.Millisecond) {
				_ = st.Hear(hearing, store.Listener{
					ID: "me", Wants: store.TopicLanes, Live: func(string) { count(live) },
					Heard: func(h store.Hint) {
						if h.From == "other" {
							count(heard)
						}
					},
				})
			}
		})
	}
	all := func(of []int, at int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(of, func(n int) bool { return n < at })
		}
	}
	waitFor(t, all(live, 1))
	assert.Equal(t, 1, sessions())
	require.NoError(t, stores[1].Tell(ctx, store.Hint{From: "other", WholeTopics: store.TopicLanes}))
	waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return heard[1] == 1 })
	assert.Equal(t, []int{0, 1, 0, 0}, heard)
	_, err = pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN%'`, app)
	require.NoError(t, err)
	waitFor(t, all(live, 2))
	assert.Equal(t, 1, sessions())
	stop()
	hear.Wait()
	waitFor(t, func() bool { return sessions() == 0 })
}

// A process that treats an empty schema as no shard adds to it while another process makes it a
// shard: either the batch is first, and the schema does not become a shard, or the batch is
// refused.
func TestASchemaBecomesAShardBesideAnAdd(t *testing.T) {
	t.Parallel()
	pool := shardPool(t, pgtest.Start(t))
	own := store.Shard{Set: "test", Number: 0, Of: 2}
	lane := batch.ServiceID("a")
	for own.Has(lane) == nil {
		lane += "a"
	}
	open := func(schema string, s store.Shard) *native.Store {
		st, err := native.New(pool, &postgres.Options{Schema: schema, Shard: s})
		require.NoError(t, err)
		return st
	}
	add := func(st *native.Store) error { return st.Add(t.Context(), newBatch(string(lane), "x")) }
	t.Run("the shard is first", func(t *testing.T) {
		schema := shardSchema(t, pool, "first")
		none, shard := open(schema, store.Shard{}), open(schema, own)
		require.NoError(t, none.Migrate(t.Context()))
		_, err := none.Get(t.Context(), batch.Key{Service: lane, ID: "x"}) // the store has read that the schema is no shard
		require.ErrorIs(t, err, batch.ErrNotFound)
		require.NoError(t, shard.Migrate(t.Context()))
		require.ErrorIs(t, add(none), store.ErrOtherShard)
		require.ErrorIs(t, none.AddOrders(t.Context(), order.Order{ID: "o", Party: lane, Payload: []byte("x")}), store.ErrOtherShard)
	})
	t.Run("the Add is first", func(t *testing.T) {
		schema := shardSchema(t, pool, "second")
		none, shard := open(schema, store.Shard{}), open(schema, own)
		require.NoError(t, none.Migrate(t.Context()))
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(t.Context()) }() // otherwise the schema could not be removed
		require.NoError(t, none.Tx(tx).Add(t.Context(), newBatch(string(lane), "x")))
		migrated := make(chan error, 1)
		go func() { migrated <- shard.Migrate(t.Context()) }()
		select {
		case err := <-migrated:
			require.Fail(t, "the schema became a shard beside an Add under way", "%v", err)
		case <-time.After(300 * time.Millisecond):
		}
		require.NoError(t, tx.Commit(t.Context()))
		require.ErrorIs(t, <-migrated, store.ErrOtherShard)
	})
}
