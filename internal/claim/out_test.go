package claim_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// oneOfEach claims a batch of each lane that it is asked for.
func oneOfEach(q store.ClaimQuery, _ store.Choose) (c store.Claimed, _ error) {
	for _, s := range q.Lanes {
		c.Runs = append(c.Runs, run(s, batch.ID(s)))
	}
	return c, nil
}

// While a batch of a lane is under way, a read of batches added to it would be in vain: the
// look comes when that batch is over, and not much later if nobody reports the end. So it is with
// a run of a strategy that relies on the ledger's order.
func TestALaneWithABatchUnderWayIsLeftAlone(t *testing.T) {
	for name, over := range map[string]func(*asked){
		"final":     func(q *asked) { q.Hint("a") },
		"put back":  func(q *asked) { q.HintIn("a", 0) },
		"fenced":    func(q *asked) { q.RunEnded("a") },
		"not heard": func(*asked) { time.Sleep(scan - 3*time.Second) },
	} {
		for _, strategy := range []queuer.Strategy{queuer.Serial(), queuer.Pipelined(4)} {
			t.Run(fmt.Sprintf("%s/%T", name, strategy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &world{claim: oneOfEach}
					q, stop := w.start(t, func(o *claim.Options) { o.Strategy = strategy })
					q.Hint("a")
					for range 3 {
						time.Sleep(time.Second)
						q.Added("a", "b")
					}
					over(q)
					at := w.now()
					synctest.Wait()
					assert.Equal(t, []time.Duration{0, at}, w.asked("a"))
					assert.Equal(t, []time.Duration{time.Second}, w.asked("b"), "which is no reason to leave another alone")
					stop()
				})
			})
		}
	}
}

// A lane whose run is out is not looked at for the batches that the run's claim cut off.
func TestALaneThatWasCutShortWaitsForItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{claim: once(store.Claimed{Runs: []store.ClaimedRun{run("a", "1", "2")}, Left: []batch.ServiceID{"a"}})}
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Pipelined(4) })
		q.Hint("a")
		time.Sleep(time.Second)
		q.Hint("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, time.Second}, w.asked("a"))
		stop()
	})
}

// A scan that finds such a lane does not look at it, either.
func TestAScanLeavesALaneWithABatchUnderWayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: []batch.ServiceID{"a"}, claim: oneOfEach}
		q, stop := w.start(t, nil)
		time.Sleep(scan / 2)
		q.Hint("a")
		time.Sleep(scan * 3 / 4)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, scan / 2}, w.asked("a"))
		time.Sleep(scan / 4)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, scan / 2, scan * 3 / 2}, w.asked("a"))
		stop()
	})
}

// Where a lane may have more batches under way, the queuer looks at added batches.
func TestALaneThatTakesMoreIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{claim: oneOfEach}
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Parallel(0) })
		for range 3 {
			q.Added("a")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, w.asked("a"))
		stop()
	})
}

// A batch may be over before its claim has ended.
func TestALaneWhoseBatchIsQuickIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{claim: once(store.Claimed{Runs: []store.ClaimedRun{run("a", "1")}})}
		var q *asked
		q, stop := w.start(t, func(o *claim.Options) {
			o.Claimed = func(context.Context, store.ClaimedRun) { q.Hint("a") }
		})
		q.Hint("a")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 0}, w.asked("a"))
		stop()
	})
}

// The note about a lane that was left alone does not outlive the next scan; after that, the
// end of its batch is no news.
func TestLanesThatWereLeftAloneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{claim: oneOfEach}
		q, stop := w.start(t, nil)
		q.Hint("a")
		time.Sleep(2*scan + time.Second)
		q.RunEnded("a")
		q.RunEnded("b")
		synctest.Wait()
		assert.Equal(t, []time.Duration{0}, w.asked("a"))
		assert.Empty(t, w.asked("b"))
		stop()
	})
}
