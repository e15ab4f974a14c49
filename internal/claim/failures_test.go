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

// While scans fail, claims of named lanes go on. A failed scan is repeated soon, however often
// scans failed before.
func TestNamedLanesGoOnWhileScansFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		var fails atomic.Bool
		fails.Store(true)
		w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
			if fails.Load() {
				return nil, errStore
			}
			return []batch.ServiceID{"found"}, nil
		}
		q, stop := w.start(t, nil)
		time.Sleep(10 * time.Minute)
		begin := w.now()
		q.Hint("named")
		synctest.Wait()
		assert.Equal(t, []time.Duration{begin}, w.askTimes("named"), "at once")
		fails.Store(false)
		time.Sleep(6 * time.Second)
		require.NotEmpty(t, w.askTimes("found"), "within seconds after ten minutes of failures")
		fails.Store(true)
		time.Sleep(scan)
		fails.Store(false)
		n, begin := len(w.askTimes("found")), w.now()
		time.Sleep(scan)
		synctest.Wait()
		stop()
		require.Greater(t, len(w.askTimes("found")), n)
		assert.Less(t, w.askTimes("found")[n]-begin, 6*time.Second)
		assert.Less(t, len(w.troubles), 10*60/4+20, "with pauses")
	})
}

// A scan that takes long delays no claim.
func TestNamedLanesGoOnWhileAScanLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{}
		w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
			time.Sleep(4 * time.Second)
			return []batch.ServiceID{"found"}, nil
		}
		q, stop := w.start(t, nil)
		time.Sleep(time.Second)
		q.Hint("named")
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Second}, w.askTimes("named"), "at once")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{4 * time.Second}, w.askTimes("found"))
		stop()
	})
}

// Two scans fail and the third succeeds, all within a moment, and the success resets the pause.
func TestAScanThatFailsIsMadeAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := &claimTest{}, 0
		w.list = func(store.LanesQuery) ([]batch.ServiceID, error) {
			if n++; n%3 != 0 {
				return nil, errStore
			}
			return []batch.ServiceID{"s"}, nil
		}
		_, stop := w.start(t, nil)
		time.Sleep(10*scan - time.Second)
		synctest.Wait()
		stop()
		assert.Len(t, w.askTimes("s"), 10)
		for i, at := range w.askTimes("s") {
			assert.InDelta(t, time.Duration(i)*scan, at, float64(time.Second))
		}
	})
}

// A claim whose answer was lost may have been made. All its batches are put back and none is
// posted, since only the version shows whether a batch was claimed.
func TestWhatMayBeClaimedIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var salts []uint32
		first := true
		w := &claimTest{}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			mu.Lock()
			defer mu.Unlock()
			salts = append(salts, q.Salt)
			if first {
				first = false
				return store.Claimed{Runs: []store.ClaimedRun{claimedRun("s", "a", "b"), claimedRun("t", "c")}}, errStore
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("s", "t")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		var back []batch.ID
		for _, c := range w.returned {
			back = append(back, c.Key.ID)
		}
		assert.Equal(t, []batch.ID{"a", "b", "c"}, back)
		assert.Empty(t, w.posts())
		assert.Zero(t, w.claims, "nobody is told of them")
		require.Len(t, salts, 3, "and the lanes are claimed from at once, each by itself")
		slices.Sort(salts)
		assert.Len(t, slices.Compact(salts), 3, "each claim raises versions by a number of its own")
	})
}

// While the store fails altogether it gets few calls, however many lanes there are. When it is
// back, all lanes are claimed from within seconds.
func TestAStoreThatIsDownIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		var down atomic.Bool
		down.Store(true)
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			if down.Load() {
				return store.Claimed{}, errStore
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint(serviceNames(1000)...)
		time.Sleep(10 * time.Minute)
		n := len(w.claimCalls())
		assert.Less(t, n, 10*60*5, "a handful of claims, and a pause")
		down.Store(false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		stop()
		claimed := map[batch.ServiceID]bool{}
		for _, c := range w.claimCalls()[n:] {
			for _, s := range c.lanes {
				claimed[s] = true
			}
		}
		assert.Len(t, claimed, 1000)
	})
}

// If the payloads of a claim cannot be loaded, the claim is not repeated at once. Putting the
// batches back names their lanes, and the claims would otherwise go on for ever.
func TestPayloadsThatCannotBeLoadedPauseTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{payloads: func([]store.Ref) ([][]byte, error) { return nil, errStore }}
		var q *queuerTest
		w.claim = func(c store.ClaimQuery, _ store.Choose) (out store.Claimed, _ error) {
			for _, s := range c.Lanes {
				out.Runs = append(out.Runs, claimedRun(s, batch.ID("of "+s)))
				time.AfterFunc(time.Millisecond, func() { q.Hint(s) }) // as when it is put back
			}
			return out, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		assert.Less(t, len(w.claimCalls()), 2*30)
		assert.Empty(t, w.posts())
	})
}

// A panic while a claim begins ends Run, which is called again. The lanes of the claim are not
// lost.
func TestAPanicLosesNoLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Bool
		w := &claimTest{lanes: serviceNames(3), closedFor: func(batch.ServiceID) time.Duration {
			if panics.CompareAndSwap(true, false) {
				panic("once")
			}
			return 0
		}}
		q, stop := w.start(t, func(o *claim.Options) { o.LanesPerClaim, o.LanesPerScan = 2, 3000 })
		panics.Store(true)
		time.Sleep(10 * time.Minute)
		q.Hint("s00")
		time.Sleep(10 * time.Minute)
		for _, s := range serviceNames(3) {
			assert.NotEmpty(t, w.askTimes(s), s)
		}
		stop()
	})
}
