package integration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// slowOptions returns the options of a Runner whose own scans and polls come too late for a test.
func slowOptions(o dltbatch.Options) *dltbatch.Options {
	o.ScanInterval, o.PollInterval = 10*time.Minute, 10*time.Minute
	return &o
}

// twoProcesses returns two Runners on a space: one runs, and the other adds and waits. Hints are
// delivered, and the first scan is over.
func twoProcesses(t *testing.T, s *testSpace, o dltbatch.Options) (runs, adds *dltbatch.Runner) {
	t.Helper()
	tier.Hints(t)
	ledger := memory.New(nil)
	runs, err := dltbatch.New(s.app().driverStore(), ledger, slowOptions(o))
	require.NoError(t, err)
	adds, err = dltbatch.New(s.open(nil).driverStore(), ledger, slowOptions(dltbatch.Options{}))
	require.NoError(t, err)
	runInBackground(t, runs)
	require.Eventually(t, func() bool { return runs.Health().Hints.Live }, 30*time.Second, 10*time.Millisecond, "%+v", runs.Health().Hints)
	return runs, adds
}

// runInBackground runs a Runner until the test ends.
func runInBackground(t *testing.T, r *dltbatch.Runner) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

// checkDelivered adds a batch and waits for its end, which comes far sooner than a scan would find
// the batch.
func checkDelivered(t *testing.T, r *dltbatch.Runner, b batch.Batch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, r.Add(ctx, b))
	rec, err := r.Await(ctx, b.Key())
	require.NoError(t, err)
	assert.Equal(t, batch.Committed, rec.State)
}

// One process delivers at once what another adds, and the other learns of the end by a hint, with
// every driver, and through PgBouncer with a separate session.
func TestProcessesWakeEachOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver
		way string
	}{
		{nativePool.inRace(), "beside pgx's pool"}, {pgx, "of the pool (*stdlib.Driver)"},
		{libpq, "of Options.Listen"}, {pooledBouncer, "of Options.Listen"}, {pqBouncer, "of Options.Listen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runs, adds := twoProcesses(t, newSpace(t, c.driver), dltbatch.Options{})
			assert.Equal(t, "LISTEN on a connection "+c.way, runs.Health().Hints.Way)
			for i := range 5 {
				checkDelivered(t, adds, newBatch(fmt.Sprintf("Lane %d", i), i))
			}
		})
	}
}

