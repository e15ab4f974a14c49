package recorder_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/recorder"
	"github.com/dltbatch/dltbatch/store"
)

// claimed answers like a store in which every batch has a live claim until its submitter's
// outcome. Each write lasts for takes.
func claimed(takes time.Duration) *fake {
	over := map[batch.Key]bool{}
	return &fake{answer: func(_ context.Context, all []store.Outcome) ([]store.Applied, error) {
		time.Sleep(takes)
		applied := written(all)
		for i, o := range all {
			if o.By == batch.BySubmitter {
				over[o.Key] = true
			} else if !over[o.Key] {
				applied[i].Result = store.Held
			}
		}
		return applied, nil
	}}
}

// The ledger reports a commit once: an acceptance that comes after the store has put the
// commit off, or meanwhile, waits for nothing more.
func TestAnAcceptanceDoesNotWaitForACommitThatWaitsForIt(t *testing.T) {
	for _, after := range []time.Duration{30 * time.Millisecond, 20500 * time.Microsecond} {
		synctest.Test(t, func(t *testing.T) {
			f := claimed(time.Millisecond)
			r := start(t, f, func(o *recorder.Options) { o.Hold = hold })
			begin := time.Now()
			r.Told([]store.Outcome{commit("a")})
			time.Sleep(after)
			r.Hold(posted("a"))
			time.Sleep(15 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, store.Written, r.results["a"], after)
			assert.Less(t, r.doneAt["a"].Sub(begin), 40*time.Millisecond)
			n := len(f.calls())
			r.Hold(posted("a")) // of another attempt
			time.Sleep(15 * time.Millisecond)
			assert.Len(t, f.calls(), n, "it waits as any other")
			r.close()
		})
	}
}

// A ledger may report all its commits ever, faster than the store can write.
func TestWhatIsToldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := claimed(time.Hour)
		r := start(t, f, func(o *recorder.Options) { o.Hold = hold })
		told := 0
		go func() {
			for ; told < 100_000; told++ {
				r.Told([]store.Outcome{commit(fmt.Sprint(told))})
			}
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Less(t, told, 10_000, "the ledger waits")
		assert.Greater(t, told, 1000, "not sooner than it must")
		r.stop()
		<-r.ended
	})
}

// Outcomes that fall due while a write is under way are one write.
func TestWhatIsDueIsWrittenTogetherAfterASlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := claimed(time.Second)
		r := start(t, f, func(o *recorder.Options) { o.Hold = hold })
		r.Hold(posted("a"))
		time.Sleep(10 * time.Millisecond)
		r.Hold(posted("b"))
		r.Put(posted("c"))
		time.Sleep(3 * time.Second)
		assert.Equal(t, [][]string{{"c"}, {"a", "b"}}, f.calls())
		r.close()
	})
}
