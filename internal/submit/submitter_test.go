package submit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/store"
)

const (
	timeout  = 10 * time.Second
	farUntil = time.Hour // a value of until that has no effect
)

func TestARunIsPostedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(time.Second), nil)
		r.post(farUntil, "s", "a", "b", "c")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []request{
			{0, timeout, "a", 1, "payload of a"},
			{time.Second, time.Second + timeout, "b", 1, "payload of b"},
			{2 * time.Second, 2*time.Second + timeout, "c", 1, "payload of c"},
		}, r.requestsSoFar())
		assert.Equal(t, []string{"a accepted", "b accepted", "c accepted"}, r.findings())
		r.stopAndWait()
	})
}

func TestARunStopsAtItsFirstFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"rejected":      {dlt.ErrRejected, "b refused"},
		"misconfigured": {dlt.ErrMisconfigured, "b failed"},
		"doubt":         {dlt.ErrDoubt, "b doubtful"},
		"busy":          {dlt.ErrBusy, "b failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(_ context.Context, a batch.Attempt) error {
					if a.ID == "b" {
						return c.err
					}
					return nil
				}, nil)
				r.post(farUntil, "s", "a", "b", "c", "d")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{"a accepted", c.want, "c unposted", "d unposted"}, r.findings())
				for _, q := range r.requestsSoFar() {
					assert.NotContains(t, []batch.ID{"c", "d"}, q.id)
				}
				r.stopAndWait()
			})
		})
	}
}

// A quick retry follows only if the batch was certainly not taken. The first doubt ends the
// attempt.
func TestQuickRetries(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		tries   int
		want    string
	}{
		"busy for long":          {[]error{dlt.ErrBusy}, 4, "a failed"},
		"unreachable for long":   {[]error{dlt.ErrUnavailable}, 4, "a failed"},
		"busy, then taken":       {[]error{dlt.ErrBusy, nil}, 2, "a accepted"},
		"busy twice, then taken": {[]error{dlt.ErrBusy, dlt.ErrUnavailable, nil}, 3, "a accepted"},
		"busy, then refused":     {[]error{dlt.ErrBusy, dlt.ErrRejected}, 2, "a refused"},
		"busy, then doubt":       {[]error{dlt.ErrBusy, dlt.ErrDoubt, nil}, 2, "a doubtful"},
		"busy, then barred":      {[]error{dlt.ErrBusy, dlt.ErrMisconfigured, nil}, 2, "a failed"},
		"doubt":                  {[]error{dlt.ErrDoubt, nil}, 1, "a doubtful"},
		"no kind":                {[]error{errors.New("reset"), nil}, 1, "a doubtful"},
		"busy and doubt":         {[]error{errors.Join(dlt.ErrBusy, dlt.ErrDoubt), nil}, 1, "a doubtful"},
		"misconfigured":          {[]error{dlt.ErrMisconfigured, nil}, 1, "a failed"},
		"rejected":               {[]error{dlt.ErrRejected, nil}, 1, "a refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, answerInTurn(c.answers...), nil)
				r.post(farUntil, "s", "a")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{c.want}, r.findings(), "one outcome for the attempt")
				got := r.requestsSoFar()
				assert.Len(t, got, c.tries)
				for i, q := range got {
					assert.Equal(t, 1, q.attempt, "the same attempt")
					if i > 0 {
						pause := q.sentAfter - got[i-1].sentAfter
						least := 250 * time.Millisecond << (i - 1)
						assert.GreaterOrEqual(t, pause, least*8/10)
						assert.LessOrEqual(t, pause, least*12/10+1)
					}
				}
				r.stopAndWait()
			})
		})
	}
}

// If batches are sent behind accepted ones, a ledger that could not be reached may have lost the
// accepted ones. There is no quick retry: the store decides in a new claim whether the batch may
// follow.
func TestNoQuickRetryBehindAcceptedBatches(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		tries   int
		want    string
	}{
		"unreachable":            {[]error{dlt.ErrUnavailable, nil}, 1, "a failed"},
		"busy, then unreachable": {[]error{dlt.ErrBusy, dlt.ErrUnavailable, nil}, 2, "a failed"},
		"busy, then taken":       {[]error{dlt.ErrBusy, nil}, 2, "a accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, answerInTurn(c.answers...), func(o *submit.Options, _ *ledger) { o.Reliant = true })
				r.post(farUntil, "s", "a")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{c.want}, r.findings())
				assert.Len(t, r.requestsSoFar(), c.tries)
				r.stopAndWait()
			})
		})
	}
}

func TestQuickRetriesHonourRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, answerInTurn(&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: 7 * time.Second}, nil), nil)
		r.post(farUntil, "s", "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.requestsSoFar(), 2)
		assert.Equal(t, 7*time.Second, r.requestsSoFar()[1].sentAfter)
		assert.Equal(t, []string{"a accepted"}, r.findings())
		r.stopAndWait()
	})
}

