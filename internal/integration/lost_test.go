package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// claimOne claims one batch of a lane.
func claimOne(t *testing.T, st *postgres.Store, lane batch.ServiceID) (store.Claimed, error) {
	t.Helper()
	return st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{lane}, Limit: 1, Window: 9, TTL: time.Minute}, pickFront)
}

// failOver kills the server, and makes the standby the primary.
func failOver(t *testing.T, c, standby *pgtest.Cluster, to func(*pgtest.Cluster)) {
	t.Helper()
	require.NoError(t, c.Crash())
	require.NoError(t, standby.Promote())
	to(standby)
}

// After a failover to a standby that lacks the last acknowledged write, the next claim reports
// this once before it takes anything, and Upkeep reports it from then on.
func TestLostCommitsAreReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(t *testing.T, st *postgres.Store)
		pause bool
		text  string
		// restarted is true if the primary was restarted between the loss and the failover.
		restarted bool
	}{
		{"an Add", func(t *testing.T, st *postgres.Store) { require.NoError(t, st.Add(t.Context(), newBatch("s", "lost"))) }, true, "batch s/lost is gone", false},
		{"an Add before a plain restart", func(t *testing.T, st *postgres.Store) { require.NoError(t, st.Add(t.Context(), newBatch("s", "lost"))) }, false, "batch s/lost is gone", true},
		{"a claim", func(t *testing.T, st *postgres.Store) { assert.Equal(t, batch.ID("kept"), claimFirst(t, st, "s")) }, false, "batch s/kept was written as version", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary := pgtest.NewCluster(t, "fsync=off")
			standby := primary.Standby(t, "")
			db, to := poolOfSwitchedServer(t, primary)
			st, err := postgres.New(db, &postgres.Options{PauseOnLostCommits: c.pause})
			require.NoError(t, err)
			require.NoError(t, st.Migrate(t.Context()))
			require.NoError(t, st.Add(t.Context(), newBatch("s", "kept"), newBatch("other", "claimed")))
			assert.Equal(t, batch.ID("claimed"), claimFirst(t, st, "other"))
			cutStandbyOff(t, primary, standby)
			c.lose(t, st)
			if c.restarted {
				require.NoError(t, primary.RestartImmediately())
				require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
				require.NoError(t, st.Add(t.Context(), newBatch("s", "lost"))) // added again, and now the store has the batch
			}
			failOver(t, primary, standby, to)
			require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
			for i := range 20 { // more than a process remembers
				require.NoError(t, st.Add(t.Context(), newBatch("more", i)))
			}

			_, err = claimOne(t, st, "s")
			require.ErrorIs(t, err, postgres.ErrLostCommits)
			assert.Contains(t, err.Error(), c.text)
			require.ErrorContains(t, warningAbout(t, st, postgres.ErrLostCommits), c.text)
			if c.pause {
				got, err := claimOne(t, st, "s")
				require.NoError(t, err)
				assert.Empty(t, got.Runs, "everything is paused")
				control, err := st.Control(t.Context(), batch.Everything())
				require.NoError(t, err)
				assert.Contains(t, control.PausedBy.Reason, c.text)
				_, _, err = st.Steer(t.Context(), store.Steering{
					Scope: batch.Everything(), Action: batch.ActionResume, By: batch.By{Actor: "a person"}, Seen: control.Version,
				})
				require.NoError(t, err)
			}
			assert.Equal(t, batch.ID("kept"), claimFirst(t, st, "s"))
		})
	}
}

