package ask_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// In doubt, if a resend would do harm, "not found" means nothing until LateArrival has passed on
// this process's own clock since its first sight of the claim's end, whatever the database's clock
// says.
func TestLateArrivalIsWaitedOnTheOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.answer = alwaysReported(batch.ReportedUnknown)
		inDoubt := func(r *row) {
			r.State = batch.Submitting
			r.postedAt = time.Now().Add(-10 * time.Hour) // the database's clock jumped
		}
		w.add("s", "a", 0, inDoubt)
		_, stop := w.start(t, nil)
		time.Sleep(3 * time.Second)
		w.add("s", "b", 0, inDoubt)
		sleepAndWait(grace - 3*time.Second - 2*time.Millisecond)
		require.Empty(t, w.findings())
		sleepAndWait(pollInterval + 2*time.Millisecond)
		require.Equal(t, []string{"a undecidable"}, w.findings())
		sleepAndWait(3*time.Second + pollInterval)
		stop()
		assert.Equal(t, []string{"a undecidable", "b undecidable"}, w.findings())
		assert.GreaterOrEqual(t, w.putAt["a"], grace)
		assert.GreaterOrEqual(t, w.putAt["b"], grace+3*time.Second)
	})
}

// The age of accepted batches is measured by this process's own clock, too: a database whose clock
// has jumped says that all was posted long ago.
func TestAJumpOfTheDatabasesClockAgesNothing(t *testing.T) {
	for _, state := range []batch.State{batch.Pending, batch.Valid, batch.Invalid} {
		synctest.Test(t, func(t *testing.T) {
			w := newMonitorTest()
			w.traits = ledgerTraits
			w.answer = alwaysReported(batch.ReportedUnknown)
			w.add("s", "a", 0, func(r *row) {
				r.State = state
				r.postedAt, r.SettleLeft = time.Now().Add(-10*time.Hour), -time.Hour
			})
			_, stop := w.start(t, nil)
			own, want := grace, "a undecidable"
			if state == batch.Invalid {
				own, want = ledgerTraits.Settle, "a settled"
			}
			sleepAndWait(own - time.Second)
			require.Empty(t, w.findings(), "%s", state)
			sleepAndWait(time.Second + 2*pollInterval)
			stop()
			assert.Equal(t, []string{want}, w.findings(), "%s", state)
		})
	}
}

// Each version has its own first sight, because another attempt has its own late arrival.
func TestTheFirstSightIsOfAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.answer = alwaysReported(batch.ReportedUnknown)
		old := func(version int64) func(r *row) {
			return func(r *row) {
				r.State, r.Version = batch.Submitting, version
				r.postedAt = time.Now().Add(-10 * time.Hour)
			}
		}
		w.add("s", "a", 0, old(3))
		_, stop := w.start(t, nil)
		sleepAndWait(grace + pollInterval)
		require.Len(t, w.findings(), 1)
		w.add("s", "a", 0, old(5))
		sleepAndWait(grace - time.Second)
		require.Len(t, w.findings(), 1)
		sleepAndWait(2 * pollInterval)
		require.Len(t, w.findings(), 2)
		w.writeOutcome(store.Outcome{Ref: store.Ref{Key: key("s", "a")}, Version: 5, By: batch.ByMonitor}, store.Row{State: batch.Unknown, Version: 6})
		w.add("s", "a", 0, old(5))
		sleepAndWait(grace - time.Second)
		require.Len(t, w.findings(), 2, "forgotten")
		stop()
	})
}

