package groups_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store"
)

// A write that fails is repeated for RetryFor and then given up, so that an outage costs a bounded
// amount of memory. Once the batch's claim or lease has ended, the monitor asks about the batch.
func TestAFailedWriteIsGivenUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{answer: func(context.Context, []store.Outcome) ([]store.Applied, error) { return nil, errTest }}
		r := start(t, f, nil) // RetryFor is a minute
		r.putVerdicts("a")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		tries := len(f.calls())
		require.Greater(t, tries, 5)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, f.calls(), tries, "nothing is left to be written")
		assert.Empty(t, r.written())
		r.stop() // would wait if any item were left
		<-r.ended
	})
}
