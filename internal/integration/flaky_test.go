package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// newFlakyStore opens a migrated store whose statements fail. With database/sql the connections
// stay usable; with pgx's pool they break.
func newFlakyStore(t *testing.T, d driver, f *flaky.Faults) store.Store {
	st, _ := newFlakyApp(t, newSpace(t, d), f)
	return st
}

// batchAndOrderStore is a store of batches and of orders.
type batchAndOrderStore interface {
	store.Store
	order.Store
}

// newFlakyApp also returns a function that adds batches in a transaction of the application.
func newFlakyApp(t *testing.T, s *testSpace, f *flaky.Faults) (batchAndOrderStore, func(ctx context.Context, batches ...batch.Batch) error) {
	d := s.driver
	o := &postgres.Options{Schema: s.schema}
	if d.isPool {
		config, err := pgxpool.ParseConfig(withParams(s.dsn, "pool_max_conns=20"))
		require.NoError(t, err)
		config.ConnConfig.DialFunc = f.Dial
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		st, err := native.New(p, o)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		return st, func(ctx context.Context, batches ...batch.Batch) error {
			tx, err := p.Begin(ctx)
			if err != nil {
				return err
			}
			if err := st.Tx(tx).Add(ctx, batches...); err != nil {
				return errors.Join(err, tx.Rollback(ctx))
			}
			return tx.Commit(ctx)
		}
	}
	db, err := f.Open(d.sqlName, s.dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := postgres.New(db, o)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return st, func(ctx context.Context, batches ...batch.Batch) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := st.Tx(tx).Add(ctx, batches...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

// Claim and Pending keep their promises after an error.
func TestContractOfErrors(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, pgx, libpq} {
		t.Run(d.name, func(t *testing.T) {
			f := flaky.New(1, 10)
			flaky.CheckErrorPromises(t, newFlakyStore(t, d, f), f)
		})
	}
}

// All batches become final, once and in order, while one statement in ten fails. The test runs in
// real time; the log shows how long it took.
func TestOneStatementInTenFails(t *testing.T) {
	t.Parallel()
	load := flaky.Load{Lanes: 8, MeanPause: 200 * time.Millisecond, Duration: 4 * time.Second}
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			calm := flaky.New(1, 1<<30)
			t.Logf("no faults: %s", load.Run(t, newFlakyStore(t, d, calm), calm, nil))
			f := flaky.New(uint64(time.Now().UnixNano()), 10)
			t.Logf("one in ten: %s\n%s", load.Run(t, newFlakyStore(t, d, f), f, nil), f)
		})
	}
}

// Each statement of each operation fails once, in each way in which a server or a connection can
// fail.
func TestEveryStatementFails(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			f := flaky.New(1, 10)
			s := newSpace(t, d)
			st, addTx := newFlakyApp(t, s, f)
			calm := s.openAsRole("postgres")
			kinds := []flaky.Kind{flaky.Before, flaky.After, flaky.ConnectionCut, flaky.Shutdown, flaky.CommitRolledBack}
			if d.isPool {
				kinds = kinds[1:] // with pgx's pool, Before is the same as Cut
			}
			flaky.FailEachStatement(t, flaky.FailingStore{Store: st, Faultless: calm.batchAndOrderStore, Faults: f, Kinds: kinds, AddTx: addTx, ManyBatches: 100})
		})
	}
}
