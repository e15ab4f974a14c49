package submit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/internal/wall/walltest"
	"github.com/dltbatch/dltbatch/store"
)

// A machine is suspended after a claim, and wakes long after the claim's expiry, which its
// monotonic clock does not show: nothing is posted. These tests use the real clocks, because times
// in a bubble have no monotonic reading. None of the tests waits for the times that it names.
func TestNothingIsPostedAfterTheMachineSlept(t *testing.T) {
	run := func(ids ...batch.ID) (r store.ClaimedRun, payloads [][]byte) {
		r.Service = "s"
		for _, id := range ids {
			r.Batches = append(r.Batches, store.Claim{Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 2, From: batch.Queued, Attempt: 1})
			payloads = append(payloads, []byte("p"))
		}
		return r, payloads
	}
	found := func(r *submitterTest, n int) []string {
		assert.Eventually(t, func() bool { return len(r.findings()) == n }, 30*time.Second, time.Millisecond)
		r.stopAndWait()
		return r.findings()
	}
	t.Run("before the first request", func(t *testing.T) {
		r := start(t, accept, nil)
		c, payloads := run("a", "b")
		r.Post(c, payloads, walltest.Slept(t, time.Now().Add(time.Hour), 2*time.Hour))
		assert.Equal(t, []string{"a unposted", "b unposted"}, found(r, 2))
		assert.Empty(t, r.requestsSoFar())
	})
	t.Run("with less left than a request may take", func(t *testing.T) {
		r := start(t, accept, nil)
		c, payloads := run("a")
		r.Post(c, payloads, walltest.Slept(t, time.Now().Add(time.Hour), time.Hour-timeout/2))
		assert.Equal(t, []string{"a unposted"}, found(r, 1))
		assert.Empty(t, r.requestsSoFar())
	})
	t.Run("between two tries", func(t *testing.T) {
		r := start(t, answerInTurn(dlt.ErrBusy), nil)
		c, payloads := run("a")
		r.Post(c, payloads, walltest.Slept(t, time.Now().Add(time.Hour), time.Hour-timeout-100*time.Millisecond))
		assert.Equal(t, []string{"a failed"}, found(r, 1))
		assert.Len(t, r.requestsSoFar(), 1, "a pause of 250 ms is too long")
	})
	t.Run("while it was prepared", func(t *testing.T) {
		r := start(t, accept, func(o *submit.Options, l *ledger) {
			l.preparer, l.traits.Prepares = slowPrepare{}, true
			o.Keep = func(context.Context, store.Prepared) (bool, error) { return true, nil }
		})
		c, payloads := run("a")
		r.Post(c, payloads, walltest.Slept(t, time.Now().Add(time.Hour), time.Hour-timeout-100*time.Millisecond))
		assert.Equal(t, []string{"a unposted"}, found(r, 1))
		assert.Empty(t, r.requestsSoFar())
	})
	t.Run("a wall clock that was set back gives no time", func(t *testing.T) {
		r := start(t, accept, nil)
		c, payloads := run("a")
		r.Post(c, payloads, walltest.Slept(t, time.Now().Add(-time.Hour), -2*time.Hour))
		assert.Equal(t, []string{"a unposted"}, found(r, 1))
		assert.Empty(t, r.requestsSoFar())
	})
}

// slowPrepare is a ledger whose Prepare takes 200 ms.
type slowPrepare struct{}

func (slowPrepare) Prepare(context.Context, batch.Attempt) ([]byte, error) {
	time.Sleep(200 * time.Millisecond)
	return []byte("prepared"), nil
}
