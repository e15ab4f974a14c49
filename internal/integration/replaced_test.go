package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// TestOtherTablesAreReadFromTheBeginning replaces the known tables by others, as the restore of a
// dump does, while the server keeps running. An old batch in the new tables stands before the
// remembered position of its lane, and is found.
func TestOtherTablesAreReadFromTheBeginning(t *testing.T) {
	tier.Plain(t)
	t.Parallel()
	here, there := fmt.Sprintf("here%d", os.Getpid()), fmt.Sprintf("there%d", os.Getpid())
	db := openAdmin(t, pgtest.Start(t))
	defer func() { require.NoError(t, db.Close()) }()
	exec := func(statements ...string) {
		for _, s := range statements {
			_, err := db.ExecContext(context.Background(), s)
			require.NoError(t, err)
		}
	}
	defer exec(`DROP SCHEMA IF EXISTS `+here+` CASCADE`, `DROP SCHEMA IF EXISTS old`+here+` CASCADE`)
	open := func(schema string) *postgres.Store {
		pool, err := sql.Open("pgx", pgtest.Start(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		st, err := postgres.New(pool, &postgres.Options{Schema: schema})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		return st
	}
	st, other := open(here), open(there)
	require.NoError(t, other.Add(t.Context(), newBatch("s", "old")))
	learnPosition(t, st, "s", "before")
	require.NoError(t, warningAbout(t, st, postgres.ErrReplaced))
	exec(`BEGIN; ALTER SCHEMA ` + here + ` RENAME TO old` + here + `; ALTER SCHEMA ` + there + ` RENAME TO ` + here + `; COMMIT`)
	require.NoError(t, st.Add(t.Context(), newBatch("s", "new")))
	_, err := claimOne(t, st, "s")
	require.ErrorIs(t, err, postgres.ErrLostCommits)
	assert.Equal(t, batch.ID("old"), claimFirst(t, st, "s"))
	err = warningAbout(t, st, postgres.ErrReplaced)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "the oid of the table")
}

// warningAbout returns the store's warning of a kind, or nil.
func warningAbout(t *testing.T, st *postgres.Store, kind error) error {
	t.Helper()
	warnings, err := st.Upkeep(t.Context())
	require.NoError(t, err)
	for _, w := range warnings {
		if errors.Is(w.Err, kind) {
			return w.Err
		}
	}
	return nil
}

// TestAfterALossyFailoverNothingIsSentTwice claims and posts three batches after the last commit
// that the standby gets. It lets the standby become the primary while the ledger, which executes
// duplicates, works on these batches.
func TestAfterALossyFailoverNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "fsync=off")
	standby := c.Standby(t, "")
	db, to := poolOfSwitchedServer(t, c)
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 8 * time.Second})
	var mu sync.Mutex
	forgotten, posted := 0, 0
	r, err := dltbatch.New(st, ledger, &dltbatch.Options{
		RequestTimeout: time.Second, ClaimTTL: 3 * time.Second, PollInterval: 200 * time.Millisecond,
		Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(e.Err, batch.ErrForgotten):
				forgotten++
			case e.Kind == batch.EventState && e.State == batch.Pending:
				posted++
			}
		}),
	})
	require.NoError(t, err)
	var keys []batch.Key
	for i := range 3 {
		b := newBatch(fmt.Sprint("lane", i), i)
		require.NoError(t, r.Add(t.Context(), b))
		keys = append(keys, b.Key())
	}
	cutStandbyOff(t, c, standby)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return posted == len(keys)
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, warningAbout(t, st, postgres.ErrReplaced)) // the store has checked
	require.NoError(t, c.Crash())
	require.NoError(t, standby.Promote())
	to(standby)
	for _, k := range keys {
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		rec, err := r.Await(wait, k)
		cancel()
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
		assert.Equal(t, []batch.ID{k.ID}, ledger.Log(k.Service))
	}
	require.Eventually(t, func() bool { return errors.Is(errors.Join(r.Health().Warnings...), postgres.ErrReplaced) }, 20*time.Second, 100*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, len(keys), forgotten)
}
