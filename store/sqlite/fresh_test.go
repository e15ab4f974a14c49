package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
)

// claimAll claims the first batches of each lane until none is left.
func claimAll(t testing.TB, s *Store, lanes ...batch.ServiceID) (claims []store.Claim, payloads map[batch.ID]string) {
	t.Helper()
	payloads = map[batch.ID]string{}
	q := claimQuery(lanes...)
	q.Window = 100
	got, err := s.Claim(t.Context(), q, func(l batch.Lane) []batch.Run {
		run := make(batch.Run, len(l.Batches))
		for i := range run {
			run[i] = i
		}
		return []batch.Run{run}
	})
	require.NoError(t, err)
	for _, r := range got.Runs {
		for _, c := range r.Batches {
			claims = append(claims, c)
			payloads[c.Key.ID] = string(got.Payloads[c.Row])
		}
	}
	return claims, payloads
}

// A claim does not read from the database what the same process has just added. The store keeps
// its own copy of the bytes, since the caller of Add may change them.
func TestClaimFromMemory(t *testing.T) {
	s, clk, path := newTestStore(t)
	a, b := newBatch("a", 1), newBatch("b", 2)
	require.NoError(t, s.Add(t.Context(), a))
	require.NoError(t, s.Add(t.Context(), b))
	_, err := s.db.Exec(`UPDATE dltbatch_batch_payloads SET serialized_batch = CAST('read' AS BLOB)`)
	require.NoError(t, err)
	clear(a.Payload)
	_, payloads := claimAll(t, s, "a")
	assert.Equal(t, map[batch.ID]string{a.ID: "payload 1"}, payloads)
	_, payloads = claimAll(t, openStoreAgain(t, path, clk), "b")
	assert.Equal(t, map[batch.ID]string{b.ID: "read"}, payloads, "another process has to read")
}

// If a transaction fails after it was assigned a number and an order key, both go to another
// batch, because the clock stands still. A claim returns the stored batch, and nothing of the
// failed one.
func TestNothingGivenUpIsClaimed(t *testing.T) {
	for name, giveUp := range map[string]func(t *testing.T, s *Store, f *flaky.Faults, given, first batch.Batch){
		"an Add with a conflict": func(t *testing.T, s *Store, _ *flaky.Faults, given, first batch.Batch) {
			first.Payload = []byte("other")
			require.ErrorIs(t, s.Add(t.Context(), given, first), batch.ErrConflict)
		},
		"a commit that failed": func(t *testing.T, s *Store, f *flaky.Faults, given, _ batch.Batch) {
			f.FailNext("COMMIT", false)
			err := s.Add(t.Context(), given)
			require.ErrorIs(t, err, flaky.ErrBefore)
			require.True(t, sqlstore.Maybe(err))
		},
		"an AddTx that was rolled back": func(t *testing.T, s *Store, _ *flaky.Faults, given, _ batch.Batch) {
			tx, err := s.db.Begin()
			require.NoError(t, err)
			require.NoError(t, s.Tx(tx).Add(t.Context(), given))
			require.NoError(t, tx.Rollback())
		},
		"a file that counts from the beginning again": func(t *testing.T, s *Store, _ *flaky.Faults, given, _ batch.Batch) {
			require.NoError(t, s.Add(t.Context(), given))
			for _, statement := range []string{sqlDeletePayload, sqlDeleteTransactions, `DELETE FROM dltbatch_open_batches WHERE seq = ?`, sqlDeleteBatch} {
				_, err := s.db.Exec(statement, 2)
				require.NoError(t, err)
			}
			_, err := s.db.Exec(`UPDATE sqlite_sequence SET seq = 1 WHERE name = 'dltbatch_batches'`)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			other, clk, path := newTestStore(t)
			f := flaky.New(1, 1<<30)
			db, err := f.Open("sqlite3_clock", "file:"+path+"?"+testSettings)
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			s, err := New(db, &Options{AllowNormal: true})
			require.NoError(t, err)
			if name != "a file that counts from the beginning again" { // in that case the clock has gone on
				clk.freeze()
			}
			first, given, stored := newBatch("a", 1), newBatch("b", 2), newBatch("b", 3)
			require.NoError(t, s.Add(t.Context(), first))
			giveUp(t, s, f, given, first)
			time.Sleep(2 * time.Millisecond)
			require.NoError(t, other.Add(t.Context(), stored))
			claims, payloads := claimAll(t, s, "b")
			require.Len(t, claims, 1)
			assert.Equal(t, int64(2), claims[0].Row, "the number was used again")
			assert.Equal(t, map[batch.ID]string{stored.ID: string(stored.Payload)}, payloads)
		})
	}
}

