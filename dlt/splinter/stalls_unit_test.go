package splinter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// A service rests for the time of a stall if its request hung until this side gave up, while other
// services got answers. If the node has ended the connection itself (it restarts, or a proxy did
// it), it holds no thread, and the service does not rest.
func TestWhoEndedASlowRequest(t *testing.T) {
	for name, row := range map[string]struct {
		gaveUp bool
		rests  time.Duration
	}{
		"nobody answered in time": {true, stallTime - 2*suspectAfter},
		"the node hung up":        {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const asked, other = batch.ServiceID("ccccc-ddddd::a000"), batch.ServiceID("ccccc-ddddd::b000")
				var g nodeRequests
				asking, _, err := g.enter(t.Context(), asked)
				require.NoError(t, err)
				time.Sleep(suspectAfter)
				answered, _, err := g.enter(t.Context(), other)
				require.NoError(t, err)
				answered.leave(true, false)
				time.Sleep(suspectAfter)
				asking.leave(false, row.gaveUp)
				_, after, err := g.enter(t.Context(), asked)
				assert.Equal(t, row.rests > 0, err != nil, "%v", err)
				assert.Equal(t, row.rests, after)
			})
		})
	}
}

// net/http may report that a request was written after its answer has come.
func TestWrittenAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g nodeRequests
		v, _, err := g.enter(t.Context(), "ccccc-ddddd::a000")
		require.NoError(t, err)
		v.leave(true, false)
		v.noteSent()
		time.Sleep(time.Minute)
		assert.False(t, g.isSuspect(time.Now()))
	})
}
