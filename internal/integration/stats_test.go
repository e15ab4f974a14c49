package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// waitFor waits for a condition that becomes true soon.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 30*time.Second, 5*time.Millisecond)
}

// A count waits for no writes and no write waits for it, however long it takes. If another process
// takes over while a process counts, the first one changes nothing; if the counting process died,
// another takes over.
func TestStatsTurns(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := newSpace(t, d)
			a, b := s.app(), s.app()
			require.NoError(t, a.Add(ctx, newBatch("s", 1)))
			refresh := func(of *testApp, by string) (bool, error) { return texts.Refresh(ctx, of, store.RefreshQuery{By: by}) }
			require.NoError(t, new(texts.Presence).Show(ctx, a, store.Instance{ID: "a"}))

			// The count waits here until the transaction ends.
			hold := func() (release func()) {
				tx, err := s.admin.Begin()
				require.NoError(t, err)
				_, err = tx.Exec(`LOCK TABLE ` + s.schema + `.outcomes IN ACCESS EXCLUSIVE MODE`)
				require.NoError(t, err)
				return func() { _ = tx.Rollback() }
			}
			counting := func() (n int) {
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass`, s.schema+".outcomes").Scan(&n))
				return n
			}
			release := hold()
			defer release()
			type result struct {
				did bool
				err error
			}
			results := map[string]chan result{"a": make(chan result, 1), "b": make(chan result, 1)}
			go func() { did, err := refresh(a, "a"); results["a"] <- result{did, err} }()
			waitFor(t, func() bool { return counting() == 1 })
			require.NoError(t, b.Add(ctx, newBatch("s", 2)))
			got, err := b.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Hour}, pickFrontIfIdle)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			require.NoError(t, new(texts.Presence).Show(ctx, b, store.Instance{ID: "b"}))
			did, err := refresh(b, "b")
			require.NoError(t, err)
			require.False(t, did, "it is a's turn")
			var locks int
			require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_locks l JOIN pg_locks w USING (pid)
				WHERE NOT w.granted AND w.relation = $1::regclass AND l.relation IS NOT NULL AND l.mode <> 'AccessShareLock'`, s.schema+".outcomes").Scan(&locks))
			require.Zero(t, locks)

			s.stepClock(21 * time.Second)
			go func() { did, err := refresh(b, "b"); results["b"] <- result{did, err} }()
			waitFor(t, func() bool { return counting() == 2 })
			release()
			require.Equal(t, result{false, nil}, <-results["a"], "it was followed by b")
			require.Equal(t, result{true, nil}, <-results["b"])
			kept, err := texts.Stats(ctx, a)
			require.NoError(t, err)
			require.Equal(t, "b", kept.By)
			require.Equal(t, map[batch.State]int{batch.Queued: 1, batch.Submitting: 1}, kept.Open, "at b's moment")

			// One process dies while it counts.
			s.stepClock(10 * time.Minute)
			release = hold()
			dying, die := context.WithCancel(ctx)
			died := make(chan error, 1)
			go func() { _, err := texts.Refresh(dying, a, store.RefreshQuery{By: "dead"}); died <- err }()
			waitFor(t, func() bool { return counting() == 1 })
			die()
			require.ErrorIs(t, <-died, context.Canceled)
			release()
			did, err = refresh(b, "b")
			require.NoError(t, err)
			require.False(t, did, "it may be alive")
			s.stepClock(21 * time.Second)
			did, err = refresh(b, "again")
			require.NoError(t, err)
			require.True(t, did)
			kept, err = texts.Stats(ctx, b)
			require.NoError(t, err)
			require.Equal(t, "again", kept.By)

			// Of two processes that see the same turn only one takes it.
			s.stepClock(10 * time.Minute)
			tx, err := s.admin.Begin()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(`SELECT 1 FROM ` + s.schema + `.texts WHERE kind = 'stats' FOR UPDATE`)
			require.NoError(t, err)
			for name, of := range map[string]*testApp{"a": a, "b": b} {
				go func() { did, err := refresh(of, name); results[name] <- result{did, err} }()
			}
			waitFor(t, func() bool { return s.countSessions(`wait_event_type = 'Lock'`) == 2 })
			require.NoError(t, tx.Commit())
			one, other := <-results["a"], <-results["b"]
			require.NoError(t, errors.Join(one.err, other.err))
			require.NotEqual(t, one.did, other.did)

			// A count that fails leaves the earlier counts.
			s.stepClock(10 * time.Minute)
			s.exec(`ALTER TABLE ` + s.schema + `.open_orders RENAME TO elsewhere`)
			_, err = refresh(a, "a")
			require.ErrorIs(t, err, store.ErrNotMigrated)
			s.exec(`ALTER TABLE ` + s.schema + `.elsewhere RENAME TO open_orders`)
			kept, err = texts.Stats(ctx, b)
			require.NoError(t, err)
			require.NotEmpty(t, kept.By, "the counts before stay")
			require.Greater(t, kept.Age, 9*time.Minute)
		})
	}
}