// Promise 4: quick retries fit into the claim.
func TestQuickRetriesFitIntoTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, answerInTurn(dlt.ErrBusy), nil)
		until := timeout + 500*time.Millisecond // room for one pause of 250 ms, and not for the next one of 500 ms
		r.post(until, "s", "a")
		time.Sleep(until - timeout)
		synctest.Wait()
		assert.Equal(t, []string{"a failed"}, r.findings(), "it does not wait for a retry that cannot be")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := r.requestsSoFar()
		assert.Len(t, got, 2)
		for _, q := range got {
			assert.LessOrEqual(t, q.sentAfter+timeout, until)
		}
		assert.Equal(t, []string{"a failed"}, r.findings())
		r.stopAndWait()
	})
}

// Promise 4: a request starts only if a whole timeout is left before until.
func TestNoRequestStartsTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		until time.Duration
		want  []string
	}{
		"time for three":    {2*4*time.Second + timeout, []string{"a accepted", "b accepted", "c accepted", "d unposted"}},
		"a moment less":     {2*4*time.Second + timeout - 1, []string{"a accepted", "b accepted", "c unposted", "d unposted"}},
		"just one":          {timeout, []string{"a accepted", "b unposted", "c unposted", "d unposted"}},
		"none":              {timeout - 1, []string{"a unposted", "b unposted", "c unposted", "d unposted"}},
		"over when it came": {-time.Second, []string{"a unposted", "b unposted", "c unposted", "d unposted"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, acceptAfter(4*time.Second), nil)
				r.post(c.until, "s", "a", "b", "c", "d")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, c.want, r.findings())
				for _, q := range r.requestsSoFar() {
					assert.LessOrEqual(t, q.sentAfter+timeout, c.until)
					assert.LessOrEqual(t, q.deadline, c.until)
				}
				r.stopAndWait()
			})
		})
	}
}

// Promise 4, second half: a request that hangs is cut off, and no request outlives its claim.
func TestARequestThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(time.Hour), nil)
		r.post(timeout+3*time.Second, "s", "a", "b")
		time.Sleep(timeout - 1)
		synctest.Wait()
		require.Empty(t, r.findings())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a doubtful", "b unposted"}, r.findings())
		r.stopAndWait()
	})
}

func TestABatchWithoutItsPayloadFailsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, accept, nil)
		run := store.ClaimedRun{Service: "s"}
		for _, id := range []batch.ID{"a", "gone", "after"} {
			run.Batches = append(run.Batches, store.Claim{
				Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 2, From: batch.Queued, Attempt: 1,
				Budget: batch.Budget{Attempts: 1, EveryTry: true},
			})
		}
		r.Post(run, [][]byte{[]byte("x"), nil, []byte("x")}, time.Now().Add(farUntil))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"a accepted", "gone failed", "after unposted"}, r.findings())
		assert.False(t, r.outcomes[1].Spend, "nothing was posted")
		assert.Equal(t, time.Second, r.outcomes[1].Delay)
		assert.Len(t, r.requestsSoFar(), 1)
		assert.Empty(t, r.eventsSoFar(), "and it is no news about the ledger")
		r.stopAndWait()
	})
}

// A stop puts back the runs that no hand has taken and lets the requests under way end.
func TestAStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAfter(5*time.Second), func(o *submit.Options, _ *ledger) { o.MaxRequests = 1 })
		r.post(farUntil, "s", "a1", "a2")
		synctest.Wait()
		r.post(farUntil, "t", "b1", "b2") // waits for the hand, until the first run's request becomes slow after a second
		time.Sleep(500 * time.Millisecond)
		r.stop()
		synctest.Wait()
		assert.Equal(t, []string{"b1 unposted", "b2 unposted"}, r.findings(), "at once")
		n, again := r.Room()
		assert.Zero(t, n)
		assert.Zero(t, again)
		r.post(farUntil, "u", "c")
		assert.Contains(t, r.findings(), "c unposted", "and so is what comes later")
		select {
		case <-r.ended:
			t.Fatal("a1 is still under way")
		default:
		}
		<-r.ended
		assert.Equal(t, 5*time.Second, time.Since(r.begin))
		assert.Equal(t, []string{"b1 unposted", "b2 unposted", "c unposted", "a1 accepted", "a2 unposted"}, r.findings())
		assert.Len(t, r.requestsSoFar(), 1)
	})
}

func TestAStopEndsThePauseBeforeAQuickRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, answerInTurn(&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: time.Minute}), nil)
		r.post(farUntil, "s", "a")
		time.Sleep(time.Second)
		r.stopAndWait()
		assert.Equal(t, time.Second, time.Since(r.begin))
		assert.Equal(t, []string{"a failed"}, r.findings())
	})
}

// While a run waits for a hand, each of its batches reduces Room; then the run has one hand. The
// queuer, which found no room before, is told at once, and not when the run's first request ends.
func TestARunThatGetsAHandMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := build(acceptAfter(time.Second), nil)
		r.post(farUntil, "s", "a", "b", "c", "d", "e", "f", "g", "h")
		n, again := r.Room()
		assert.Zero(t, n, "as many batches wait as there are hands")
		assert.Zero(t, again, "it will be woken")
		r.run(t)
		synctest.Wait()
		assert.Equal(t, 1, r.readyCount())
		n, _ = r.Room()
		assert.Equal(t, 7, n)
		r.post(farUntil, "t", "i")
		synctest.Wait()
		assert.Equal(t, 1, r.readyCount(), "nobody found too little room")
		r.stopAndWait()
	})
}
