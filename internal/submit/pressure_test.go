package submit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/store"
)

// The ledger's answer closes the gate, and one probe in each pause finds out when the cause is
// over.
func TestTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		err           error
		maxProbes     int           // within the minute for which the cause lasts
		maxReopenTime time.Duration // the longest time after the end of the cause
	}{
		"busy":               {dlt.ErrBusy, 12, 20 * time.Second},
		"unreachable":        {dlt.ErrUnavailable, 12, 20 * time.Second},
		"misconfigured":      {dlt.ErrMisconfigured, 9, 75 * time.Second},
		"busy, and says how": {&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: 20 * time.Second}, 3, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r := start(t, func(context.Context, batch.Attempt) error {
					if time.Since(begin) < time.Minute {
						return c.err
					}
					return nil
				}, func(o *submit.Options, _ *ledger) { o.Retry = closedForASecond })
				ctx, cancel := context.WithCancel(t.Context())
				go r.feed(ctx, "s")
				time.Sleep(time.Minute - time.Millisecond)
				synctest.Wait()
				probes := r.requestsSoFar()
				assert.LessOrEqual(t, len(probes), c.maxProbes)
				assert.GreaterOrEqual(t, len(probes), 3)
				require.Equal(t, []event{{0, true, "", true}}, r.eventsSoFar(), "paused, once")
				require.ErrorIs(t, r.errs[0], c.err)
				for i, q := range probes[1:] {
					if e := new(dlt.Error); errors.As(c.err, &e) && e.RetryAfter > 0 {
						assert.GreaterOrEqual(t, q.sentAfter-probes[i].sentAfter, e.RetryAfter)
					}
				}
				time.Sleep(c.maxReopenTime)
				synctest.Wait()
				events := r.eventsSoFar()
				require.Len(t, events, 2, "resumed, once")
				assert.False(t, events[1].isPause)
				assert.True(t, events[1].ofLedger)
				for _, o := range r.outcomes {
					assert.False(t, o.Spend)
					assert.NotEqual(t, store.Refused, o.Finding, "promise 10: nothing is burnt")
				}
				cancel()
				r.stopAndWait()
				assert.Greater(t, len(r.requestsSoFar()), len(probes)+100, "and goes on at full speed")
			})
		})
	}
}

// Many requests that end busy at about the same time close the gate once.
func TestManyBusyAnswersCloseTheGateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			_ = acceptAfter(100*time.Millisecond)(ctx, a)
			return dlt.ErrBusy
		}, func(o *submit.Options, _ *ledger) { o.Retry = closedForASecond })
		for i := range 8 {
			r.post(farUntil, batch.ServiceID(fmt.Sprint("s", i)), batch.ID(fmt.Sprint("b", i)))
		}
		r.post(farUntil, "late", "late")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, r.eventsSoFar(), 1)
		assert.Len(t, r.requestsSoFar(), 8)
		assert.Contains(t, r.findings(), "late unposted", "what was claimed and cannot be posted is put back")
		n, again := r.Room()
		assert.Zero(t, n)
		assert.Positive(t, again)
		assert.LessOrEqual(t, again, 250*time.Millisecond, "that of one pause")
		time.Sleep(again)
		n, _ = r.Room()
		assert.Equal(t, 1, n, "room for the probe")
		r.stopAndWait()
	})
}

// Even if the observer is slow to handle the closing of the gate, its last call reports the
// opening.
func TestPausedAndResumedAreReportedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			if a.ID == "busy" {
				return dlt.ErrBusy
			}
			return acceptAfter(100*time.Millisecond)(ctx, a) // sent before the gate closed; its answer opens the gate
		}, func(o *submit.Options, _ *ledger) {
			o.Retry = closedForASecond
			o.Paused = func(submit.Scope, error) {
				time.Sleep(time.Second)
				events = append(events, "paused")
			}
			o.Resumed = func(submit.Scope) { events = append(events, "resumed") }
		})
		r.post(farUntil, "s", "fine")
		synctest.Wait()
		r.post(farUntil, "t", "busy")
		time.Sleep(5 * time.Second)
		r.stopAndWait()
		assert.Equal(t, []string{"paused", "resumed"}, events)
	})
}

// Back-pressure slows the endpoint or the service, according to the traits.
func TestPressureSlowsItsScope(t *testing.T) {
	for scope, others := range map[dlt.PressureScope]bool{dlt.ScopeEndpoint: false, dlt.ScopeService: true} {
		t.Run(fmt.Sprint(scope), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(_ context.Context, a batch.Attempt) error {
					if a.Service == "busy" {
						return dlt.ErrBusy
					}
					return nil
				}, func(o *submit.Options, l *ledger) { o.Retry, l.traits.PressureScope = closedForASecond, scope })
				r.post(farUntil, "busy", "a")
				synctest.Wait()
				r.post(farUntil, "other", "b")
				r.post(farUntil, "busy", "c")
				synctest.Wait()
				assert.Positive(t, r.Closed("busy"))
				assert.Equal(t, !others, r.Closed("other") > 0)
				n, _ := r.Room()
				assert.Equal(t, others, n > 0)
				want := []string{"a failed", "b unposted", "c unposted"}
				if others {
					want[1] = "b accepted"
				}
				assert.ElementsMatch(t, want, r.findings())
				events := r.eventsSoFar()
				require.Len(t, events, 1)
				assert.Equal(t, !others, events[0].ofLedger)
				if others {
					assert.Equal(t, batch.ServiceID("busy"), events[0].service)
				}
				r.stopAndWait()
			})
		})
	}
}

func TestRoomIsWhatHandsCanPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(100*time.Millisecond), func(o *submit.Options, _ *ledger) { o.MaxBatches = 6 })
		room := func() int { n, _ := r.Room(); return n }
		assert.Equal(t, 6, room(), "at most ClaimLimit")
		for i := range 5 {
			r.post(farUntil, "s", batch.ID(fmt.Sprint(i)))
		}
		synctest.Wait()
		assert.Equal(t, 3, room(), "the free hands")
		for i := range 3 {
			r.post(farUntil, "s", batch.ID(fmt.Sprint("m", i)))
		}
		synctest.Wait()
		assert.Zero(t, room())
		r.post(farUntil, "s", "waits")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 6, room(), "what was posted lately, at most ClaimLimit")
		r.mu.Lock()
		ready := r.readyCalls
		r.mu.Unlock()
		assert.GreaterOrEqual(t, ready, 8, "told whenever a hand is free")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, r.findings(), 9)
		r.stopAndWait()
	})
}

// One hand posts all batches of a run, so Room counts batches, not runs.
func TestRoomCountsBatchesOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(time.Millisecond), func(o *submit.Options, _ *ledger) { o.MaxBatches = 100 })
		var ids []batch.ID
		for i := range 40 {
			ids = append(ids, batch.ID(fmt.Sprint(i)))
		}
		r.post(farUntil, "s", ids...)
		time.Sleep(30*time.Millisecond + time.Microsecond)
		synctest.Wait()
		n, _ := r.Room()
		assert.Equal(t, 30, n, "so far")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		n, _ = r.Room()
		assert.Equal(t, 40, n)
		r.stopAndWait()
	})
}

// Runs that wait for a hand reduce Room.
func TestQueuedRunsTakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(500*time.Millisecond), nil)
		for i := range 8 {
			r.post(farUntil, "s", batch.ID(fmt.Sprint(i)))
		}
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		n, _ := r.Room()
		require.Equal(t, 8, n)
		for i := range 8 {
			r.post(farUntil, "s", batch.ID(fmt.Sprint("n", i)))
		}
		synctest.Wait()
		r.post(farUntil, "s", "q1", "q2", "q3")
		n, _ = r.Room()
		assert.Equal(t, 5, n, "eight were posted lately, and three wait")
		r.stopAndWait()
	})
}

// Promise 7: requests of services that hang wait for their own share, and no other service waits
// for them.
func TestServicesThatHangAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			if a.Service[0] == 'h' {
				return acceptAfter(time.Hour)(ctx, a)
			}
			return nil
		}, nil)
		for i := range 8 {
			r.post(farUntil, batch.ServiceID(fmt.Sprint("h", i)), batch.ID(fmt.Sprint("x", i)))
		}
		time.Sleep(2 * timeout) // the pool knows by now that they hang
		r.post(farUntil, "h0", "y0")
		r.post(farUntil, "h1", "y1")
		synctest.Wait()
		assert.Positive(t, r.Closed("h2"), "two of eight hands are theirs")
		assert.Zero(t, r.Closed("good"))
		n, _ := r.Room()
		assert.Equal(t, 8, n)
		before := r.readyCount()
		r.post(farUntil, "h2", "y2") // a run that was claimed nevertheless does not hold up others
		synctest.Wait()
		assert.Greater(t, r.readyCount(), before, "whoever saw it count for Room looks again")
		r.post(farUntil, "good", "g")
		synctest.Wait()
		assert.Contains(t, r.findings(), "g accepted")
		r.stopAndWait()
	})
}

// A run that has a hand reduces the room of the gate before the gate knows of it. Otherwise
// another lane would be claimed meanwhile, find no room, and go back behind all others.
func TestRoomCountsRunsOnTheirWayToTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *submitterTest
		var rooms []int
		begin := time.Now()
		r = build(func(context.Context, batch.Attempt) error {
			if time.Since(begin) < time.Second {
				return dlt.ErrBusy
			}
			return nil
		}, func(o *submit.Options, _ *ledger) {
			o.Retry = func(batch.ServiceID) (int, time.Duration) { // called just before the gate
				n, again := r.Room()
				assert.Equal(t, n == 0, again > 0, "nobody wakes the queuer")
				rooms = append(rooms, n)
				return 0, time.Second
			}
		})
		r.run(t)
		r.post(time.Minute, "s", "a")
		time.Sleep(time.Second)
		n, _ := r.Room()
		require.Equal(t, 1, n, "for the probe")
		r.post(time.Minute, "s", "b")
		synctest.Wait()
		require.Equal(t, []int{7, 0}, rooms)
		n, _ = r.Room()
		assert.Equal(t, 4, n, "half of the pool")
		r.stopAndWait()
	})
}
