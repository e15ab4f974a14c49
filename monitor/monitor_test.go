package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

const timeout = 10 * time.Second

var (
	errStore  = errors.New("database down")
	errLedger = errors.New("ledger down")
)

// row is one that the monitor asks about.
type row struct {
	store.InFlight
	due    time.Time
	posted time.Time
}

// query is one BatchStatuses call as the ledger saw it.
type query struct {
	at       time.Duration
	service  batch.ServiceID
	ids      []batch.ID
	attempts []int
}

// world is a store, a ledger and an updater. A row whose outcome was put is gone.
type world struct {
	begin   time.Time
	traits  dlt.Traits
	answer  func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error)
	resolve func(ctx context.Context, a batch.Attempt) (dlt.Evidence, error)
	fail    func() error // of Pending

	mu       sync.Mutex
	rows     []*row
	selects  []time.Duration
	queries  []query
	outcomes []store.Outcome
	putAt    map[batch.ID]time.Duration
	troubles []error
}

func newWorld() *world {
	return &world{begin: time.Now(), traits: dlt.Traits{Name: "l"}, putAt: map[batch.ID]time.Duration{}}
}

func (w *world) now() time.Duration { return time.Since(w.begin) }

// add puts a row into the store that is Pending, and due after d.
func (w *world) add(service batch.ServiceID, id batch.ID, d time.Duration, change ...func(*row)) {
	r := &row{posted: time.Now(), due: time.Now().Add(d)}
	r.InFlight = store.InFlight{
		Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 3, State: batch.Pending, Attempt: 1, DoubtAttempt: 1,
		Ended: true,
	}
	for _, c := range change {
		c(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows = append(w.rows, r)
}

func (w *world) Pending(ctx context.Context, q store.PendingQuery) (out []store.InFlight, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.selects = append(w.selects, w.now())
	if w.fail != nil {
		if err := w.fail(); err != nil {
			return nil, err
		}
	}
	for _, r := range w.rows {
		if len(out) < q.Limit && !r.due.After(time.Now()) {
			r.due = time.Now().Add(q.Lease)
			f := r.InFlight
			f.PostedAgo = time.Since(r.posted)
			out = append(out, f)
		}
	}
	return out, ctx.Err()
}

func (w *world) Checked(ctx context.Context, due []store.Due) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range due {
		for _, r := range w.rows {
			if r.Key == d.Key {
				r.due = time.Now().Add(d.In)
			}
		}
	}
	return ctx.Err()
}

func (w *world) Put(o store.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes = append(w.outcomes, o)
	w.putAt[o.Key.ID] = w.now()
	w.rows = slices.DeleteFunc(w.rows, func(r *row) bool { return r.Key == o.Key })
}

func (w *world) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	q := query{at: w.now(), service: service}
	for _, a := range attempts {
		q.ids = append(q.ids, a.ID)
		q.attempts = append(q.attempts, a.Number)
	}
	w.mu.Lock()
	w.queries = append(w.queries, q)
	w.mu.Unlock()
	if w.answer == nil {
		return committed(attempts), nil
	}
	return w.answer(ctx, service, attempts)
}

func (w *world) Resolve(ctx context.Context, a batch.Attempt) (dlt.Evidence, error) {
	return w.resolve(ctx, a)
}

func committed(attempts []batch.Attempt) (out []batch.Status) {
	for _, a := range attempts {
		out = append(out, batch.Status{ID: a.ID, Reported: batch.ReportedCommitted})
	}
	return out
}

func saying(word batch.Reported) func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
	return func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, _ error) {
		for _, a := range attempts {
			out = append(out, batch.Status{ID: a.ID, Reported: word})
		}
		return out, nil
	}
}