// Two processes use one file, and one of them remembers what it adds, in caches of various sizes.
// Each claim returns what was added under its id, whatever happened to this batch or to others
// before.
func TestClaimsAreWhatWasAdded(t *testing.T) {
	tier.Plain(t)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		s, clk, path := newTestStore(t)
		s.fresh = sqlstore.NewFresh([]int{0, 2_000, sqlstore.FreshBytes}[seed%3])
		stores := []*Store{s, openStoreAgain(t, path, clk)}
		ctx := t.Context()
		added := map[batch.ID]batch.Batch{}
		var ids []batch.ID
		some := func() (in []batch.Batch) {
			for range 1 + r.IntN(4) {
				n := len(ids)
				b := newBatch(fmt.Sprint("lane", r.IntN(3)), n)
				b.Budget = batch.Budget{Attempts: r.IntN(3), EveryTry: r.IntN(2) == 0}
				if r.IntN(2) == 0 {
					b.Footprint = batch.Footprint{Reads: []string{"x"}, Writes: []string{fmt.Sprintf("%02x", n)}}
				}
				ids, in = append(ids, b.ID), append(in, b)
			}
			return in
		}
		keep := func(in []batch.Batch) {
			for _, b := range in {
				added[b.ID] = b
			}
		}
		find := func() (batch.Record, bool) {
			if len(ids) == 0 {
				return batch.Record{}, false
			}
			b, ok := added[ids[r.IntN(len(ids))]]
			if !ok {
				return batch.Record{}, false
			}
			rec, err := stores[r.IntN(2)].Get(ctx, b.Key())
			return rec, err == nil
		}
		claims := 0
		for range 250 {
			s := stores[r.IntN(2)]
			switch r.IntN(8) {
			case 0, 1:
				in := some()
				require.NoError(t, s.Add(ctx, in...))
				keep(in)
			case 2: // a call with a conflict stores nothing
				if rec, ok := find(); ok {
					b := added[rec.Key.ID]
					b.Payload = []byte("other")
					require.ErrorIs(t, s.Add(ctx, append(some(), b)...), batch.ErrConflict)
				}
			case 3:
				in := some()
				tx, err := s.db.Begin()
				require.NoError(t, err)
				require.NoError(t, s.Tx(tx).Add(ctx, in...))
				if r.IntN(2) == 0 {
					require.NoError(t, tx.Commit())
					keep(in)
				} else {
					require.NoError(t, tx.Rollback())
				}
			case 4:
				if rec, ok := find(); ok {
					_, _ = s.Cancel(ctx, rec, batch.By{Actor: "test", Reason: "why"}) // not allowed in every state
				}
			case 5:
				if rec, ok := find(); ok {
					_, _ = s.Requeue(ctx, rec, store.Requeue{}, batch.By{Actor: "test", Reason: "why"})
				}
			case 6:
				if r.IntN(5) == 0 {
					_, err := s.Prune(ctx, store.PruneQuery{})
					require.NoError(t, err)
				}
			case 7:
				q := claimQuery("lane0", "lane1", "lane2")
				got, err := s.Claim(ctx, q, func(l batch.Lane) []batch.Run {
					for _, b := range l.Batches {
						require.Equal(t, added[b.ID].Footprint, b.Footprint)
						require.Equal(t, added[b.ID].Service, l.Service)
					}
					return chooseSerially(l)
				})
				require.NoError(t, err)
				var outcomes []store.Outcome
				for _, run := range got.Runs {
					for _, c := range run.Batches {
						claims++
						want := added[c.Key.ID]
						require.Equal(t, want.Key(), c.Key)
						require.Equal(t, want.Budget, c.Budget)
						require.Equal(t, string(want.Payload), string(got.Payloads[c.Row]))
						o := store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.IsCommitted}
						if r.IntN(3) == 0 {
							o.Finding, o.Back = store.Unposted, c.From
						}
						outcomes = append(outcomes, o)
					}
				}
				applied, err := s.Record(ctx, outcomes)
				require.NoError(t, err)
				for _, a := range applied {
					require.Equal(t, store.Written, a.Result)
				}
			}
		}
		require.Greater(t, claims, 20)
	}
}
