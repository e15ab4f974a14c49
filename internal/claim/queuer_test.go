package claim_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/store"
)

const (
	claimTTL    = time.Minute
	claimMargin = 5 * time.Second
	scan        = 10 * time.Second
)

// Promise 6: a lane without a hint is found, however many lanes there are, at the latest after as
// many scans as it takes to read all lanes.
func TestTheScanRotatesOverAllLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: append([]batch.ServiceID{""}, serviceNames(7)...)} // LanesPerScan is 3
		_, stop := w.start(t, nil)
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		stop()
		for i, s := range w.lanes {
			first := time.Duration(i/3) * scan
			assert.Equal(t, []time.Duration{first, first + 3*scan}, w.askTimes(s), "lane %q", s)
		}
		assert.Equal(t, store.LanesQuery{Start: true, Limit: 3}, w.scans[0])
		assert.Equal(t, store.LanesQuery{After: "s01", Limit: 3}, w.scans[1])
	})
}

// Slow scans take a twentieth of the time, and one is made in each minute at least.
func TestAScanThatTakesLongIsMadeLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		takes := time.Second
		var began []time.Duration
		w := &claimTest{}
		w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
			mu.Lock()
			began = append(began, w.now())
			d := takes
			mu.Unlock()
			time.Sleep(d)
			return nil, nil
		}
		_, stop := w.start(t, func(o *claim.Options) { o.ScanInterval, o.Query.TTL = time.Second, time.Hour })
		time.Sleep(50 * time.Second)
		mu.Lock()
		require.Len(t, began, 3)
		require.Equal(t, 21*time.Second, began[2]-began[1])
		takes = 10 * time.Second
		began = nil
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		mu.Lock()
		require.GreaterOrEqual(t, len(began), 2)
		require.Equal(t, 70*time.Second, began[1]-began[0])
		mu.Unlock()
		stop()
	})
}

// After an error the scan goes on at its place. Otherwise, with frequent errors, lanes beyond the
// first LanesPerScan would never be read.
func TestTheScanGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		lanes, n := serviceNames(9), 0
		w.list = func(q store.LanesQuery) (out []batch.ServiceID, _ error) {
			if n++; n%2 == 0 {
				return nil, errStore
			}
			for _, s := range lanes {
				if (q.Start || s > q.After) && len(out) < q.Limit {
					out = append(out, s)
				}
			}
			return out, nil
		}
		_, stop := w.start(t, nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		for _, s := range lanes {
			assert.NotEmpty(t, w.askTimes(s), "lane %q", s)
		}
	})
}

// Promise 6: a lane that the store cannot read delays only itself, longer each time, and is
// reported.
func TestALaneThatCannotBeReadWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(3)}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			if slices.Contains(q.Lanes, "s01") {
				return store.Claimed{}, errStore
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for _, s := range []batch.ServiceID{"s00", "s02", "fresh"} {
			n := len(w.askTimes(s))
			begin := w.now()
			q.Hint(s)
			time.Sleep(time.Second)
			synctest.Wait()
			at := w.askTimes(s)
			require.Greater(t, len(at), n, "lane %q", s)
			assert.LessOrEqual(t, at[n]-begin, 50*time.Millisecond, "lane %q is claimed from at once", s)
		}
		stop()
		bad := w.askTimes("s01")
		require.Greater(t, len(bad), 4)
		assert.Less(t, len(bad), 80, "five seconds apart in the end")
		assert.Greater(t, len(w.heldErrors), 50, "told of once it is not the store that fails now and then")
		require.ErrorIs(t, w.heldErrors[0], errStore)
	})
}

func TestScansWaitForTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		q, stop := w.start(t, nil)
		for range 100 {
			q.Wake()
			q.Hint("a")
			time.Sleep(scan / 10)
		}
		synctest.Wait()
		stop()
		assert.LessOrEqual(t, len(w.scans), 11, "whatever wakes the queuer meanwhile")
	})
}

func TestAHintIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		q, stop := w.start(t, nil)
		time.Sleep(1500 * time.Millisecond)
		q.Hint("b")
		q.Hint("a")
		q.HintIn("later", 2*time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{1500 * time.Millisecond}, w.askTimes("a"))
		assert.Equal(t, []time.Duration{1500 * time.Millisecond}, w.askTimes("b"))
		assert.Equal(t, []time.Duration{3500 * time.Millisecond}, w.askTimes("later"))
	})
}

// A hint about lanes that this process does not know causes a scan at once. Many hints cause at
// most ten scans a second.
func TestHintsLeadToScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		q, stop := w.start(t, nil)
		scans := func() int { return locked(w, func() int { return len(w.scans) }) }
		for range 3 {
			time.Sleep(time.Minute)
			for range 8 {
				before := scans()
				q.Scan()
				synctest.Wait()
				assert.Greater(t, scans(), before)
				time.Sleep(20 * time.Millisecond)
			}
		}
		before := scans()
		for range 1000 {
			q.Scan()
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		assert.InDelta(t, 105, scans()-before, 15, "in ten seconds")
	})
}

// A scan that is slow because it finds many lanes is followed by a short rest. A scan that is slow
// and finds few is followed by a long rest.
func TestASlowScanThatFindsMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for found, want := range map[int]int{5000: 16, 1: 4} {
			w := &claimTest{lanes: serviceNames(found)}
			all := w.lanes
			w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
				time.Sleep(2560 * time.Millisecond)
				return all, nil
			}
			_, stop := w.start(t, func(o *claim.Options) { o.LanesPerScan = 10_000 })
			time.Sleep(200 * time.Second)
			synctest.Wait()
			stop()
			assert.InDelta(t, want, len(w.scans), 2, "of %d lanes, in 200 s", found)
		}
	})
}

