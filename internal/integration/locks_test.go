package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

func newBatch(service string, id any) batch.Batch {
	return batch.Batch{Service: batch.ServiceID(service), ID: batch.ID(fmt.Sprint(id)), Payload: fmt.Appendf(nil, "payload of %v", id)}
}

// waitingIDs returns all waiting batches of a lane, in order.
func waitingIDs(t testing.TB, st *postgres.Store, service batch.ServiceID) (ids []batch.ID) {
	t.Helper()
	got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 100_000, TTL: time.Minute},
		func(l batch.Lane) []batch.Run {
			for _, b := range l.Batches {
				ids = append(ids, b.ID)
			}
			return nil
		})
	require.NoError(t, err)
	require.Empty(t, got.Locked)
	return ids
}

// addCall is one Add of the test, from its call until its transaction had ended.
type addCall struct {
	ids          []batch.ID
	began, ended time.Time
	committed    bool
}

// 64 writers add to one lane, some in transactions that stay open, and some of these are rolled
// back. Other transactions stay open all the time, and no writer waits for them. At the end the
// lane holds the committed batches, and Adds that did not overlap are in order.
func TestManyWritersOfOneLane(t *testing.T) {
	t.Parallel()
	const writers, each, open = 64, 12, 8
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d.inRace())
			st := s.app()
			st.db.SetMaxOpenConns(writers + open + 8)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var held []*appTx
			for i := range open {
				tx, err := st.begin(ctx)
				require.NoError(t, err)
				require.NoError(t, st.addTx(ctx, tx, newBatch("s", fmt.Sprint("open", i))))
				held = append(held, tx)
			}
			var mu sync.Mutex
			var all []addCall
			var wg sync.WaitGroup
			errs := make([]error, writers)
			for w := range writers {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(w)))
					for i := range each {
						a := addCall{began: time.Now()}
						var bs []batch.Batch
						for k := range 1 + random.IntN(3) {
							b := newBatch("s", fmt.Sprintf("%d/%d/%d", 99-w, 99-i, 9-k))
							bs, a.ids = append(bs, b), append(a.ids, b.ID)
						}
						a.committed, errs[w] = addInAnyWay(ctx, st, random, bs)
						a.ended = time.Now()
						if errs[w] != nil {
							return
						}
						mu.Lock()
						all = append(all, a)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...))
			place := map[batch.ID]int{}
			for i, id := range waitingIDs(t, st.Store, "s") { // the open transactions do not delay a claim either
				place[id] = i
			}
			checkOrder(t, all, place)
			for _, tx := range held {
				require.NoError(t, tx.commit())
			}
			require.Len(t, waitingIDs(t, st.Store, "s"), len(place)+open)
		})
	}
}

func addInAnyWay(ctx context.Context, st *testApp, random *rand.Rand, bs []batch.Batch) (committed bool, err error) {
	how := random.IntN(4)
	if how == 0 {
		return true, st.Add(ctx, bs...)
	}
	tx, err := st.begin(ctx)
	if err != nil {
		return false, err
	}
	if err := st.addTx(ctx, tx, bs...); err != nil {
		return false, errors.Join(err, tx.rollback())
	}
	if how > 1 { // the application continues in its transaction
		if err := tx.exec(ctx, fmt.Sprintf("SELECT pg_sleep(%f)", random.Float64()/20)); err != nil {
			return false, errors.Join(err, tx.rollback())
		}
	}
	if how == 3 {
		return false, tx.rollback()
	}
	return true, tx.commit()
}

func checkOrder(t *testing.T, all []addCall, place map[batch.ID]int) {
	committed := 0
	for _, a := range all {
		for i, id := range a.ids {
			at, there := place[id]
			require.Equal(t, a.committed, there, "%s", id)
			if there {
				committed++
				if i > 0 {
					require.Less(t, place[a.ids[i-1]], at, "within a call")
				}
			}
		}
	}
	require.Len(t, place, committed)
	kept := slices.DeleteFunc(all, func(a addCall) bool { return !a.committed })
	pairs := 0
	for _, a := range kept {
		for _, b := range kept {
			if a.ended.Before(b.began) {
				require.Less(t, place[a.ids[len(a.ids)-1]], place[b.ids[0]], "%v ended before %v began", a.ids, b.ids)
				pairs++
			}
		}
	}
	require.Positive(t, pairs, "no two calls followed one another: this tests nothing")
}

