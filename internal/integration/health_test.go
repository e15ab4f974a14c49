package integration

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// An idle Runner notices five seconds without PostgreSQL while they last, and it notices their
// end.
func TestHealthWithoutPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	db, err := sql.Open(pgx.sqlName, cluster.DSN(""))
	require.NoError(t, err)
	defer db.Close()
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	r, err := dltbatch.New(st, ledgermem.New(nil), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	is := func(c health.Condition) func() bool {
		return func() bool { return r.Health().Store.Condition == c }
	}
	require.Eventually(t, is(health.ConditionOK), time.Minute, 10*time.Millisecond)

	require.NoError(t, cluster.Crash())
	begin := time.Now()
	require.Eventually(t, is(health.ConditionFailing), time.Minute, 10*time.Millisecond)
	t.Logf("seen after %s", time.Since(begin))
	since := r.Health().Store.FailingSince
	for time.Since(begin) < 5*time.Second {
		h := r.Health()
		require.Equal(t, health.ConditionFailing, h.Store.Condition, "%+v", h)
		require.Equal(t, since, h.Store.FailingSince)
		require.Error(t, h.Store.Err)
		assert.Equal(t, health.ConditionIdle, h.Ledger.Condition)
		time.Sleep(100 * time.Millisecond)
	}
	require.NoError(t, cluster.RestartImmediately())
	begin = time.Now()
	require.Eventually(t, is(health.ConditionOK), 2*time.Minute, 10*time.Millisecond)
	t.Logf("over after %s", time.Since(begin))
	assert.Zero(t, r.Health().Store.FailingSince)
	b := batch.Batch{Service: "s", ID: "a", Payload: []byte("p")}
	require.NoError(t, r.Add(ctx, b))
	rec, err := r.Await(ctx, b.Key())
	require.NoError(t, err)
	assert.Equal(t, batch.Committed, rec.State)
	assert.Equal(t, health.ConditionOK, r.Health().Ledger.Condition)
}