// Scans take half of the time at most, however many lanes they find, and however many hints ask
// for a scan.
func TestScansTakeHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for found, took := range map[int]time.Duration{200: 150 * time.Millisecond, 4000: 4 * time.Second} {
			w := &claimTest{}
			all := serviceNames(found)
			w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
				time.Sleep(took)
				return all, nil
			}
			q, stop := w.start(t, func(o *claim.Options) { o.LanesPerScan, o.ScanInterval = 10_000, time.Second })
			for range 10_000 {
				q.Scan()
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait()
			stop()
			assert.InDelta(t, 50, (time.Duration(len(w.scans)) * took).Seconds(), 12, "of 100 s, %d lanes in each scan", found)
		}
	})
}

// Lanes that a scan found, most of them without work for this process, do not delay a named lane.
func TestANamedLaneDoesNotWaitForAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(2000)}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			time.Sleep(time.Duration(len(q.Lanes)) * time.Millisecond)
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, func(o *claim.Options) { o.LanesPerScan = 5000 })
		time.Sleep(507 * time.Millisecond) // in the middle of a claim
		at := w.now()
		q.Hint("named")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		require.Len(t, w.askTimes("named"), 1)
		assert.Less(t, w.askTimes("named")[0]-at, 20*time.Millisecond, "of two seconds that it takes to look at all")
		assert.Len(t, w.askTimes("s1999"), 1, "which goes on")
	})
}

// A named lane that another instance had locked is claimed again.
func TestALockedLaneKeepsItsHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			if w.now() < 100*time.Millisecond {
				return store.Claimed{Locked: q.Lanes}, nil
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		at := w.askTimes("a")
		require.NotEmpty(t, at)
		assert.InDelta(t, 100*time.Millisecond, at[len(at)-1], float64(50*time.Millisecond), "soon after it was let go")
		assert.Less(t, len(at), 50, "and without spinning")
	})
}

func TestALaneThatWasLeftGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: answerOnce(store.Claimed{Left: []batch.ServiceID{"b"}})}
		q, stop := w.start(t, nil)
		q.Hint("a")
		q.Hint("b")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{0}, w.askTimes("a"))
		assert.Equal(t, []time.Duration{0, 0}, w.askTimes("b"), "at once")
	})
}

// NextReady is when a batch of the lanes becomes ready. The queuer claims from the lanes again at
// that time, and not only after the next scan.
func TestNextReadyIsLookedAtInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(30), list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			var c store.Claimed
			for _, s := range q.Lanes {
				choose(batch.Lane{Service: s, Batches: []batch.LaneBatch{{ID: "x", State: batch.Delayed, Ready: s == "idle"}}})
			}
			if left := 4200*time.Millisecond - w.now(); left > 0 && slices.Contains(q.Lanes, "waits") {
				c.NextReady = left
			}
			return c, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("waits")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		stop()
		at := w.askTimes("waits")
		require.GreaterOrEqual(t, len(at), 2)
		assert.GreaterOrEqual(t, at[len(at)-1], 4200*time.Millisecond)
		assert.Less(t, at[len(at)-1], 4300*time.Millisecond)
		assert.Less(t, len(at), 5)
	})
}

// Promise 9: many waiting lanes are not read again and again because one of them becomes ready
// every few milliseconds.
func TestManyWaitingLanesCostNoMoreThanAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: serviceNames(100)}
		var looks atomic.Int64
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			looks.Add(int64(len(q.Lanes)))
			for _, s := range q.Lanes {
				choose(batch.Lane{Service: s, Batches: []batch.LaneBatch{{ID: "x", State: batch.Delayed}}})
			}
			return store.Claimed{NextReady: time.Millisecond}, nil
		}
		_, stop := w.start(t, func(o *claim.Options) { o.LanesPerScan, o.ScanInterval = 100, time.Second })
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		assert.Less(t, looks.Load(), int64(3*60*100), "as many as the scans make, and as many again")
	})
}

// After an error of the store no lane is forgotten: the claim is repeated.
func TestAnErrorOfTheStoreKeepsTheLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			if w.now() < 3*time.Second {
				return store.Claimed{}, errStore
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a")
		q.Hint("b")
		time.Sleep(scan + 5*time.Second)
		synctest.Wait()
		stop()
		for _, s := range []batch.ServiceID{"a", "b"} {
			at := w.askTimes(s)
			require.NotEmpty(t, at)
			assert.GreaterOrEqual(t, at[len(at)-1], 3*time.Second, "lane %q", s)
		}
	})
}

// Lanes without a hint, for example because another process added to them, have their turns,
// however many lanes are named all the time.
func TestAScanHasItsTurnsAmongLanesThatAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := serviceNames(40)
		w := &claimTest{lanes: append(slices.Clone(busy), "unnamed"), room: func() (int, time.Duration) { return 4, 0 }}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			time.Sleep(time.Millisecond)
			left := slices.DeleteFunc(slices.Clone(q.Lanes), func(s batch.ServiceID) bool { return s == "unnamed" })
			return store.Claimed{Left: left}, nil // there is always more to claim
		}
		q, stop := w.start(t, func(o *claim.Options) { o.LanesPerScan, o.ScanInterval = 100, time.Second })
		q.Hint(busy...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		require.GreaterOrEqual(t, len(w.askTimes("unnamed")), 4, "after each of five scans, but perhaps the last")
		assert.Less(t, w.askTimes("unnamed")[0], time.Second)
	})
}
