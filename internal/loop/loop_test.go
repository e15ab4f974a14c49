package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/loop"
)

var errTest = errors.New("down")

// A loop that fails starts again after 1 s doubling to 60 s, with jitter.
func TestRunStartsAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var starts []time.Time
		var reportedErrs []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			loop.Run(ctx, func(context.Context) error {
				starts = append(starts, time.Now())
				return errTest
			}, func(err error) { reportedErrs = append(reportedErrs, err) })
		}()
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		require.Greater(t, len(starts), 12)
		exact := 0
		for i := 1; i < len(starts); i++ {
			want := min(time.Second<<(i-1), time.Minute)
			got := starts[i].Sub(starts[i-1])
			assert.InDelta(t, want, got, 0.2*float64(want)+1, "pause %d", i)
			if got == want {
				exact++
			}
		}
		assert.Less(t, exact, 3, "with jitter")
		assert.Len(t, reportedErrs, len(starts), "every failure is told")
		require.ErrorIs(t, reportedErrs[0], errTest)
	})
}

func TestRunForgetsThePauseAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended, starts []time.Time
		loop.Run(t.Context(), func(context.Context) error {
			starts = append(starts, time.Now())
			if len(starts) == 7 {
				time.Sleep(loop.MaxPause + time.Second)
			}
			ended = append(ended, time.Now())
			if len(starts) == 9 {
				return nil
			}
			return errTest
		}, func(error) {})
		pause := func(i int) time.Duration { return starts[i].Sub(ended[i-1]) }
		assert.Greater(t, pause(6), 20*time.Second)
		assert.Less(t, pause(7), 2*time.Second, "after a long run it starts over")
		assert.InDelta(t, 2*time.Second, pause(8), float64(400*time.Millisecond)+1)
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		loop.Run(t.Context(), func(context.Context) error { runs++; return nil }, func(error) { t.Error("trouble") })
		assert.Equal(t, 1, runs, "with nil")

		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(5*time.Second, cancel)
		loop.Run(ctx, func(context.Context) error { return errTest }, func(error) {})
		assert.Equal(t, 5*time.Second, time.Since(start), "with ctx, in the middle of a pause")

		ctx, cancel = context.WithCancel(t.Context())
		loop.Run(ctx, func(context.Context) error { cancel(); return errTest }, func(error) { t.Error("told of a stop") })
	})
}

// A panic is contained: reported as an error, with its stack, and the loop starts again.
func TestPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		var reportedErr error
		loop.Run(t.Context(), func(context.Context) error {
			if runs++; runs == 1 {
				panic("boom")
			}
			return nil
		}, func(err error) { reportedErr = err })
		assert.Equal(t, 2, runs)
		var panicErr *loop.PanicError
		require.ErrorAs(t, reportedErr, &panicErr)
		assert.Equal(t, "boom", panicErr.Value)
		assert.EqualError(t, panicErr, "panic: boom")
		assert.Contains(t, string(panicErr.Stack), "TestPanicsAreContained")
	})
	require.ErrorIs(t, loop.Contain(func() error { return errTest }), errTest)
	require.NoError(t, loop.Contain(func() error { return nil }))
	require.Error(t, loop.Contain(func() error { var m map[string]int; m["x"] = 1; return nil })) //nolint:staticcheck // it must panic
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.True(t, loop.Sleep(t.Context(), time.Second))
		assert.Equal(t, time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.False(t, loop.Sleep(ctx, time.Hour))
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestBackoffNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := loop.NewPauses(time.Second, 4*time.Second)
		time.Sleep(1000 * time.Hour)
		for range 1000 {
			d := b.NextBackOff()
			require.GreaterOrEqual(t, d, 800*time.Millisecond)
			require.LessOrEqual(t, d, 4800*time.Millisecond+1)
		}
	})
}

// A failed action is retried, soon and later about every five seconds, for as long as it fails.
// Each failure is reported, and a panic is a failure.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin, told := time.Now(), 0
		err := loop.Retry(t.Context(), func(error) { told++ }, func() error {
			at = append(at, time.Since(begin))
			switch {
			case len(at) == 2:
				panic("boom")
			case time.Since(begin) < time.Minute:
				return errTest
			}
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, len(at)-1, told)
		require.Greater(t, len(at), 15)
		assert.Less(t, at[3], 100*time.Millisecond, "soon")
		for i := range at[1:] {
			assert.LessOrEqual(t, at[i+1]-at[i], 6*time.Second)
		}
	})
}

func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, loop.Retry(ctx, func(error) {}, func() error { return errTest }), errTest)
		assert.Equal(t, time.Second, time.Since(begin), "with ctx, in the middle of a pause")
		tries := 0
		err := loop.Retry(t.Context(), func(error) { t.Error("told of what is no failure") }, func() error { tries++; return loop.Final(errTest) })
		require.Equal(t, errTest, err)
		assert.Equal(t, 1, tries)
	})
}
