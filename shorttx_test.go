package dltbatch_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// databaseUsingLedger is a ledger whose answers wait until the database has a free connection.
type databaseUsingLedger struct {
	db    *sql.DB
	calls atomic.Int64
	fail  context.CancelCauseFunc
}

func (n *databaseUsingLedger) waitForDatabase(ctx context.Context) {
	n.calls.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if _, err := n.db.ExecContext(ctx, "SELECT 1"); err != nil {
		n.fail(fmt.Errorf("a call to the ledger found no connection of the database: %w", err))
	}
}

func (n *databaseUsingLedger) hooks() hooked.Hooks {
	return hooked.Hooks{
		Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			n.waitForDatabase(ctx)
			return next(ctx, a)
		},
		BatchStatuses: func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt,
			next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error),
		) ([]batch.Status, error) {
			n.waitForDatabase(ctx)
			return next(ctx, service, attempts)
		},
		Resolve: func(ctx context.Context, d dlt.Doubt, next func(context.Context, dlt.Doubt) (dlt.Evidence, error)) (dlt.Evidence, error) {
			n.waitForDatabase(ctx)
			return next(ctx, d)
		},
	}
}

// Promise 8: the database has one connection, and each call to the ledger waits for it. A
// transaction that stayed open during the call would keep it for ever.
func TestNoTransactionIsOpenDuringACall(t *testing.T) {
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	ledger := &databaseUsingLedger{db: db, fail: fail}
	r := newRunner(t, st, hooked.Wrap(ledgermem.New(nil), ledger.hooks()), &dltbatch.Options{RequestTimeout: 30 * time.Second, ClaimTTL: 3 * time.Minute, PollInterval: 50 * time.Millisecond})
	for i := range 20 {
		require.NoError(t, r.Add(ctx, newBatch(batch.ServiceID(fmt.Sprint("s", i%4)), batch.ID(fmt.Sprint("b", i)))))
	}
	stop := startRun(t, r)
	for i := range 20 {
		record, err := r.Await(ctx, batch.Key{Service: batch.ServiceID(fmt.Sprint("s", i%4)), ID: batch.ID(fmt.Sprint("b", i))})
		require.NoError(t, err, "%v", context.Cause(ctx))
		assert.Equal(t, batch.Committed, record.State)
	}
	require.NoError(t, stop())
	assert.GreaterOrEqual(t, ledger.calls.Load(), int64(20))
}
