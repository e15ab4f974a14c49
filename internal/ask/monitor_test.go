package ask_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
)

var (
	errStore  = errors.New("database down")
	errLedger = errors.New("ledger down")
)

func TestQueriesAreGroupedAsTheLedgerWants(t *testing.T) {
	for byService, want := range map[bool][]query{
		true:  {{0, "s", []batch.ID{"a", "c", "e"}, []int{1, 1, 1}}, {0, "s", []batch.ID{"f"}, []int{1}}, {0, "t", []batch.ID{"b", "d"}, []int{1, 1}}},
		false: {{0, "s", []batch.ID{"a", "b", "c"}, []int{1, 1, 1}}, {0, "t", []batch.ID{"d", "e", "f"}, []int{1, 1, 1}}},
	} {
		t.Run(fmt.Sprint("by service ", byService), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits.GroupsByService, w.traits.MaxIDsPerQuery = byService, 3
				for i, s := range []batch.ServiceID{"s", "t", "s", "t", "s", "s"} {
					w.add(s, batch.ID('a'+rune(i)), 0)
				}
				_, stop := w.start(t, nil)
				sleepAndWait(100 * time.Millisecond)
				stop()
				assert.ElementsMatch(t, want, w.queries, "at most MaxIDsPerQuery, in their order")
				assert.Len(t, w.findings(), 6)
			})
		})
	}
}

func TestSeveralLedgersAreAskedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		for i, s := range []batch.ServiceID{"x1", "y1", "x2", "y2"} {
			w.add(s, batch.ID('a'+rune(i)), 0)
		}
		w.traitsOf = func(s batch.ServiceID) dlt.Traits { return dlt.Traits{Name: string(s[0])} }
		_, stop := w.start(t, nil)
		sleepAndWait(100 * time.Millisecond)
		stop()
		assert.ElementsMatch(t, []query{
			{0, "x1", []batch.ID{"a", "c"}, []int{1, 1}}, {0, "y1", []batch.ID{"b", "d"}, []int{1, 1}},
		}, w.queries)
	})
}

func TestAQueryHoldsAtMost50IDsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		for i := range 120 {
			w.add("s", batch.ID(fmt.Sprint(i)), 0)
		}
		_, stop := w.start(t, func(o *ask.Options) { o.RowsPerRead = 70 })
		sleepAndWait(100 * time.Millisecond)
		stop()
		assert.Len(t, w.findings(), 120, "more than one select's worth, at once")
		for _, q := range w.queries {
			assert.LessOrEqual(t, len(q.ids), 50)
		}
	})
}

// Promise 10: answers are matched by id, partial answers are used, and missing ones are asked for
// again.
func TestAnswersAreMatchedByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			if len(attempts) < 4 {
				return committedStatuses(attempts), nil
			}
			return []batch.Status{
				{ID: "d", Reported: batch.ReportedCommitted},
				{ID: "stranger", Reported: batch.ReportedCommitted},
				{ID: "a", Reported: batch.ReportedInvalid},
			}, errLedger // no answer about b and c
		}
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			w.add("s", id, 0)
		}
		_, stop := w.start(t, nil)
		sleepAndWait(2 * pollInterval)
		stop()
		assert.ElementsMatch(t, []string{"a is invalid", "d is committed", "b is committed", "c is committed"}, w.findings())
		require.GreaterOrEqual(t, len(w.queries), 2)
		assert.Equal(t, []batch.ID{"b", "c"}, w.queries[1].ids)
		require.Len(t, w.troubles, 1)
		require.ErrorIs(t, w.troubles[0], errLedger)
	})
}

func TestAMissingAnswerIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			return committedStatuses(attempts[:1]), nil
		}
		for _, id := range []batch.ID{"a", "b", "c"} {
			w.add("s", id, 0)
		}
		_, stop := w.start(t, nil)
		sleepAndWait(100 * time.Millisecond)
		stop()
		assert.Equal(t, []string{"a is committed", "b is committed", "c is committed"}, w.findings())
	})
}