// Evidence that comes with an error is not used.
func TestResolverErrorsAreNoEvidence(t *testing.T) {
	for name, bad := range map[string]func() (dlt.Evidence, error){
		"error":                 func() (dlt.Evidence, error) { return dlt.CannotTell, errLedger },
		"error beside evidence": func() (dlt.Evidence, error) { return dlt.NotCommitted, errLedger },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits = ledgerTraits
				w.traits.Resolves = true
				w.answer = alwaysReported(batch.ReportedUnknown)
				asked := make(chan batch.Attempt, 1000)
				var cured atomic.Bool
				w.resolve = func(_ context.Context, d dlt.Doubt) (dlt.Evidence, error) {
					asked <- d.Attempt
					if !cured.Load() {
						return bad()
					}
					return dlt.NotCommitted, nil
				}
				w.add("s", "a", 0, func(r *row) { r.State, r.Prepared = batch.Submitting, []byte("kept") })
				_, stop := w.start(t, nil)
				sleepAndWait(grace + 10*time.Second)
				require.Empty(t, w.findings())
				require.NotEmpty(t, asked)
				require.NotEmpty(t, w.troubles)
				assert.LessOrEqual(t, len(asked), 12, "once a poll interval, after the grace")
				assert.Equal(t, batch.Attempt{Key: batch.Key{Service: "s", ID: "a"}, Number: 1, Prepared: []byte("kept")}, <-asked)
				cured.Store(true)
				sleepAndWait(2 * pollInterval)
				stop()
				assert.Equal(t, []string{"a not committed"}, w.findings())
			})
		})
	}
}

// If a duplicate would be executed, the monitor does not act on a claim that expired by the
// database's clock alone: the claim's request may be under way until a whole claim has passed on
// this process's own clock.
func TestAnExpiredClaimIsNotBelievedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.traits.Resolves = true
		w.answer = alwaysReported(batch.ReportedUnknown)
		w.resolve = func(context.Context, dlt.Doubt) (dlt.Evidence, error) { return dlt.NotCommitted, nil }
		w.add("s", "a", 0, func(r *row) {
			r.State, r.Ended, r.postedAt = batch.Submitting, false, time.Now().Add(-10*time.Hour)
		})
		_, stop := w.start(t, nil)
		sleepAndWait(claimTTL + lateArrival - time.Second)
		require.Empty(t, w.findings())
		sleepAndWait(3 * time.Second)
		stop()
		assert.Equal(t, []string{"a not committed"}, w.findings())
	})
}

func TestAResolverThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.traits.Resolves, w.traits.GroupsByService = true, true
		w.answer = alwaysReported(batch.ReportedUnknown)
		w.resolve = func(ctx context.Context, _ dlt.Doubt) (dlt.Evidence, error) {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.LessOrEqual(t, time.Until(deadline), timeout)
			<-ctx.Done()
			return dlt.CannotTell, ctx.Err()
		}
		w.add("s", "a", 0, func(r *row) { r.State, r.postedAt = batch.Submitting, time.Now().Add(-time.Minute) })
		_, stop := w.start(t, nil)
		sleepAndWait(grace + 2*timeout + pollInterval)
		assert.Empty(t, w.findings())
		assert.NotEmpty(t, w.troubles)
		stop()
	})
}

// A doubt gets older during a slow status request. A resolver that took the doubt for younger
// would take a log that began after the doubt for proof.
func TestADoubtIsNeverReportedYoungerThanItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.traits.Resolves = true
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			time.Sleep(timeout - time.Second)
			return alwaysReported(batch.ReportedUnknown)(ctx, s, as)
		}
		var told dlt.Doubt
		posted := time.Now().Add(-time.Hour)
		var ago time.Duration
		w.add("s", "a", 0, func(r *row) {
			r.State, r.postedAt, r.DoubtAgo = batch.Submitting, posted, 2*time.Hour // the age at the time of the read, at least
		})
		w.resolve = func(_ context.Context, d dlt.Doubt) (dlt.Evidence, error) {
			told, ago = d, time.Since(posted)
			return dlt.NotCommitted, nil
		}
		_, stop := w.start(t, nil)
		sleepAndWait(lateArrival + 3*timeout)
		stop()
		require.Equal(t, []string{"a not committed"}, w.findings())
		assert.GreaterOrEqual(t, told.Since, 2*time.Hour+timeout-time.Second)
		assert.LessOrEqual(t, told.Ended, ago, "and never ended longer ago than it did")
	})
}
