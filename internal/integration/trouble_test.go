package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// If the database refuses one outcome, only that one fails.
func TestRefusedOutcomeFailsAlone(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st, _ := s.store()
			s.exec(`ALTER TABLE ` + s.schema + `.attempted_batches ADD CHECK (submission_error_message <> 'poison')`)
			var bs []batch.Batch
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				bs = append(bs, newBatch(id, id))
			}
			require.NoError(t, st.Add(t.Context(), bs...))
			q := store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b", "c", "d", "e"}, Limit: 9, Window: 1, TTL: time.Minute}
			got, err := st.Claim(t.Context(), q, pickFront)
			require.NoError(t, err)
			var outcomes []store.Outcome
			for i, r := range got.Runs {
				e := &batch.SubmissionError{Kind: batch.KindBusy, Message: "no"}
				if i == 3 {
					e.Message = "poison"
				}
				c := r.Batches[0]
				outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Failed, Error: e})
			}
			applied, err := st.Record(t.Context(), outcomes)
			require.NoError(t, err)
			require.Len(t, applied, 5)
			for i, a := range applied {
				rec, err := st.Get(t.Context(), outcomes[i].Key)
				require.NoError(t, err)
				assert.Equal(t, outcomes[i].Ref, a.Ref)
				if i == 3 {
					assert.Equal(t, store.Bad, a.Result)
					var state interface{ SQLState() string }
					require.ErrorAs(t, a.Err, &state)
					assert.Equal(t, "23514", state.SQLState())
					assert.Equal(t, batch.Submitting, rec.State)
					continue
				}
				assert.Equal(t, store.Written, a.Result)
				assert.Equal(t, batch.Delayed, rec.State)
			}
		})
	}
}

// The store replaces connections that the server has ended. A call on such a connection is rolled
// back.
func TestConnectionsThatDie(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, pgx, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st, db := s.store()
			die := func() {
				_, err := s.admin.Exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1`, s.schema)
				require.NoError(t, err)
			}
			var conns []*sql.Conn
			for range 6 { // idle connections, more than random retries would reach
				c, err := db.Conn(t.Context())
				require.NoError(t, err)
				conns = append(conns, c)
				_, err = c.ExecContext(t.Context(), "SELECT 1 -- "+s.schema)
				require.NoError(t, err)
			}
			for _, c := range conns {
				require.NoError(t, c.Close())
			}
			require.NoError(t, st.Add(t.Context(), newBatch("a", 1)))
			die()
			require.NoError(t, st.Add(t.Context(), newBatch("a", 2)))
			q := store.ClaimQuery{Lanes: []batch.ServiceID{"a"}, Limit: 9, Window: 1, TTL: time.Minute}
			_, err := st.Claim(t.Context(), q, func(l batch.Lane) []batch.Run {
				die()
				return pickFront(l)
			})
			require.Error(t, err)
			got, err := st.Claim(t.Context(), q, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			assert.Equal(t, 1, got.Runs[0].Batches[0].Attempt)
		})
	}
}

// The store refuses to work if the server could lose acknowledged commits in a crash
// (synchronous_commit off).
func TestAsynchronousCommitIsRefused(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	s.store()
	s.dsn = withParams(s.dsn, "synchronous_commit=off")
	for _, allow := range []bool{false, true} {
		st := s.open(&postgres.Options{Schema: s.schema, AllowAsynchronousCommit: allow})
		err := st.Add(t.Context(), newBatch("a", 1))
		if allow {
			require.NoError(t, err)
			continue
		}
		var setting *postgres.SettingError
		require.ErrorAs(t, err, &setting)
		assert.Equal(t, "synchronous_commit", setting.Setting)
	}
}

// Two calls that add the same batches in opposite orders do not deadlock. The server counts
// deadlocks for a whole database, so the test runs alone.
func TestOppositeOrders(t *testing.T) {
	const rounds, each = 8, 300
	s := newSpace(t, pgx)
	st, db := s.store()
	deadlocks := func() (n int) {
		require.NoError(t, s.admin.QueryRow(`SELECT sum(deadlocks) FROM pg_stat_database`).Scan(&n))
		return n
	}
	before := deadlocks()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			for round := range rounds {
				bs := make([]batch.Batch, each)
				for k := range bs {
					bs[k] = newBatch("s", round*each+k)
				}
				if i%2 == 1 {
					slices.Reverse(bs)
				}
				errs[i] = errors.Join(errs[i], st.Add(t.Context(), bs...))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, waitingIDs(t, st, "s"), rounds*each)
	require.NoError(t, db.Close()) // a closed connection reports its counts
	require.Eventually(t, func() bool { return s.countSessions("true") == 0 }, 10*time.Second, 20*time.Millisecond)
	assert.Equal(t, before, deadlocks())
}

// Large values are read as they were written.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq, pooledSimple} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			st, _ := s.store()
			b := newBatch("s", strings.Repeat("日", 80))
			b.Payload = make([]byte, 5<<20)
			for i := range b.Payload {
				b.Payload[i] = byte(i * i >> 3)
			}
			for i := range 5000 {
				b.Footprint.Reads = append(b.Footprint.Reads, strings.Repeat("a", i%70))
			}
			small := newBatch("s", `\"{},NULL`)
			small.DataChangeID = `NULL`
			require.NoError(t, st.Add(t.Context(), small, b, newBatch("s", "after")))
			var seen batch.Lane
			q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: time.Minute}
			got, err := st.Claim(t.Context(), q, func(l batch.Lane) []batch.Run {
				seen = l
				return []batch.Run{{0, 1}}
			})
			require.NoError(t, err)
			assert.Equal(t, b.Footprint, seen.Batches[1].Footprint)
			payloads, err := st.Payloads(t.Context(), []store.Ref{got.Runs[0].Batches[1].Ref, got.Runs[0].Batches[0].Ref})
			require.NoError(t, err)
			assert.True(t, string(b.Payload) == string(payloads[0]))
			assert.Equal(t, small.Payload, payloads[1])
			rec, err := st.Get(t.Context(), small.Key())
			require.NoError(t, err)
			assert.Equal(t, "NULL", rec.DataChangeID)
		})
	}
}

