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

// claimOneOfEach claims a batch of each lane that it is asked for.
func claimOneOfEach(q store.ClaimQuery, _ store.Choose) (c store.Claimed, _ error) {
	for _, s := range q.Lanes {
		c.Runs = append(c.Runs, claimedRun(s, batch.ID(s)))
	}
	return c, nil
}

// While a batch of a lane is under way, a claim for batches added to the lane would find nothing.
// The claim is made when that batch is final, or a little later if nothing reports the end. The
// same holds for a run of a strategy that relies on the ledger's order.
func TestALaneWithABatchUnderWayIsLeftAlone(t *testing.T) {
	for name, over := range map[string]func(*queuerTest){
		"final":     func(q *queuerTest) { q.Hint("a") },
		"put back":  func(q *queuerTest) { q.HintIn("a", 0) },
		"fenced":    func(q *queuerTest) { q.RunEnded("a") },
		"not heard": func(*queuerTest) { time.Sleep(scan - 3*time.Second) },
	} {
		for _, strategy := range []queuer.Strategy{queuer.Serial(), queuer.Pipelined(4)} {
			t.Run(fmt.Sprintf("%s/%T", name, strategy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &claimTest{claim: claimOneOfEach}
					q, stop := w.start(t, func(o *claim.Options) { o.Strategy = strategy })
					q.Hint("a")
					for range 3 {
						time.Sleep(time.Second)
						q.Added("a", "b")
					}
					over(q)
					at := w.now()
					synctest.Wait()
					assert.Equal(t, []time.Duration{0, at}, w.askTimes("a"))
					assert.Equal(t, []time.Duration{time.Second}, w.askTimes("b"), "which is no reason to leave another alone")
					stop()
				})
			})
		}
	}
}

// While a run of a lane is under way, the queuer does not look for the batches that the run's
// claim left out.
func TestALaneThatWasCutShortWaitsForItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: answerOnce(store.Claimed{Runs: []store.ClaimedRun{claimedRun("a", "1", "2")}, Left: []batch.ServiceID{"a"}})}
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Pipelined(4) })
		q.Hint("a")
		time.Sleep(time.Second)
		q.Hint("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, time.Second}, w.askTimes("a"))
		stop()
	})
}

// A scan that finds a lane with a batch under way does not cause a claim of it.
func TestAScanLeavesALaneWithABatchUnderWayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{lanes: []batch.ServiceID{"a"}, claim: claimOneOfEach}
		q, stop := w.start(t, nil)
		time.Sleep(scan / 2)
		q.Hint("a")
		time.Sleep(scan * 3 / 4)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, scan / 2}, w.askTimes("a"))
		time.Sleep(scan / 4)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, scan / 2, scan * 3 / 2}, w.askTimes("a"))
		stop()
	})
}

// If more batches of a lane may be under way, an added batch causes a claim.
func TestALaneThatTakesMoreIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: claimOneOfEach}
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Parallel(0) })
		for range 3 {
			q.Added("a")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, w.askTimes("a"))
		stop()
	})
}

// A batch may become final before its claim has ended, and its lane is then claimed again.
func TestALaneWhoseBatchIsQuickIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: answerOnce(store.Claimed{Runs: []store.ClaimedRun{claimedRun("a", "1")}})}
		var q *queuerTest
		q, stop := w.start(t, func(o *claim.Options) {
			o.Claimed = func(context.Context, store.ClaimedRun) { q.Hint("a") }
		})
		q.Hint("a")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 0}, w.askTimes("a"))
		stop()
	})
}

// The note about a lane that was left alone is removed by the next scan. After that, the end of
// its batch causes no claim.
func TestLanesThatWereLeftAloneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimTest{claim: claimOneOfEach}
		q, stop := w.start(t, nil)
		q.Hint("a")
		time.Sleep(2*scan + time.Second)
		q.RunEnded("a")
		q.RunEnded("b")
		synctest.Wait()
		assert.Equal(t, []time.Duration{0}, w.askTimes("a"))
		assert.Empty(t, w.askTimes("b"))
		stop()
	})
}