// No loss is reported if nothing is lost: after a crash of the server, after a batch was removed
// with its tombstone, and if commits wait for the standby that becomes the primary.
func TestNoLossIsReportedWhereNothingIsLost(t *testing.T) {
	t.Run("a crash", func(t *testing.T) {
		t.Parallel()
		c := pgtest.NewCluster(t)
		db, _ := poolOfSwitchedServer(t, c)
		st, err := postgres.New(db, nil)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		learnPosition(t, st, "s", "before")
		p, err := st.Prune(t.Context(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
		require.NoError(t, err)
		require.NotZero(t, p.Batches)
		require.NoError(t, st.Add(t.Context(), newBatch("s", "kept")))
		require.NoError(t, c.RestartImmediately())
		require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
		assert.Equal(t, batch.ID("kept"), claimFirst(t, st, "s"))
		require.NoError(t, warningAbout(t, st, postgres.ErrLostCommits))
	})
	t.Run("another process prunes", func(t *testing.T) {
		t.Parallel()
		c := pgtest.NewCluster(t)
		db, _ := poolOfSwitchedServer(t, c)
		open := func() *postgres.Store {
			st, err := postgres.New(db, nil)
			require.NoError(t, err)
			return st
		}
		adds, prunes := open(), open()
		require.NoError(t, prunes.Migrate(t.Context()))
		require.NoError(t, adds.Add(t.Context(), newBatch("s", "final"), newBatch("other", "kept")))
		_, err := deliverAll(t.Context(), prunes, time.Minute, "s")
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			p, err := prunes.Prune(t.Context(), store.PruneQuery{})
			require.NoError(t, err)
			return p.Batches == 1
		}, 20*time.Second, 20*time.Millisecond)
		require.NoError(t, c.RestartImmediately())
		require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
		assert.Equal(t, batch.ID("kept"), claimFirst(t, adds, "other"))
		require.NoError(t, warningAbout(t, adds, postgres.ErrLostCommits))
	})
	t.Run("a synchronous standby", func(t *testing.T) {
		t.Parallel()
		c := pgtest.NewCluster(t, "fsync=off")
		standby := c.Standby(t, "")
		admin := openAdmin(t, c.DSN(""))
		for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
			_, err := admin.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		require.Eventually(t, func() (sync bool) {
			return admin.QueryRow(`SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication`).Scan(&sync) == nil && sync
		}, 20*time.Second, 20*time.Millisecond)
		require.NoError(t, admin.Close())
		db, to := poolOfSwitchedServer(t, c)
		st, err := postgres.New(db, nil)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		learnPosition(t, st, "s", "before")
		require.NoError(t, st.Add(t.Context(), newBatch("s", "kept")))
		failOver(t, c, standby, to)
		require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
		assert.Equal(t, batch.ID("kept"), claimFirst(t, st, "s"))
		require.NoError(t, warningAbout(t, st, postgres.ErrLostCommits))
	})
}

// A Runner reports the loss as an event and in its Health. Adds are gone, and batches that were
// Committed wait again; batches that the Runner itself had posted are still executed once.
func TestARunnerReportsLostCommits(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "fsync=off")
	standby := c.Standby(t, "")
	db, to := poolOfSwitchedServer(t, c)
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 50 * time.Millisecond})
	var mu sync.Mutex
	var events []error
	r, err := dltbatch.New(st, ledger, &dltbatch.Options{
		RequestTimeout: time.Second, ClaimTTL: 3 * time.Second, PollInterval: 200 * time.Millisecond,
		Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if errors.Is(e.Err, postgres.ErrLostCommits) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e.Err)
			}
		}),
	})
	require.NoError(t, err)
	var half, lost []batch.Key
	for i := range 3 {
		b := newBatch(fmt.Sprint("half", i), fmt.Sprint("half", i))
		require.NoError(t, r.Add(t.Context(), b))
		half = append(half, b.Key())
	}
	cutStandbyOff(t, c, standby)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	for i := range 3 {
		b := newBatch(fmt.Sprint("lost", i), fmt.Sprint("lost", i))
		require.NoError(t, r.Add(t.Context(), b))
		lost = append(lost, b.Key())
	}
	all := append(half[:len(half):len(half)], lost...)
	for _, k := range all {
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		rec, err := r.Await(wait, k)
		cancel()
		require.NoError(t, err)
		require.Equal(t, batch.Committed, rec.State)
	}
	failOver(t, c, standby, to)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) > 0 && errors.Is(errors.Join(r.Health().Warnings...), postgres.ErrLostCommits)
	}, time.Minute, 50*time.Millisecond)
	for _, k := range lost {
		_, err := r.Get(ctx, k)
		require.ErrorIs(t, err, batch.ErrNotFound)
	}
	for _, k := range half {
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		rec, err := r.Await(wait, k)
		cancel()
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	}
	for _, k := range all {
		assert.Equal(t, []batch.ID{k.ID}, ledger.Log(k.Service))
	}
}