// Every call that locks several rows is repeated if the server chose it to end a deadlock, and its
// caller notices nothing.
func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, st *postgres.Store, refs []store.Ref) error{
		"record": func(ctx context.Context, st *postgres.Store, refs []store.Ref) error {
			var outcomes []store.Outcome
			for _, ref := range refs {
				outcomes = append(outcomes, store.Outcome{Ref: ref, Version: 2, By: batch.BySubmitter, Finding: store.Accepted})
			}
			applied, err := st.Record(ctx, outcomes)
			for _, a := range applied {
				if a.Result != store.Written {
					err = errors.Join(err, fmt.Errorf("%s: %d", a.Key, a.Result))
				}
			}
			return err
		},
		"checked": func(ctx context.Context, st *postgres.Store, refs []store.Ref) error {
			return st.Checked(ctx, []store.Due{{Ref: refs[0], In: time.Second}, {Ref: refs[1], In: time.Second}})
		},
		"keep prepared": func(ctx context.Context, st *postgres.Store, refs []store.Ref) error {
			kept, err := st.KeepPrepared(ctx, []store.Prepared{
				{Ref: refs[0], Version: 2, Bytes: []byte("a")}, {Ref: refs[1], Version: 2, Bytes: []byte("b")},
			})
			if err == nil && !(kept[0] && kept[1]) {
				err = errors.New("it is not kept")
			}
			return err
		},
	}
	for name, call := range calls {
		for _, d := range []driver{nativePool, libpq} {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				s := newSpace(t, d)
				st, _ := s.store()
				require.NoError(t, st.Add(t.Context(), newBatch("a", 1), newBatch("b", 2)))
				got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b"}, Limit: 9, Window: 1, TTL: time.Minute}, pickFront)
				require.NoError(t, err)
				refs := []store.Ref{got.Runs[0].Batches[0].Ref, got.Runs[1].Batches[0].Ref}
				tx, err := s.admin.Begin()
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				lock := func(row int64) {
					_, err = tx.Exec(`SELECT 1 FROM `+s.schema+`.attempted_batches WHERE seq = $1 FOR UPDATE`, row)
					require.NoError(t, err)
				}
				_, err = tx.Exec(`SET LOCAL deadlock_timeout = '1h'`) // the other session notices first
				require.NoError(t, err)
				lock(max(refs[0].Row, refs[1].Row))
				done := make(chan error, 1)
				go func() { done <- call(t.Context(), st, refs) }()
				require.Eventually(t, func() bool { return s.countSessions("wait_event_type = 'Lock'") == 1 }, 10*time.Second, 5*time.Millisecond)
				lock(min(refs[0].Row, refs[1].Row)) // granted once the store's transaction has ended
				require.NoError(t, tx.Commit())
				require.NoError(t, <-done)
			})
		}
	}
}

// If another session holds the row of a waiting batch, a claim of the batch fails soon, so that
// the queuer can claim from other lanes.
func TestALockedRowFailsClaimSoon(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			st, _ := s.store()
			require.NoError(t, st.Add(t.Context(), newBatch("a", 1), newBatch("b", 2)))
			tx, err := s.admin.Begin()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(`SELECT 1 FROM ` + s.schema + `.waiting_batches WHERE service_id = 'a' FOR UPDATE`)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			q := store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b"}, Limit: 9, Window: 1, TTL: time.Minute}
			_, err = st.Claim(ctx, q, pickFront)
			require.NoError(t, ctx.Err(), "it gave up by itself")
			require.ErrorContains(t, err, "lock timeout")
			q.Lanes = q.Lanes[1:]
			got, err := st.Claim(t.Context(), q, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			require.NoError(t, tx.Rollback())
			q.Lanes = []batch.ServiceID{"a"}
			got, err = st.Claim(t.Context(), q, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
		})
	}
}

// If another session holds the row of one batch, a write of it fails soon, whether or not this
// process knows the row's state, so that the recorder can write the other rows without it.
func TestALockedRowFailsRecordSoon(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(d.name, "/known=", known), func(t *testing.T) {
				t.Parallel()
				s := newSpace(t, d)
				st, _ := s.store()
				require.NoError(t, st.Add(t.Context(), newBatch("a", 1)))
				got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"a"}, Limit: 9, Window: 1, TTL: time.Minute}, pickFront)
				require.NoError(t, err)
				c := got.Runs[0].Batches[0]
				o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}
				if known {
					o.Was = c.Was
					require.NotNil(t, o.Was)
				}
				tx, err := s.admin.Begin()
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				_, err = tx.Exec(`SELECT 1 FROM `+s.schema+`.attempted_batches WHERE seq = $1 FOR UPDATE`, c.Row)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				_, err = st.Record(ctx, []store.Outcome{o})
				require.NoError(t, ctx.Err(), "it gave up by itself")
				require.ErrorContains(t, err, "lock timeout")
				require.NoError(t, tx.Rollback())
				applied, err := st.Record(t.Context(), []store.Outcome{o})
				require.NoError(t, err)
				assert.Equal(t, store.Written, applied[0].Result)
			})
		}
	}
}
