package chaos

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// If a commit that waits for a synchronous standby is cancelled, it has happened on this server
// only, and PostgreSQL reports success with a warning. The store must not count this as success. A
// call that finds such a batch and writes nothing itself must not report it as stored either.
func TestCommitThatNobodyFollows(t *testing.T) {
	for _, name := range allDrivers {
		t.Run(name, func(t *testing.T) {
			cluster := pgtest.NewCluster(t)
			db, st := openAs(t, name, cluster.DSN(""))
			defer db.Close()
			require.NoError(t, st.Migrate(t.Context()))
			stored := batch.Batch{ID: "stored", Service: "s", Payload: []byte("p")}
			require.NoError(t, st.Add(t.Context(), stored))
			_, err := db.Exec(`CREATE TABLE probe (n int)`)
			require.NoError(t, err)
			setStandbys(t, db, "nobody")
			waitUntilCommitsHang(t, db)

			soon := func(do func(ctx context.Context) error) error {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				return do(ctx)
			}
			for range 2 { // the second call finds the batch, which is on this server only
				err := soon(func(ctx context.Context) error {
					return st.Add(ctx, batch.Batch{ID: "new", Service: "s", Payload: []byte("p")})
				})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
			for range 2 {
				held := true // by the claim before, until the server notices that its client has given up
				var err error
				for held {
					require.NoError(t, t.Context().Err())
					err = soon(func(ctx context.Context) error {
						claimed, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
							func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
						held = len(claimed.Locked) > 0
						return err
					})
				}
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
			setStandbys(t, db, "")
			require.NoError(t, st.Add(t.Context(), stored, batch.Batch{ID: "new", Service: "s", Payload: []byte("p")}))
		})
	}
}

// The same holds for a batch or an order that is known by the caller's key, under another id: a
// process that crashed may have made a new id for its retry.
func TestKeyThatNobodyFollows(t *testing.T) {
	cluster := pgtest.NewCluster(t)
	stores := map[string]*postgres.Store{}
	var db *sql.DB
	for _, name := range allDrivers {
		db, stores[name] = openAs(t, name, cluster.DSN(""))
		defer db.Close()
	}
	require.NoError(t, stores["native"].Migrate(t.Context()))
	_, err := db.Exec(`CREATE TABLE probe (n int)`)
	require.NoError(t, err)
	setStandbys(t, db, "nobody")
	waitUntilCommitsHang(t, db)

	waited := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, do(ctx), context.DeadlineExceeded, what)
	}
	isThere := func(query, id string) (yes bool) {
		t.Helper()
		require.NoError(t, db.QueryRowContext(t.Context(), query, id).Scan(&yes))
		return yes
	}
	for name, st := range stores {
		batchOf := func(id string) {
			waited(name+": a batch, "+id, func(ctx context.Context) error {
				return st.Add(ctx, batch.Batch{ID: batch.ID(id + name), Service: "s", Payload: []byte("p"), DataChangeID: name})
			})
		}
		orderOf := func(id string) {
			waited(name+": an order, "+id, func(ctx context.Context) error {
				return st.AddOrders(ctx, order.Order{ID: order.ID(id + name), Party: "p", Payload: []byte("p"), Key: name})
			})
		}
		// The first batch is stored, on this server only. On a busy machine the call's time may
		// end before its commit.
		for !isThere(`SELECT EXISTS (SELECT 1 FROM dltbatch.batches WHERE header_signature = $1)`, "first"+name) {
			batchOf("first")
		}
		for !isThere(`SELECT EXISTS (SELECT 1 FROM dltbatch.orders WHERE order_id = $1)`, "first"+name) {
			orderOf("first")
		}
		for _, id := range []string{"second", "third"} {
			batchOf(id)
			orderOf(id)
		}
	}
	setStandbys(t, db, "")
	for name, st := range stores {
		require.NoError(t, st.Add(t.Context(), batch.Batch{ID: "last", Service: "s", Payload: []byte("p"), DataChangeID: name}))
		_, err := st.Get(t.Context(), batch.Key{Service: "s", ID: batch.ID("first" + name)})
		require.NoError(t, err, name)
	}
}

// setStandbys sets the standbys that commits wait for.
func setStandbys(t *testing.T, db *sql.DB, names string) {
	t.Helper()
	_, err := db.Exec(`ALTER SYSTEM SET synchronous_standby_names = '` + names + `'`)
	require.NoError(t, err)
	_, err = db.Exec(`SELECT pg_reload_conf()`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var have string
		return db.QueryRow(`SHOW synchronous_standby_names`).Scan(&have) == nil && have == names
	}, 10*time.Second, 10*time.Millisecond)
}

// waitUntilCommitsHang waits until commits wait for ever. The server's checkpointer decides when
// this begins, because it reads its settings late.
func waitUntilCommitsHang(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ctx, `INSERT INTO probe VALUES (1)`)
		return err != nil || ctx.Err() != nil
	}, 30*time.Second, 10*time.Millisecond)
}

// openAs opens a database and a store as an application with this driver does.
func openAs(t *testing.T, driver, dsn string) (*sql.DB, *postgres.Store) {
	if driver != "native" {
		db, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		st, err := postgres.New(db, nil)
		require.NoError(t, err)
		return db, st
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	st, err := native.New(pool, nil)
	require.NoError(t, err)
	return stdlib.OpenDBFromPool(pool), st.Store
}