// The cost of a count grows with what is open, and the cost of reading the counts does not grow.
func TestStatsCost(t *testing.T) {
	t.Parallel()
	g := newBufferCounter(t)
	ctx := t.Context()
	exec := func(format string, args ...any) {
		_, err := g.admin.ExecContext(ctx, fmt.Sprintf(format, args...))
		require.NoError(t, err)
	}
	const lanes, open = 2000, 20_000
	add := func(from, n int) {
		exec(`INSERT INTO dltbatch.batches SELECT i, md5(i::text)::uuid, md5(i::text) || md5('x' || i), 'lane' || lpad((i %% %d)::text, 4, '0'), 1000000 + i, '', '',
			false, '\x00', 0, false, NULL, '\x00' FROM generate_series(%d, %d) i`, lanes, from, from+n-1)
	}
	add(1, open)
	exec(`INSERT INTO dltbatch.waiting_batches SELECT service_id, created_at, seq, 1, false FROM dltbatch.batches`)
	g.vacuum()
	count := func() {
		exec(`DELETE FROM dltbatch.texts WHERE kind = 'stats'`)
		did, err := texts.Refresh(ctx, g.st, store.RefreshQuery{})
		require.NoError(t, err)
		require.True(t, did)
	}
	read := func() {
		s, err := texts.Stats(ctx, g.st)
		require.NoError(t, err)
		require.Equal(t, lanes, s.Lanes)
		require.Equal(t, open, s.Open[batch.Queued])
		require.Len(t, s.OldestLanes, store.OldestLanes)
	}
	count()
	read()
	counted, looked := g.buffersOf(count), g.buffersOf(read)
	t.Logf("%d buffers to count %d batches in %d lanes, %d to read the counts", counted, open, lanes, looked)
	assert.Less(t, looked, int64(12))
	assert.Less(t, counted, int64(open/20))

	add(open+1, 3*open)
	exec(`INSERT INTO dltbatch.outcomes SELECT seq, 7, 4, 1, 0, 0, 0, 0, 0, created_at, false, NULL, '', 0 FROM dltbatch.batches WHERE seq > %d`, open)
	exec(`INSERT INTO dltbatch.final_orders SELECT seq, 3, 3, '', 0, 1, '', created_at, NULL, '' FROM dltbatch.batches WHERE seq > %d`, open)
	g.vacuum()
	count()
	assert.InDelta(t, counted, g.buffersOf(count), 10, "a history changes nothing")
	assert.InDelta(t, looked, g.buffersOf(read), 4)
}

// Dead rows that a held snapshot keeps are counted, for the metric dltbatch_table_dead: vacuum
// does not remove them before the snapshot ends.
func TestDeadRowsOfAHeldSnapshotAreCounted(t *testing.T) {
	t.Parallel()
	v := &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context(), lanes: []batch.ServiceID{"s"}}
	dead := func() (n int64) {
		v.buffers() // makes the store's connection report what it has deleted
		v.vacuum()
		require.Eventually(t, func() bool {
			did, err := texts.Refresh(v.ctx, v.st, store.RefreshQuery{OlderThan: time.Microsecond})
			require.NoError(t, err)
			return did
		}, time.Minute, 10*time.Millisecond)
		s, err := texts.Stats(v.ctx, v.st)
		require.NoError(t, err)
		for _, size := range s.Sizes {
			if size.Name == "attempted_batches" || size.Name == "waiting_batches" {
				n += size.Dead
			}
		}
		return n
	}
	none := func() bool { return dead() == 0 }
	v.deliverAndPrune(200)
	require.Eventually(t, none, time.Minute, 10*time.Millisecond, "nothing keeps them")
	end := v.holdSnapshot()
	v.deliverAndPrune(200)
	for range 3 {
		assert.GreaterOrEqual(t, dead(), int64(400), "a batch leaves a row behind in each table")
	}
	end()
	require.Eventually(t, none, time.Minute, 10*time.Millisecond)
}