// After the server has ended the session for hints, the store opens another, and finds at once
// what was added meanwhile.
func TestAListenerThatIsKilled(t *testing.T) {
	t.Parallel()
	s := newSpace(t, nativePool)
	runs, adds := twoProcesses(t, s, dltbatch.Options{})
	checkDelivered(t, adds, newBatch("s", 1))
	for range 2 {
		s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = '` + s.schema + `'`)
		require.Eventually(t, func() bool { return !runs.Health().Hints.Live }, 30*time.Second, time.Millisecond)
		h := runs.Health()
		require.Error(t, h.Hints.Err)
		assert.Empty(t, h.Attention(time.Now()), "scans go on")
	}
	checkDelivered(t, adds, newBatch("s", 2))
	require.Eventually(t, func() bool { return runs.Health().Hints.Live }, 30*time.Second, time.Millisecond)
}

// hearError returns why a store cannot receive hints; nil if it can.
func hearError(t *testing.T, st store.Store) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := st.Hear(ctx, store.Listener{ID: "me", Wants: store.AllTopics, Heard: func(store.Hint) {}, Live: func(string) { cancel() }})
	require.Error(t, err)
	return err
}

// The store finds out where no hint can arrive: behind PgBouncer in transaction mode, with lib/pq,
// in a pool of few connections, on a standby, and in another database.
func TestWhoHearsNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T) error{
		"pgbouncer": func(t *testing.T) error {
			s := newSpace(t, pooledBouncer)
			s.app()
			return hearError(t, s.open(&postgres.Options{Schema: s.schema}))
		},
		"pgx through pgbouncer": func(t *testing.T) error {
			s := newSpace(t, pgxBouncer)
			s.app()
			return hearError(t, s.open(&postgres.Options{Schema: s.schema}))
		},
		"another database": func(t *testing.T) error {
			s := newSpace(t, pooledBouncer)
			s.app()
			return hearError(t, s.open(&postgres.Options{Schema: s.schema, Listen: native.Listen(pgtest.Start(t))}))
		},
	}
	for name, err := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, err(t), postgres.ErrDeaf)
		})
	}
	t.Run("lib/pq", func(t *testing.T) {
		s := newSpace(t, libpq)
		require.ErrorContains(t, hearError(t, s.open(&postgres.Options{Schema: s.schema})), "set Options.Listen")
	})
	t.Run("a pool of one connection", func(t *testing.T) {
		s := newSpace(t, pgx)
		a := s.open(nil)
		a.db.SetMaxOpenConns(1)
		require.ErrorContains(t, hearError(t, a), "set Options.Listen")
	})
	t.Run("a standby", func(t *testing.T) {
		primary := pgtest.NewCluster(t)
		standby := primary.Standby(t, "")
		a := openApp(t, nativePool, primary.DSN(""), &postgres.Options{Listen: native.Listen(standby.DSN(""))})
		err := hearError(t, a)
		var state interface{ SQLState() string }
		require.True(t, errors.As(err, &state), err)
		assert.Equal(t, "25006", state.SQLState())
	})
}

// callObserver is called with the name of each operation.
type callObserver func(op string)

func (o callObserver) ObserveCall(_ context.Context, c batch.Call) { o(c.Op) }

// Notifications that are not the store's cause no scan, however many arrive. Many notifications
// that look like the store's cause few scans.
func TestAFloodOfNotifications(t *testing.T) {
	t.Parallel()
	tier.Hints(t)
	s := newSpace(t, nativePool)
	var scans, claims atomic.Int64
	_, adds := twoProcesses(t, s, dltbatch.Options{Calls: callObserver(func(op string) {
		switch op {
		case "lanes":
			scans.Add(1)
		case "claim":
			claims.Add(1)
		}
	})})
	channel := "dltbatch:" + s.schema + ":"
	flood := func(payload string) (scanned, claimed int64) {
		checkDelivered(t, adds, newBatch("s", 1)) // adding the batch again is harmless
		before, began := scans.Load(), claims.Load()
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			s.exec(`SELECT pg_notify('` + channel + `', ` + payload + `) FROM generate_series(1, 1000) i`)
		}
		checkDelivered(t, adds, newBatch("s", 2))
		return scans.Load() - before, claims.Load() - began
	}
	scanned, claimed := flood(`'hello ' || i`)
	assert.LessOrEqual(t, scanned, int64(1))
	assert.LessOrEqual(t, claimed, int64(3))
	scanned, _ = flood(`'` + store.Hint{From: "flood", WholeTopics: store.TopicLanes}.Text(store.MaxHint) + `' || repeat(' ', i)`)
	assert.LessOrEqual(t, scanned, int64(60), "ten a second")
}

// Hints do not reach the processes of another schema or another database.
func TestHintsStayWithTheirTables(t *testing.T) {
	t.Parallel()
	first, second := newSpace(t, nativePool), newSpace(t, nativePool)
	a, b := first.app(), second.app()
	heard := make(chan store.Hint, 10)
	live := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Hear(ctx, store.Listener{ID: "first", Wants: store.AllTopics, Heard: func(h store.Hint) { heard <- h }, Live: func(string) { live <- struct{}{} }})
	}()
	<-live
	require.NoError(t, b.Tell(ctx, store.Hint{From: "other", WholeTopics: store.AllTopics}))
	require.NoError(t, a.Tell(ctx, store.Hint{From: "own", WholeTopics: store.TopicLanes}))
	assert.Equal(t, store.Hint{From: "own", WholeTopics: store.TopicLanes}, <-heard, "the first that it hears")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