// The loss is noticed behind a pooler that directs known connections to the new primary, although
// more batches are added there than a process remembers before the connections are checked again.
func TestLostCommitsBehindAPooler(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewCluster(t, "fsync=off")
	standby := primary.Standby(t, "")
	to := newServerName(t, primary.Addr())
	dsn, stop, err := pgtest.ServeBouncer(primary.DSN(to.addr()))
	require.NoError(t, err)
	t.Cleanup(stop)
	db := openDSN(t, pgx, withParams(dsn, pgxBouncer.params))
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	require.NoError(t, st.Add(t.Context(), newBatch("s", "kept")))
	cutStandbyOff(t, primary, standby)
	require.NoError(t, st.Add(t.Context(), newBatch("s", "lost")))
	require.NoError(t, primary.Crash())
	require.NoError(t, standby.Promote())
	to.redirect(standby.Addr())
	require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
	for i := range 20 {
		require.NoError(t, st.Add(t.Context(), newBatch("more", i)))
	}
	_, err = claimOne(t, st, "s")
	require.ErrorIs(t, err, postgres.ErrLostCommits)
	assert.Contains(t, err.Error(), "batch s/lost is gone")
}

// Two instances pause everything on lost commits, and the one that has lost none claims first: it
// takes nothing before the other one has checked. After a person has resumed everything, a third
// instance that later finds its own loss does not pause again.
func TestLostCommitsOfAnotherInstance(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewCluster(t, "fsync=off")
	standby := primary.Standby(t, "")
	db, to := poolOfSwitchedServer(t, primary)
	open := func(name string) (*postgres.Store, func()) {
		st, err := postgres.New(db, &postgres.Options{PauseOnLostCommits: true})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		var shown texts.Presence
		return st, func() {
			require.NoError(t, shown.Show(t.Context(), st, store.Instance{ID: name, Name: name, Version: "v", Looked: st.Looked(t.Context())}))
		}
	}
	posts, show := open("posts")
	first, showFirst := open("first")
	late, _ := open("late") // writes no row, like a process that only adds
	require.NoError(t, posts.Add(t.Context(), newBatch("s", "posted"), newBatch("s", "behind")))
	show()
	showFirst()
	cutStandbyOff(t, primary, standby)
	assert.Equal(t, batch.ID("posted"), claimFirst(t, posts, "s"))
	require.NoError(t, late.Add(t.Context(), newBatch("late", "lost")))
	failOver(t, primary, standby, to)
	require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)

	showFirst()
	got, err := claimOne(t, first, "s")
	require.ErrorContains(t, err, "not every instance has looked")
	assert.Empty(t, got.Runs)
	show() // checks, and pauses everything
	assert.Empty(t, claimFirst(t, first, "s"), "everything is paused")
	_, err = claimOne(t, posts, "s")
	require.ErrorIs(t, err, postgres.ErrLostCommits)

	control, err := first.Control(t.Context(), batch.Everything())
	require.NoError(t, err)
	_, _, err = first.Steer(t.Context(), store.Steering{
		Scope: batch.Everything(), Action: batch.ActionResume, By: batch.By{Actor: "a person"}, Seen: control.Version,
	})
	require.NoError(t, err)
	_, err = claimOne(t, late, "s")
	require.ErrorIs(t, err, postgres.ErrLostCommits)
	control, err = first.Control(t.Context(), batch.Everything())
	require.NoError(t, err)
	assert.Zero(t, control.PausedAt, "the person has looked")
	assert.Equal(t, batch.ID("posted"), claimFirst(t, first, "s"))
}
