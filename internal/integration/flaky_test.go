package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// flakyStore is a migrated store whose statements fail.
func flakyStore(t *testing.T, d driver, f *flaky.Faults) *postgres.Store {
	s := newSpace(t, d)
	db, err := f.Open(d.sql, s.dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := postgres.New(db, &postgres.Options{Schema: s.schema})
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return st
}

// The test checks the promises of Claim and Pending after an error.
func TestContractOfErrors(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pgx, libpq} {
		t.Run(d.name, func(t *testing.T) {
			f := flaky.New(1, 10)
			flaky.Contract(t, flakyStore(t, d, f), f)
		})
	}
}

// One statement in ten fails. The test runs in real time: all batches become final, once and
// in order; the log shows how long that took.
func TestOneStatementInTenFails(t *testing.T) {
	t.Parallel()
	load := flaky.Load{Lanes: 8, Pause: 200 * time.Millisecond, For: 4 * time.Second}
	for _, d := range []driver{pgx, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			calm := flaky.New(1, 1<<30)
			t.Logf("no faults: %s", load.Run(t, flakyStore(t, d, calm), calm, nil))
			f := flaky.New(uint64(time.Now().UnixNano()), 10)
			t.Logf("one in ten: %s\n%s", load.Run(t, flakyStore(t, d, f), f, nil), f)
		})
	}
}
