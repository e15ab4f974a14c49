package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// An Add that waits for a Prune of the same id finds the tombstone, and stores nothing. It
// succeeds if the batch was committed, and returns an error if the batch ended without effect.
func TestAddDuringPrune(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		for _, committed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/committed=%t", d.name, committed), func(t *testing.T) {
				s := newSpace(t, d)
				st, _ := s.store()
				require.NoError(t, st.Add(t.Context(), newBatch("s", "a")))
				if committed {
					n, err := deliverAll(t.Context(), st, time.Minute, "s")
					require.NoError(t, err)
					require.Equal(t, 1, n)
				} else {
					_, err := st.Cancel(t.Context(), batch.Record{Key: newBatch("s", "a").Key(), Version: 1}, batch.By{Actor: "test"})
					require.NoError(t, err)
				}
				addDuringPrune(t, s, st, committed)
			})
		}
	}
}

// addDuringPrune adds two batches while "a" is being removed.
func addDuringPrune(t *testing.T, s *testSpace, st *postgres.Store, committed bool) {
	s.exec(`CREATE FUNCTION ` + s.schema + `.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END'`)
	s.exec(`CREATE TRIGGER slow AFTER DELETE ON ` + s.schema + `.batches EXECUTE FUNCTION ` + s.schema + `.slow()`)
	s.stepClock(time.Second)
	done := make(chan error, 1)
	go func() {
		p, err := st.Prune(t.Context(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
		if err == nil && p.Batches != 1 {
			err = fmt.Errorf("pruned %+v", p)
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return s.countSessions("wait_event = 'PgSleep'") == 1 }, 10*time.Second, 5*time.Millisecond)
	err := st.Add(t.Context(), newBatch("s", "b"), newBatch("s", "a"))
	require.NoError(t, <-done)
	var stored []batch.ID
	ended := batch.Rejected
	if committed {
		require.NoError(t, err)
		stored, ended = []batch.ID{"b"}, batch.Committed
	} else {
		require.ErrorIs(t, err, batch.ErrEnded)
	}
	assert.Equal(t, stored, waitingIDs(t, st, "s"))
	rec, err := st.Get(t.Context(), newBatch("s", "a").Key())
	require.NoError(t, err)
	assert.Equal(t, ended, rec.State)
	assert.NotZero(t, rec.PrunedAt)
}

// Batches with equal order keys, which overlapping Adds may give, are sorted by id, also if the
// window ends between them.
func TestTiesBreakByID(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	for _, id := range []string{"d", "b", "c", "a"} {
		require.NoError(t, st.Add(t.Context(), newBatch("s", id)))
	}
	for _, table := range []string{"batches", "waiting_batches"} {
		s.exec(`UPDATE ` + s.schema + `.` + table + ` SET created_at = 1`)
	}
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}
	for _, want := range []batch.ID{"a", "b", "c", "d"} {
		got, err := st.Claim(t.Context(), q, func(l batch.Lane) []batch.Run { return []batch.Run{{len(l.Batches) - 1}} })
		require.NoError(t, err)
		require.Len(t, got.Runs, 1)
		require.Equal(t, want, got.Runs[0].Batches[0].Key.ID)
	}
	found, next, err := st.List(t.Context(), store.ListQuery{Limit: 3})
	require.NoError(t, err)
	assert.Equal(t, batch.ID("c"), found[2].ID)
	found, _, err = st.List(t.Context(), store.ListQuery{After: next})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, batch.ID("d"), found[0].ID)
}

// All updates of a batch under way are heap-only (HOT): they stay in their page, and no index is
// written. The test runs alone, because a page keeps the old rows that the snapshots of other
// tests may see.
func TestUpdatesAreHOT(t *testing.T) {
	const lanes = 200
	s := newSpace(t, pgx)
	s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
	st, db := s.store()
	q := store.ClaimQuery{Limit: lanes, Window: 1, TTL: time.Minute}
	for i := range lanes {
		b := newBatch(fmt.Sprint("lane", i), i)
		b.Payload = make([]byte, 1536)
		require.NoError(t, st.Add(t.Context(), b))
		q.Lanes = append(q.Lanes, b.Service)
	}
	got, err := st.Claim(t.Context(), q, pickFront)
	require.NoError(t, err)
	var outcomes []store.Outcome
	for _, r := range got.Runs {
		c := r.Batches[0]
		outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter})
	}
	_, err = st.Record(t.Context(), outcomes)
	require.NoError(t, err)
	due, err := st.Pending(t.Context(), store.PendingQuery{Limit: lanes, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, due, lanes)
	require.NoError(t, db.Close()) // a closed connection reports its counts
	var all, hot int
	require.Eventually(t, func() bool {
		row := s.admin.QueryRow(`SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'attempted_batches'`, s.schema)
		require.NoError(t, row.Scan(&all, &hot))
		return all >= 2*lanes // accepted, and leased
	}, 10*time.Second, 20*time.Millisecond)
	assert.GreaterOrEqual(t, hot, all*95/100)
}

// A new order key is after the end of its lane even if the clock has not advanced since, or has
// stepped back. The ends of other lanes do not matter.
func TestOrderKeysAreAheadOfTheClock(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	s.exec(`CREATE OR REPLACE FUNCTION ` + s.schema + `.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT to_timestamp(1000) + (SELECT ahead FROM ` + s.schema + `.clock)'`)
	st, _ := s.store()
	keys := func(service string) (keys []int64) {
		rows, err := s.admin.Query(`SELECT created_at - 1000000000 FROM `+s.schema+`.batches WHERE service_id = $1 ORDER BY header_signature`, service)
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var key int64
			require.NoError(t, rows.Scan(&key))
			keys = append(keys, key)
		}
		require.NoError(t, rows.Err())
		return keys
	}
	require.NoError(t, st.Add(t.Context(), newBatch("s", 1)))
	require.NoError(t, st.Add(t.Context(), newBatch("s", 2), newBatch("s", 3)))
	require.NoError(t, st.Add(t.Context(), newBatch("other", 4)))
	s.stepClock(-time.Second)
	require.NoError(t, st.Add(t.Context(), newBatch("s", 5)))
	require.NoError(t, st.Add(t.Context(), newBatch("third", 6)))
	s.stepClock(time.Minute)
	require.NoError(t, st.Add(t.Context(), newBatch("s", 7)))
	assert.Equal(t, []int64{0, 1, 2, 3, 59_000_000}, keys("s"))
	assert.Equal(t, []int64{0}, keys("other"))
	assert.Equal(t, []int64{-1_000_000}, keys("third"))
}

// No two batches have the same number, however many are added.
func TestNumbersAreNotShared(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	for call, n := range []int{1, 1500, 1000, 1, 2001} {
		bs := make([]batch.Batch, n)
		for i := range bs {
			bs[i] = newBatch("s", fmt.Sprintf("%d-%d", call, i))
		}
		require.NoError(t, st.Add(t.Context(), bs...))
	}
	assert.Len(t, waitingIDs(t, st, "s"), 1+1500+1000+1+2001)
	// No transaction was rolled back and repeated.
	var again int
	require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM `+s.schema+`.batches b WHERE b.seq % 1000 = 1`).Scan(&again))
	assert.Equal(t, 1+2+1+1+3, again)
	var last int64
	require.NoError(t, s.admin.QueryRow(`SELECT last_value FROM `+s.schema+`.batch_seq`).Scan(&last))
	assert.Equal(t, int64(7001), last)
}
