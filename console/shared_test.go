package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// Fifty visitors who read again and again cause at most one read a second, and fewer if a read
// takes long.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		took := 10 * time.Millisecond
		s := newShared(func(context.Context) (int64, error) {
			time.Sleep(took)
			return reads.Add(1), nil
		})
		visit := func() {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					_, age, err := s.get(t.Context())
					assert.NoError(t, err)
					assert.Less(t, age, 21*took+time.Second)
				})
			}
			all.Wait()
		}
		for range 100 { // ten seconds
			visit()
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, reads.Load(), int64(11))
		assert.GreaterOrEqual(t, reads.Load(), int64(9))

		n, _, err := s.get(t.Context())
		require.NoError(t, err)
		s.forget()
		after, _, err := s.get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, n+1, after, "after an act it is read again")

		took = time.Second
		s.forget()
		visit()
		time.Sleep(19 * time.Second)
		visit()
		assert.Equal(t, after+1, reads.Load(), "a slow look is a rare one")
	})
}

// An error is not shared with other visitors, and a visitor who has gone does not wait.
func TestSharedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := errors.New("refused")
		held := make(chan struct{})
		s := newShared(func(context.Context) (int, error) {
			<-held
			return 7, fail
		})
		done := make(chan error)
		go func() {
			_, _, err := s.get(t.Context())
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := s.get(ctx)
		require.ErrorIs(t, err, context.Canceled)
		close(held)
		require.ErrorIs(t, <-done, fail)
		fail = nil
		n, _, err := s.get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 7, n)
	})
}

// Times are shown as relative and as exact, and no duration is negative.
func TestTimes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	assert.Equal(t, shownTime{}, pastStamp(now, time.Time{}))
	assert.Equal(t, shownTime{"2026-11-23T11:58:55Z", "1 min 5 s ago", "2026-11-23 11:58:55 UTC"}, pastStamp(now, now.Add(-65*time.Second)))
	assert.Equal(t, "0 s ago", pastStamp(now, now.Add(time.Hour)).Relative, "the clock stepped back")
	assert.Equal(t, "in 1 h 0 min", dueStamp(now, now.Add(time.Hour)).Relative)
	assert.Equal(t, "3 d 1 h ago", dueStamp(now, now.Add(-73*time.Hour)).Relative)
	assert.Equal(t, "0 s", ageText(-time.Hour))
}

// Each cause and each remedy has words.
func TestWords(t *testing.T) {
	for _, c := range append(bulkCauses, batch.CauseUnserved, batch.CauseClaimed, batch.CauseSettling) {
		assert.NotEqual(t, string(c), causeTitle(c))
	}
	for _, r := range []batch.Remedy{
		batch.RemedyWait, batch.RemedyResume, batch.RemedyRelease, batch.RemedyBlocker, batch.RemedyDecide, batch.RemedyStrategy, batch.RemedyLedger, batch.RemedyRequeue,
	} {
		then, to, name := remedyText(batch.Explanation{Key: batch.Key{Service: "s", ID: "b"}, Blocker: batch.Key{ID: "c"}, Remedy: r})
		assert.NotEmpty(t, then, r)
		assert.NotEmpty(t, to, r)
		assert.NotEmpty(t, name, r)
	}
}