// Status requests that fail are repeated with growing pauses, and not before the time that the
// ledger asks for.
func TestAStatusRequestThatFailsIsRepeatedWithPauses(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		least, most int // requests within two minutes
	}{
		"error":       {errLedger, 8, 16},
		"retry after": {fmt.Errorf("x: %w", &dlt.Error{Kind: dlt.ErrBusy, RetryAfter: 50 * time.Second}), 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.answer = func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) { return nil, c.err }
				for i := range 10 {
					w.add("s", batch.ID(fmt.Sprint(i)), 0)
				}
				_, stop := w.start(t, nil)
				sleepAndWait(2 * time.Minute)
				stop()
				assert.GreaterOrEqual(t, len(w.queries), c.least)
				assert.LessOrEqual(t, len(w.queries), c.most)
				assert.Len(t, w.troubles, 1, "told once")
				assert.Empty(t, w.findings())
			})
		})
	}
}

// An error, or an answer that makes no sense, affects its own group only, and the question is
// repeated.
func TestATroubleOfOneGroupTouchesNoOther(t *testing.T) {
	for name, bad := range map[string]func(ctx context.Context) ([]batch.Status, error){
		"error":   func(context.Context) ([]batch.Status, error) { return nil, errLedger },
		"nothing": func(context.Context) ([]batch.Status, error) { return nil, nil },
		"unknown word": func(context.Context) ([]batch.Status, error) {
			return []batch.Status{{ID: "of bad", Reported: 77}}, nil
		},
		"hangs": func(ctx context.Context) ([]batch.Status, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits.GroupsByService = true
				w.answer = func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
					if s == "bad" && w.now() < 30*time.Second {
						return bad(ctx)
					}
					return committedStatuses(attempts), nil
				}
				for _, s := range []batch.ServiceID{"bad", "good", "better"} {
					w.add(s, batch.ID("of "+s), 0)
				}
				_, stop := w.start(t, nil)
				sleepAndWait(100 * time.Millisecond)
				assert.ElementsMatch(t, []string{"of good is committed", "of better is committed"}, w.findings())
				w.add("late", "of late", 0)
				sleepAndWait(2 * time.Second)
				assert.Contains(t, w.findings(), "of late is committed")
				sleepAndWait(60 * time.Second)
				stop()
				assert.Contains(t, w.findings(), "of bad is committed", "once the trouble is over")
				assert.Len(t, w.findings(), 4)
			})
		})
	}
}

// A hanging group delays no other group, and many hanging groups delay a healthy one only a
// little.
func TestHangingGroupsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits.GroupsByService = true
		w.answer = func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			if s[0] == 'h' {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return committedStatuses(attempts), nil
		}
		for i := range 6 { // six of them hang, and there are four connections
			w.add(batch.ServiceID(fmt.Sprint("h", i)), batch.ID(fmt.Sprint("x", i)), 0)
		}
		_, stop := w.start(t, nil)
		sleepAndWait(2 * time.Minute) // the hanging groups are known by now
		for i := range 20 {
			id := batch.ID(fmt.Sprint("g", i))
			at := w.now()
			w.add(batch.ServiceID(fmt.Sprint("good", i)), id, 0)
			sleepAndWait(3 * time.Second)
			require.Contains(t, w.findings(), fmt.Sprint(id, " is committed"))
			require.Less(t, w.putAt[id]-at, 2*time.Second)
		}
		stop()
	})
}

// If nothing is due, the store is asked once in each PollInterval.
func TestAnIdleMonitorAsksOncePerPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.add("s", "done", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(100 * time.Second)
		stop()
		n := len(w.selectTimes())
		assert.GreaterOrEqual(t, n, 99)
		assert.LessOrEqual(t, n, 104)
	})
}