// start runs a monitor as the Runner does.
func (w *world) start(t *testing.T, change func(*monitor.Options)) (*monitor.Monitor, context.CancelFunc) {
	o := monitor.Options{
		Rules: rules, Connections: 4, RequestTimeout: timeout, Batches: 100,
		Traits:   func(batch.ServiceID) dlt.Traits { return w.traits },
		Resolver: w,
		Trouble: func(_ batch.ServiceID, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, err)
		},
	}
	if change != nil {
		change(&o)
	}
	m := monitor.New(w, w, w, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx, m.Run, func(error) {})
	}()
	return m, func() {
		cancel()
		<-done
	}
}

// asked returns when a batch was asked about.
func (w *world) asked(id batch.ID) (at []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queries {
		if slices.Contains(q.ids, id) {
			at = append(at, q.at)
		}
	}
	return at
}

func (w *world) selected() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.selects)
}

// found returns "id finding" of each outcome.
func (w *world) found() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outcomes {
		out = append(out, fmt.Sprint(o.Key.ID, " ", o.Finding))
	}
	return out
}

// settle lets d pass and everything come to rest.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestQueriesAreGroupedAsTheLedgerWants(t *testing.T) {
	for byService, want := range map[bool][]query{
		true:  {{0, "s", []batch.ID{"a", "c", "e"}, []int{1, 1, 1}}, {0, "s", []batch.ID{"f"}, []int{1}}, {0, "t", []batch.ID{"b", "d"}, []int{1, 1}}},
		false: {{0, "s", []batch.ID{"a", "b", "c"}, []int{1, 1, 1}}, {0, "t", []batch.ID{"d", "e", "f"}, []int{1, 1, 1}}},
	} {
		t.Run(fmt.Sprint("by service ", byService), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.traits.GroupsByService, w.traits.MaxIDsPerQuery = byService, 3
				for i, s := range []batch.ServiceID{"s", "t", "s", "t", "s", "s"} {
					w.add(s, batch.ID('a'+rune(i)), 0)
				}
				_, stop := w.start(t, nil)
				settle(100 * time.Millisecond)
				stop()
				assert.ElementsMatch(t, want, w.queries, "at most MaxIDsPerQuery, in their order")
				assert.Len(t, w.found(), 6)
			})
		})
	}
}

func TestSeveralLedgersAreAskedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i, s := range []batch.ServiceID{"x1", "y1", "x2", "y2"} {
			w.add(s, batch.ID('a'+rune(i)), 0)
		}
		_, stop := w.start(t, func(o *monitor.Options) {
			o.Traits = func(s batch.ServiceID) dlt.Traits { return dlt.Traits{Name: string(s[0])} }
		})
		settle(100 * time.Millisecond)
		stop()
		assert.ElementsMatch(t, []query{
			{0, "x1", []batch.ID{"a", "c"}, []int{1, 1}}, {0, "y1", []batch.ID{"b", "d"}, []int{1, 1}},
		}, w.queries)
	})
}

func TestAQueryHoldsAtMost50IDsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 120 {
			w.add("s", batch.ID(fmt.Sprint(i)), 0)
		}
		_, stop := w.start(t, func(o *monitor.Options) { o.Batches = 70 })
		settle(100 * time.Millisecond)
		stop()
		assert.Len(t, w.found(), 120, "more than one select's worth, at once")
		for _, q := range w.queries {
			assert.LessOrEqual(t, len(q.ids), 50)
		}
	})
}

// Promise 10: answers are matched by id, partial ones used, missing ones asked again.
func TestAnswersAreMatchedByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			if len(attempts) < 4 {
				return committed(attempts), nil
			}
			return []batch.Status{
				{ID: "d", Reported: batch.ReportedCommitted},
				{ID: "stranger", Reported: batch.ReportedCommitted},
				{ID: "a", Reported: batch.ReportedInvalid},
			}, errLedger // b and c could not be had
		}
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			w.add("s", id, 0)
		}
		_, stop := w.start(t, nil)
		settle(2 * poll)
		stop()
		assert.ElementsMatch(t, []string{"a is invalid", "d is committed", "b is committed", "c is committed"}, w.found())
		require.GreaterOrEqual(t, len(w.queries), 2)
		assert.Equal(t, []batch.ID{"b", "c"}, w.queries[1].ids)
		require.Len(t, w.troubles, 1)
		require.ErrorIs(t, w.troubles[0], errLedger)
	})
}

func TestAMissingAnswerIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			return committed(attempts[:1]), nil
		}
		for _, id := range []batch.ID{"a", "b", "c"} {
			w.add("s", id, 0)
		}
		_, stop := w.start(t, nil)
		settle(100 * time.Millisecond)
		stop()
		assert.Equal(t, []string{"a is committed", "b is committed", "c is committed"}, w.found())
	})
}

// Status requests that fail are repeated with a growing pause, and not before the
// time that the ledger asks for.
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
				w := newWorld()
				w.answer = func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) { return nil, c.err }
				for i := range 10 {
					w.add("s", batch.ID(fmt.Sprint(i)), 0)
				}
				_, stop := w.start(t, nil)
				settle(2 * time.Minute)
				stop()
				assert.GreaterOrEqual(t, len(w.queries), c.least)
				assert.LessOrEqual(t, len(w.queries), c.most)
				assert.Len(t, w.troubles, 1, "told once")
				assert.Empty(t, w.found())
			})
		})
	}
}

// An error, a panic or an answer that makes no sense touches its own group only, and
// is asked again.
func TestATroubleOfOneGroupTouchesNoOther(t *testing.T) {
	for name, bad := range map[string]func(ctx context.Context) ([]batch.Status, error){
		"error":   func(context.Context) ([]batch.Status, error) { return nil, errLedger },
		"panic":   func(context.Context) ([]batch.Status, error) { panic("boom") },
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
				w := newWorld()
				w.traits.GroupsByService = true
				w.answer = func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
					if s == "bad" && w.now() < 30*time.Second {
						return bad(ctx)
					}
					return committed(attempts), nil
				}
				for _, s := range []batch.ServiceID{"bad", "good", "better"} {
					w.add(s, batch.ID("of "+s), 0)
				}
				_, stop := w.start(t, nil)
				settle(100 * time.Millisecond)
				assert.ElementsMatch(t, []string{"of good is committed", "of better is committed"}, w.found())
				w.add("late", "of late", 0)
				settle(2 * time.Second)
				assert.Contains(t, w.found(), "of late is committed")
				settle(60 * time.Second)
				stop()
				assert.Contains(t, w.found(), "of bad is committed", "once the trouble is over")
				assert.Len(t, w.found(), 4)
			})
		})
	}
}

// A hanging group delays no other, and one of many that hang not much.
func TestHangingGroupsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits.GroupsByService = true
		w.answer = func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			if s[0] == 'h' {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return committed(attempts), nil
		}
		for i := range 6 { // of four connections
			w.add(batch.ServiceID(fmt.Sprint("h", i)), batch.ID(fmt.Sprint("x", i)), 0)
		}
		_, stop := w.start(t, nil)
		settle(2 * time.Minute) // they are known by now
		for i := range 20 {
			id := batch.ID(fmt.Sprint("g", i))
			at := w.now()
			w.add(batch.ServiceID(fmt.Sprint("good", i)), id, 0)
			settle(3 * time.Second)
			require.Contains(t, w.found(), fmt.Sprint(id, " is committed"))
			require.Less(t, w.putAt[id]-at, 2*time.Second)
		}
		stop()
	})
}

// Without anything due the store is asked about once each poll interval.
func TestAnIdleMonitorAsksOncePerPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.add("s", "done", 0)
		_, stop := w.start(t, nil)
		settle(100 * time.Second)
		stop()
		n := len(w.selected())
		assert.GreaterOrEqual(t, n, 99)
		assert.LessOrEqual(t, n, 104)
	})
}

