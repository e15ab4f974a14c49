package recorder_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A commit that the store holds back, because a live claim may still be posting, is written as
// soon as the claim's own outcome is, and not at the next regular try.
func TestAWaitingCommitIsTriedAgainWhenItsClaimEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		f := &fake{answer: func(_ context.Context, all []store.Outcome) ([]store.Applied, error) {
			applied := written(all)
			for i, o := range all {
				switch {
				case o.By == batch.BySubmitter:
					ended.Store(true)
				case !ended.Load():
					applied[i].Result = store.Held
				}
			}
			return applied, nil
		}}
		r := start(t, f, nil)
		r.verdict("a")
		time.Sleep(300 * time.Millisecond) // the first regular try has been in vain
		synctest.Wait()
		require.Empty(t, r.written())
		o := outcome("a")
		o.Finding, o.By = store.Doubtful, batch.BySubmitter
		begin := time.Now()
		r.Put(o)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"a", "a"}, r.written())
		assert.Equal(t, begin, r.doneAt["a"])
		r.close()
	})
}

// A write that fails is tried again for as long as Retry and then given up, so that an
// outage costs a bounded amount of memory. The claim's or the lease's end takes over.
func TestAFailedWriteIsGivenUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(context.Context, []store.Outcome) ([]store.Applied, error) { return nil, errTest }}
		r := start(t, f, nil) // Retry is a minute
		r.verdict("a")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		tries := len(f.calls())
		require.Greater(t, tries, 5)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, f.calls(), tries, "nothing is left to be written")
		assert.Empty(t, r.written())
		r.stop() // if anything were left, it would wait for that
		<-r.ended
	})
}
