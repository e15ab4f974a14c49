package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
)

// A lease does not change the version. An outcome that is recorded after its lease has ended
// applies to the present row, and not to the row of the lease.
func TestKnownRowLeasedAgain(t *testing.T) {
	for _, finding := range []store.Finding{store.IsValid, store.IsCommitted} {
		t.Run(finding.String(), func(t *testing.T) {
			s, _, _ := newTestStore(t)
			ctx := t.Context()
			require.NoError(t, s.Add(ctx, newBatch("a", 1)))
			got, err := s.Claim(ctx, claimQuery("a"), chooseSerially)
			require.NoError(t, err)
			c := got.Runs[0].Batches[0]
			applied, err := s.Record(ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Accepted}})
			require.NoError(t, err)
			require.Equal(t, store.Written, applied[0].Result)
			lease := func() store.InFlight {
				var due []store.InFlight
				require.Eventually(t, func() bool {
					due, err = s.Pending(ctx, store.PendingQuery{Limit: 1, Lease: time.Microsecond})
					return err == nil && len(due) == 1
				}, time.Minute, time.Millisecond)
				return due[0]
			}
			first := lease()
			again := lease()
			for again.Was.AskedAt.Equal(first.Was.AskedAt) { // repeats until the time differs, because the clock has milliseconds
				again = lease()
			}
			require.Equal(t, first.Version, again.Version)
			applied, err = s.Record(ctx, []store.Outcome{{
				Ref: first.Ref, Version: first.Version, Was: first.Was, By: batch.ByMonitor, Finding: finding, Check: time.Hour,
			}})
			require.NoError(t, err)
			require.Equal(t, store.Written, applied[0].Result)
			require.Equal(t, again.Was.AskedAt, applied[0].Row.AskedAt)
			l, err := s.Look(ctx, c.Key, 1)
			require.NoError(t, err)
			require.Equal(t, again.Was.AskedAt, l.Row.AskedAt)
		})
	}
}

// claimedOutcomes adds and claims a batch in each of n lanes, and returns an outcome for each.
func claimedOutcomes(t *testing.T, s *Store, n int, o store.Outcome) (outcomes []store.Outcome) {
	var in []batch.Batch
	var lanes []batch.ServiceID
	for i := range n {
		lanes = append(lanes, batch.ServiceID(fmt.Sprint("lane", i)))
		in = append(in, newBatch(string(lanes[i]), i))
	}
	require.NoError(t, s.Add(t.Context(), in...))
	got, err := s.Claim(t.Context(), claimQuery(lanes...), chooseSerially)
	require.NoError(t, err)
	require.Len(t, got.Runs, n)
	for _, r := range got.Runs {
		c := r.Batches[0]
		o.Ref, o.Version, o.Was = c.Ref, c.Version, c.Was
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// Many commits are written at once. If some of their rows have changed since, only those are read
// first, and the changes stay.
func TestManyKnownRowsOfWhichSomeHaveMovedOn(t *testing.T) {
	tier.Plain(t)
	const n = 2 * manyRows
	for name, c := range map[string]struct {
		move func(t *testing.T, s *Store, outcomes []store.Outcome)
		see  func(t *testing.T, applied []store.Applied)
	}{
		"none": {func(*testing.T, *Store, []store.Outcome) {}, func(*testing.T, []store.Applied) {}},
		"leased": {func(t *testing.T, s *Store, outcomes []store.Outcome) {
			_, err := s.db.Exec(`UPDATE dltbatch_open_batches SET asked_at = 7 WHERE seq = ?`, outcomes[8].Row)
			require.NoError(t, err)
		}, func(t *testing.T, applied []store.Applied) {
			require.Equal(t, int64(7), applied[8].Row.AskedAt.UnixMicro())
		}},
		"put back, and committed": {func(t *testing.T, s *Store, outcomes []store.Outcome) {
			back := outcomes[3]
			back.Finding, back.Back = store.Unposted, batch.Queued
			_, err := s.Record(t.Context(), []store.Outcome{back, outcomes[5]})
			require.NoError(t, err)
		}, func(t *testing.T, applied []store.Applied) {
			require.Equal(t, batch.Queued, applied[3].From)
			require.Equal(t, batch.Committed, applied[5].From, "it was known")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, clk, path := newTestStore(t)
			ctx := t.Context()
			outcomes := claimedOutcomes(t, s, n, store.Outcome{By: batch.BySubmitter, Finding: store.IsCommitted})
			c.move(t, openStoreAgain(t, path, clk), outcomes)
			applied, err := s.Record(ctx, outcomes)
			require.NoError(t, err)
			for i, a := range applied {
				require.Equal(t, store.Written, a.Result, i) // a commit is a fact, whatever the version
				l, err := s.Look(ctx, a.Key, 1)
				require.NoError(t, err)
				require.Equal(t, batch.Committed, l.Row.State, i)
				require.Equal(t, l.Row, a.Row, i)
			}
			c.see(t, applied)
			var twice int
			require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM dltbatch_open_batches WHERE seq IN (SELECT seq FROM dltbatch_outcomes)`).Scan(&twice))
			require.Zero(t, twice)
		})
	}
}

// Many acceptances are written at once. If some of their rows have changed since, only those are
// read first: a batch that was put back stays so, and a lease stays in the row.
func TestManyKnownRowsAdvance(t *testing.T) {
	tier.Plain(t)
	const n, moved = 2 * manyRows, 3
	for _, name := range []string{"none", "put back", "leased"} {
		t.Run(name, func(t *testing.T) {
			s, clk, path := newTestStore(t)
			ctx := t.Context()
			outcomes := claimedOutcomes(t, s, n, store.Outcome{By: batch.BySubmitter, Finding: store.Accepted, Check: time.Hour})
			var err error
			switch name {
			case "put back":
				o := outcomes[moved]
				o.Finding, o.Back = store.Unposted, batch.Queued
				_, err = openStoreAgain(t, path, clk).Record(ctx, []store.Outcome{o})
			case "leased":
				_, err = s.db.Exec(`UPDATE dltbatch_open_batches SET asked_at = 7 WHERE seq = ?`, outcomes[moved].Row)
			}
			require.NoError(t, err)
			applied, err := s.Record(ctx, outcomes)
			require.NoError(t, err)
			for i, a := range applied {
				want, state := store.Written, batch.Pending
				if name == "put back" && i == moved {
					want, state = store.Fenced, batch.Queued
				}
				require.Equal(t, want, a.Result, i)
				l, err := s.Look(ctx, a.Key, 1)
				require.NoError(t, err)
				require.Equal(t, state, l.Row.State, i)
				a.Row.ResendUntil = l.Row.ResendUntil // the stored row has microseconds, and this time is no whole number of them
				require.Equal(t, l.Row, a.Row, i)
			}
			require.Equal(t, name == "leased", applied[moved].Row.AskedAt.UnixMicro() == 7)
		})
	}
}