// One that stays pending is asked about less and less often, down to the interval.
func TestAPendingBatchIsAskedAboutLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = saying(batch.ReportedPending)
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		settle(10*time.Second - time.Millisecond)
		stop()
		at := w.asked("a")
		require.Greater(t, len(at), 10)
		require.Less(t, len(at), 22)
		assert.LessOrEqual(t, len(w.selected()), len(at)+10, "an answer alone is no reason to look again")
		assert.LessOrEqual(t, at[1]-at[0], 3*first)
		for i := 2; i < len(at); i++ {
			assert.LessOrEqual(t, at[i]-at[i-1], poll+first)
		}
		last := at[len(at)-1] - at[len(at)-2]
		assert.GreaterOrEqual(t, last, poll-first)
	})
}

// What is said to become due is asked about then, each of several.
func TestDueInWakesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m, stop := w.start(t, nil)
		settle(100 * time.Millisecond)
		w.add("s", "second", 60*time.Millisecond)
		m.DueIn(60 * time.Millisecond)
		w.add("s", "first", 20*time.Millisecond)
		m.DueIn(20 * time.Millisecond)
		w.add("s", "third", 200*time.Millisecond)
		m.DueIn(200 * time.Millisecond)
		settle(500 * time.Millisecond)
		stop()
		for id, want := range map[batch.ID]time.Duration{"first": 120 * time.Millisecond, "second": 160 * time.Millisecond, "third": 300 * time.Millisecond} {
			at := w.asked(id)
			require.Len(t, at, 1, "%s", id)
			assert.InDelta(t, want, at[0], float64(5*time.Millisecond), "%s", id)
		}
	})
}

func TestANudgeMakesItLookNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m, stop := w.start(t, nil)
		settle(300 * time.Millisecond)
		w.add("s", "a", 0)
		m.Nudge()
		settle(10 * time.Millisecond)
		assert.Equal(t, []string{"a is committed"}, w.found())
		n := len(w.selected())
		for range 1000 {
			m.Nudge()
			time.Sleep(10 * time.Microsecond)
		}
		settle(0)
		stop()
		assert.LessOrEqual(t, len(w.selected())-n, 8, "rate-limited: ten milliseconds of nudges")
	})
}

// In doubt: before LateArrival has passed on this process's own clock, from its first
// sight of the claim's end, nothing follows from not being found, whatever age the
// database's clock says.
func TestLateArrivalIsWaitedOnTheOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits = ledgerTraits
		w.answer = saying(batch.ReportedUnknown)
		inDoubt := func(r *row) {
			r.State, r.ResendLeft = batch.Submitting, dlt.Forever
			r.posted = time.Now().Add(-10 * time.Hour) // the database's clock jumped
		}
		w.add("s", "a", 0, inDoubt)
		_, stop := w.start(t, nil)
		time.Sleep(3 * time.Second)
		w.add("s", "b", 0, inDoubt)
		settle(late - 3*time.Second - 2*time.Millisecond)
		require.Empty(t, w.found())
		settle(poll + 2*time.Millisecond)
		require.Equal(t, []string{"a no trace"}, w.found())
		settle(3*time.Second + poll)
		stop()
		assert.Equal(t, []string{"a no trace", "b no trace"}, w.found())
		assert.GreaterOrEqual(t, w.putAt["a"], late)
		assert.GreaterOrEqual(t, w.putAt["b"], late+3*time.Second)
	})
}

// A new version is a new sight: another attempt has its own late arrival.
func TestTheFirstSightIsOfAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits = ledgerTraits
		w.answer = saying(batch.ReportedUnknown)
		old := func(version int64) func(r *row) {
			return func(r *row) {
				r.State, r.ResendLeft, r.Version = batch.Submitting, dlt.Forever, version
				r.posted = time.Now().Add(-10 * time.Hour)
			}
		}
		w.add("s", "a", 0, old(3))
		m, stop := w.start(t, nil)
		settle(late + poll)
		require.Len(t, w.found(), 1)
		w.add("s", "a", 0, old(5))
		settle(late - time.Second)
		require.Len(t, w.found(), 1)
		settle(2 * poll)
		require.Len(t, w.found(), 2)
		m.Forget("a", 5)
		w.add("s", "a", 0, old(5))
		settle(late - time.Second)
		require.Len(t, w.found(), 2, "forgotten")
		stop()
	})
}