// An Add of an id that an open transaction has added waits for that transaction only.
func TestSameIDWaits(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.app()
			for name, end := range map[string]func(*appTx) error{"commit": (*appTx).commit, "rollback": (*appTx).rollback} {
				tx := st.mustBegin(t)
				require.NoError(t, st.addTx(t.Context(), tx, newBatch(name, name)))
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				assert.ErrorIs(t, st.Add(short, newBatch(name, name)), context.DeadlineExceeded)
				cancel()
				done := make(chan error, 1)
				go func() { done <- st.Add(t.Context(), newBatch(name, name)) }()
				assert.NoError(t, st.Add(t.Context(), newBatch(name, "after the "+name)))
				require.NoError(t, end(tx))
				require.NoError(t, <-done)
				assert.Len(t, waitingIDs(t, st.Store, batch.ServiceID(name)), 2)
			}
		})
	}
}

// A claim skips a lane that another claim holds, returns its name, and does not wait for it.
func TestHeldLanesAreNamed(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, db := s.store()
	require.NoError(t, st.Add(t.Context(), newBatch("a", 1), newBatch("b", 2), newBatch("c", 3)))
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"b", "none", "a", "c", "a"}, Limit: 9, Window: 9, TTL: time.Minute}
	_, err := st.Claim(t.Context(), q, func(batch.Lane) []batch.Run { return nil })
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT 1 FROM ` + s.schema + `.services WHERE service_id IN ('a', 'b') FOR NO KEY UPDATE`)
	require.NoError(t, err)
	got, err := st.Claim(t.Context(), q, pickFront)
	require.NoError(t, err)
	assert.ElementsMatch(t, []batch.ServiceID{"a", "b"}, got.Locked)
	require.Len(t, got.Runs, 1)
	assert.Equal(t, batch.ServiceID("c"), got.Runs[0].Service)
	assert.Empty(t, got.Left)
	require.NoError(t, tx.Rollback())
	got, err = st.Claim(t.Context(), q, pickFront)
	require.NoError(t, err)
	assert.Empty(t, got.Locked)
	assert.Len(t, got.Runs, 2)
}

// A claim does not return a lane as left if another claim holds it: the queuer must leave the lane
// alone for a while, even if the claim reaches its limit early.
func TestHeldLanesAreNotLeft(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, db := s.store()
	require.NoError(t, st.Add(t.Context(), newBatch("a", 1), newBatch("b", 2), newBatch("c", 3)))
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b", "c"}, Limit: 1, Window: 1, TTL: time.Minute}
	_, err := st.Claim(t.Context(), q, func(batch.Lane) []batch.Run { return nil })
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT 1 FROM ` + s.schema + `.services WHERE service_id = 'b' FOR NO KEY UPDATE`)
	require.NoError(t, err)
	got, err := st.Claim(t.Context(), q, pickFront)
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
	assert.Equal(t, []batch.ServiceID{"b"}, got.Locked)
	assert.Equal(t, []batch.ServiceID{"c"}, got.Left)
}

// A claim holds the lane while it calls choose: no other claim sees the lane.
func TestChooseHoldsTheLane(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	require.NoError(t, st.Add(t.Context(), newBatch("a", 1)))
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"a"}, Limit: 9, Window: 9, TTL: time.Minute}
	got, err := st.Claim(t.Context(), q, func(l batch.Lane) []batch.Run {
		other, err := st.Claim(t.Context(), q, pickFront) // a strategy must not do this
		require.NoError(t, err)
		assert.Equal(t, q.Lanes, other.Locked)
		assert.Empty(t, other.Runs)
		return pickFront(l)
	})
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
}

// If a lease ends while another holder waits for the lock of the stream's row, that holder sees
// that it has ended, because it reads the clock after it got the lock.
func TestALeaseEndsDuringTheWaitForItsLock(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, _ := s.store()
	_, held, err := st.LeaseStream(t.Context(), "stream", "first", time.Minute)
	require.NoError(t, err)
	require.True(t, held)
	tx, err := s.admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `SELECT * FROM `+s.schema+`.streams FOR UPDATE`)
	require.NoError(t, err)
	got := make(chan bool, 1)
	go func() {
		_, held, err := st.LeaseStream(t.Context(), "stream", "second", time.Minute)
		assert.NoError(t, err)
		got <- held
	}()
	require.Eventually(t, func() bool { return s.countSessions("wait_event_type = 'Lock'") > 0 }, 20*time.Second, 5*time.Millisecond)
	s.stepClock(61 * time.Second)
	require.NoError(t, tx.Rollback())
	assert.True(t, <-got, "the clock was read before the lock was granted")
}