// If Empty says that nothing is open, the monitor reads the store only every five seconds, and
// asks at once about a row that it has noted.
func TestAMonitorRestsWhereNothingIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		var busy atomic.Bool
		m, stop := w.start(t, func(o *ask.Options) { o.Empty = func(time.Duration) bool { return !busy.Load() } })
		sleepAndWait(time.Minute)
		assert.InDelta(t, 13, len(w.selectTimes()), 1)
		for range 3 {
			before := len(w.selectTimes())
			m.DueIn(rules.PollInterval / 2)
			sleepAndWait(rules.PollInterval/2 + 50*time.Millisecond)
			assert.Len(t, w.selectTimes(), before+1, "it was noted")
			sleepAndWait(rules.PollInterval / 3)
		}
		before := len(w.selectTimes())
		busy.Store(true)
		sleepAndWait(10 * rules.PollInterval)
		assert.InDelta(t, before+10, len(w.selectTimes()), 1)
		stop()
	})
}

// A batch that stays pending is asked about with growing pauses, up to PollInterval.
func TestAPendingBatchIsAskedAboutLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = alwaysReported(batch.ReportedPending)
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(10*time.Second - time.Millisecond)
		stop()
		at := w.askTimes("a")
		require.Greater(t, len(at), 10)
		require.Less(t, len(at), 22)
		assert.LessOrEqual(t, len(w.selectTimes()), len(at)+10, "an answer alone is no reason to look again")
		assert.LessOrEqual(t, at[1]-at[0], 3*firstPoll)
		for i := 2; i < len(at); i++ {
			assert.LessOrEqual(t, at[i]-at[i-1], pollInterval+firstPoll)
		}
		last := at[len(at)-1] - at[len(at)-2]
		assert.GreaterOrEqual(t, last, pollInterval-firstPoll)
	})
}

// After several calls of DueIn, the monitor asks at each of their times.
func TestDueInWakesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		m, stop := w.start(t, nil)
		sleepAndWait(100 * time.Millisecond)
		w.add("s", "second", 60*time.Millisecond)
		m.DueIn(60 * time.Millisecond)
		w.add("s", "first", 20*time.Millisecond)
		m.DueIn(20 * time.Millisecond)
		w.add("s", "third", 200*time.Millisecond)
		m.DueIn(200 * time.Millisecond)
		sleepAndWait(500 * time.Millisecond)
		stop()
		for id, want := range map[batch.ID]time.Duration{"first": 120 * time.Millisecond, "second": 160 * time.Millisecond, "third": 300 * time.Millisecond} {
			at := w.askTimes(id)
			require.Len(t, at, 1, "%s", id)
			assert.InDelta(t, want, at[0], float64(5*time.Millisecond), "%s", id)
		}
	})
}

func TestDueInZeroMakesItLookNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		m, stop := w.start(t, nil)
		sleepAndWait(300 * time.Millisecond)
		w.add("s", "a", 0)
		m.DueIn(0)
		sleepAndWait(10 * time.Millisecond)
		assert.Equal(t, []string{"a is committed"}, w.findings())
		n := len(w.selectTimes())
		for range 1000 {
			m.DueIn(0)
			time.Sleep(10 * time.Microsecond)
		}
		sleepAndWait(0)
		stop()
		assert.LessOrEqual(t, len(w.selectTimes())-n, 8, "rate-limited: ten milliseconds of nudges")
	})
}

// A failed call of the store is repeated with pauses.
func TestAnErrorOfTheStoreIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.pendingError = func() error {
			if time.Since(w.startedAt) < 5*time.Second {
				return errStore
			}
			return nil
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(15 * time.Second)
		stop()
		assert.Equal(t, []string{"a is committed"}, w.findings())
		tries := slices.DeleteFunc(w.selectTimes(), func(at time.Duration) bool { return at >= 5*time.Second })
		assert.Less(t, len(tries), 30, "with pauses, of which each has a random part")
	})
}

// A stop cuts requests off, waits for their end, and records no outcome.
func TestAStopCutsRequestsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = func(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(time.Second)
		begin := w.now()
		stop()
		assert.Equal(t, begin, w.now())
		assert.Empty(t, w.findings())
		assert.Empty(t, w.troubles, "a stop is no trouble")
	})
}