// Only evidence without an error is evidence.
func TestResolverErrorsAreNoEvidence(t *testing.T) {
	for name, bad := range map[string]func() (dlt.Evidence, error){
		"error":                 func() (dlt.Evidence, error) { return dlt.CannotTell, errLedger },
		"error beside evidence": func() (dlt.Evidence, error) { return dlt.NotCommitted, errLedger },
		"panic":                 func() (dlt.Evidence, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.traits = ledgerTraits
				w.traits.Resolves = true
				w.answer = saying(batch.ReportedUnknown)
				asked := make(chan batch.Attempt, 1000)
				var cured atomic.Bool
				w.resolve = func(_ context.Context, a batch.Attempt) (dlt.Evidence, error) {
					asked <- a
					if !cured.Load() {
						return bad()
					}
					return dlt.NotCommitted, nil
				}
				w.add("s", "a", 0, func(r *row) { r.State = batch.Submitting })
				_, stop := w.start(t, nil)
				settle(grace + 10*time.Second)
				require.Empty(t, w.found())
				require.NotEmpty(t, asked)
				require.NotEmpty(t, w.troubles)
				assert.LessOrEqual(t, len(asked), 12, "once a poll interval, after the grace")
				assert.Equal(t, batch.Attempt{Key: batch.Key{Service: "s", ID: "a"}, Number: 1}, <-asked)
				cured.Store(true)
				settle(2 * poll)
				stop()
				assert.Equal(t, []string{"a not committed"}, w.found())
			})
		})
	}
}

// Where a duplicate would be executed, a claim that expired on the database's clock
// alone is not believed: its request may still be under way until a whole claim has
// passed on this process's own clock.
func TestAnExpiredClaimIsNotBelievedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits = ledgerTraits
		w.traits.Resolves = true
		w.answer = saying(batch.ReportedUnknown)
		w.resolve = func(context.Context, batch.Attempt) (dlt.Evidence, error) { return dlt.NotCommitted, nil }
		w.add("s", "a", 0, func(r *row) {
			r.State, r.Ended, r.posted = batch.Submitting, false, time.Now().Add(-10*time.Hour)
		})
		_, stop := w.start(t, nil)
		settle(ttl + late - time.Second)
		require.Empty(t, w.found())
		settle(3 * time.Second)
		stop()
		assert.Equal(t, []string{"a not committed"}, w.found())
	})
}

func TestAResolverThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits = ledgerTraits
		w.traits.Resolves, w.traits.GroupsByService = true, true
		w.answer = saying(batch.ReportedUnknown)
		w.resolve = func(ctx context.Context, _ batch.Attempt) (dlt.Evidence, error) {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.LessOrEqual(t, time.Until(deadline), timeout)
			<-ctx.Done()
			return dlt.CannotTell, ctx.Err()
		}
		w.add("s", "a", 0, func(r *row) { r.State, r.posted = batch.Submitting, time.Now().Add(-time.Minute) })
		_, stop := w.start(t, nil)
		settle(late + 2*timeout + poll)
		assert.Empty(t, w.found())
		assert.NotEmpty(t, w.troubles)
		stop()
	})
}

// An error of the store ends a round; the next one asks about all the same.
func TestAnErrorOfTheStoreIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fail = func() error {
			if time.Since(w.begin) < 5*time.Second {
				return errStore
			}
			return nil
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		settle(15 * time.Second)
		stop()
		assert.Equal(t, []string{"a is committed"}, w.found())
		assert.Less(t, len(w.selected()), 16, "with pauses")
	})
}

// A stop cuts requests off, waits for them, and concludes nothing.
func TestAStopCutsRequestsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = func(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		settle(time.Second)
		begin := w.now()
		stop()
		assert.Equal(t, begin, w.now())
		assert.Empty(t, w.found())
		assert.Empty(t, w.troubles, "a stop is no trouble")
	})
}
