package submitter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

const (
	timeout = 10 * time.Second
	far     = time.Hour // an until that does not matter
)

// ledger answers as it is told.
type ledger struct {
	dlt.Ledger
	traits dlt.Traits
	submit func(ctx context.Context, a batch.Attempt) error
}

func (l *ledger) Traits(batch.ServiceID) dlt.Traits { return l.traits }
func (l *ledger) Submit(ctx context.Context, a batch.Attempt) error {
	return l.submit(ctx, a)
}

// request is one Submit as the ledger saw it.
type request struct {
	at, deadline time.Duration
	id           batch.ID
	attempt      int
	payload      string
}

type event struct {
	at      time.Duration
	paused  bool
	service batch.ServiceID
	all     bool
}

// rig is a submitter that runs, and what it did.
type rig struct {
	*submitter.Submitter
	ledger *ledger
	begin  time.Time
	ended  chan struct{}
	stop   context.CancelFunc

	mu       sync.Mutex
	requests []request
	outcomes []store.Outcome
	events   []event
	errs     []error
	ready    int
}

// start runs a submitter whose ledger answers with submit, after noting the request.
func start(t *testing.T, submit func(ctx context.Context, a batch.Attempt) error, change func(*submitter.Options, *dlt.Traits)) *rig {
	r := &rig{begin: time.Now(), ended: make(chan struct{})}
	r.ledger = &ledger{traits: dlt.Traits{Name: "fake"}, submit: func(ctx context.Context, a batch.Attempt) error {
		deadline, _ := ctx.Deadline()
		r.mu.Lock()
		r.requests = append(r.requests, request{time.Since(r.begin), deadline.Sub(r.begin), a.ID, a.Number, string(a.Payload)})
		r.mu.Unlock()
		return submit(ctx, a)
	}}
	note := func(paused bool, s batch.ServiceID, all bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, event{time.Since(r.begin), paused, s, all})
	}
	o := submitter.Options{
		Pool: 8, RequestTimeout: timeout, Retries: 3, RetryPause: 250 * time.Millisecond, ClaimLimit: 500,
		Rules: submitter.Rules{FirstCheck: time.Millisecond, Delay: func(int) time.Duration { return time.Second }},
		Record: func(o store.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.outcomes = append(r.outcomes, o)
		},
		Ready: func() { r.mu.Lock(); defer r.mu.Unlock(); r.ready++ },
		Paused: func(s batch.ServiceID, all bool, err error) {
			note(true, s, all)
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
		},
		Resumed: func(s batch.ServiceID, all bool) { note(false, s, all) },
	}
	if change != nil {
		change(&o, &r.ledger.traits)
	}
	r.Submitter = submitter.New(r.ledger, o)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		defer close(r.ended)
		r.Run(ctx)
	}()
	return r
}

// post hands a run over whose requests must have ended until after now.
func (r *rig) post(until time.Duration, service batch.ServiceID, ids ...batch.ID) {
	run := store.ClaimedRun{Service: service}
	var payloads [][]byte
	for _, id := range ids {
		run.Batches = append(run.Batches, store.Claim{
			Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 2, From: batch.Queued, Attempt: 1,
		})
		payloads = append(payloads, []byte("payload of "+id))
	}
	r.Post(run, payloads, time.Now().Add(until))
}

// quit stops the submitter and waits for it.
func (r *rig) quit() {
	r.stop()
	<-r.ended
}

func (r *rig) seen() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *rig) told() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// found returns the findings so far, as "id finding", in the order of recording.
func (r *rig) found() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.outcomes {
		out = append(out, fmt.Sprint(o.Key.ID, " ", o.Finding))
	}
	return out
}

func fine(context.Context, batch.Attempt) error { return nil }

// scripted answers with each error in turn, and the last one from then on.
func scripted(answers ...error) func(context.Context, batch.Attempt) error {
	var mu sync.Mutex
	return func(context.Context, batch.Attempt) error {
		mu.Lock()
		defer mu.Unlock()
		err := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return err
	}
}

func taking(d time.Duration) func(context.Context, batch.Attempt) error {
	return func(ctx context.Context, _ batch.Attempt) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

func TestARunIsPostedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, taking(time.Second), nil)
		r.post(far, "s", "a", "b", "c")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []request{
			{0, timeout, "a", 1, "payload of a"},
			{time.Second, time.Second + timeout, "b", 1, "payload of b"},
			{2 * time.Second, 2*time.Second + timeout, "c", 1, "payload of c"},
		}, r.seen())
		assert.Equal(t, []string{"a accepted", "b accepted", "c accepted"}, r.found())
		r.quit()
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
				r.post(far, "s", "a", "b", "c", "d")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{"a accepted", c.want, "c unposted", "d unposted"}, r.found())
				for _, q := range r.seen() {
					assert.NotContains(t, []batch.ID{"c", "d"}, q.id)
				}
				r.quit()
			})
		})
	}
}

// Quick retries follow only what was certainly not taken, and the first doubt ends
// the attempt.
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
				r := start(t, scripted(c.answers...), nil)
				r.post(far, "s", "a")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{c.want}, r.found(), "one outcome for the attempt")
				got := r.seen()
				assert.Len(t, got, c.tries)
				for i, q := range got {
					assert.Equal(t, 1, q.attempt, "the same attempt")
					if i > 0 {
						pause := q.at - got[i-1].at
						least := 250 * time.Millisecond << (i - 1)
						assert.GreaterOrEqual(t, pause, least*8/10)
						assert.LessOrEqual(t, pause, least*12/10+1)
					}
				}
				r.quit()
			})
		})
	}
}

func TestQuickRetriesHonourRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scripted(&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: 7 * time.Second}, nil), nil)
		r.post(far, "s", "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.seen(), 2)
		assert.Equal(t, 7*time.Second, r.seen()[1].at)
		assert.Equal(t, []string{"a accepted"}, r.found())
		r.quit()
	})
}

// Promise 4: quick retries fit into the claim.
func TestQuickRetriesFitIntoTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scripted(dlt.ErrBusy), nil)
		until := timeout + 500*time.Millisecond // room for one pause of 250 ms, not for another of 500 ms
		r.post(until, "s", "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := r.seen()
		assert.Len(t, got, 2)
		for _, q := range got {
			assert.LessOrEqual(t, q.at+timeout, until)
		}
		assert.Equal(t, []string{"a failed"}, r.found())
		r.quit()
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
				r := start(t, taking(4*time.Second), nil)
				r.post(c.until, "s", "a", "b", "c", "d")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, c.want, r.found())
				for _, q := range r.seen() {
					assert.LessOrEqual(t, q.at+timeout, c.until)
					assert.LessOrEqual(t, q.deadline, c.until)
				}
				r.quit()
			})
		})
	}
}

// Promise 4, second half: what hangs is cut off, and no request outlives its claim.
func TestARequestThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, taking(time.Hour), nil)
		r.post(timeout+3*time.Second, "s", "a", "b")
		time.Sleep(timeout - 1)
		synctest.Wait()
		require.Empty(t, r.found())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a doubtful", "b unposted"}, r.found())
		r.quit()
	})
}

// A panic in the ledger's client is doubt, and nobody else's business.
func TestAPanicInTheLedgerIsDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(_ context.Context, a batch.Attempt) error {
			if a.ID == "bad" {
				panic("boom")
			}
			return nil
		}, nil)
		r.post(far, "s", "bad", "after")
		r.post(far, "t", "good")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"bad doubtful", "after unposted", "good accepted"}, r.found())
		r.post(far, "s", "later")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Contains(t, r.found(), "later accepted")
		r.quit()
	})
}

func TestABatchWithoutItsPayloadFailsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fine, nil)
		run := store.ClaimedRun{Service: "s"}
		for _, id := range []batch.ID{"a", "gone", "after"} {
			run.Batches = append(run.Batches, store.Claim{
				Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 2, From: batch.Queued, Attempt: 1,
				Budget: batch.Budget{Attempts: 1, EveryTry: true},
			})
		}
		r.Post(run, [][]byte{[]byte("x"), nil, []byte("x")}, time.Now().Add(far))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"a accepted", "gone failed", "after unposted"}, r.found())
		assert.False(t, r.outcomes[1].Spend, "nothing was posted")
		assert.Equal(t, time.Second, r.outcomes[1].Delay)
		assert.Len(t, r.seen(), 1)
		assert.Empty(t, r.told(), "and it is no news about the ledger")
		r.quit()
	})
}

// A stop puts back what no hand has taken and lets the requests under way end.
func TestAStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, taking(5*time.Second), func(o *submitter.Options, _ *dlt.Traits) { o.Pool = 1 })
		r.post(far, "s", "a1", "a2")
		synctest.Wait()
		r.post(far, "t", "b1", "b2") // waits for the hand; the first turns slow after a second
		time.Sleep(500 * time.Millisecond)
		r.stop()
		synctest.Wait()
		assert.Equal(t, []string{"b1 unposted", "b2 unposted"}, r.found(), "at once")
		n, again := r.Room()
		assert.Zero(t, n)
		assert.Zero(t, again)
		r.post(far, "u", "c")
		assert.Contains(t, r.found(), "c unposted", "and so is what comes later")
		select {
		case <-r.ended:
			t.Fatal("a1 is still under way")
		default:
		}
		<-r.ended
		assert.Equal(t, 5*time.Second, time.Since(r.begin))
		assert.Equal(t, []string{"b1 unposted", "b2 unposted", "c unposted", "a1 accepted", "a2 unposted"}, r.found())
		assert.Len(t, r.seen(), 1)
	})
}

func TestAStopEndsThePauseBeforeAQuickRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scripted(&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: time.Minute}), nil)
		r.post(far, "s", "a")
		time.Sleep(time.Second)
		r.quit()
		assert.Equal(t, time.Second, time.Since(r.begin))
		assert.Equal(t, []string{"a failed"}, r.found())
	})
}

// feed keeps posting single batches of one service while there is room, as the
// queuer does, until the test ends.
func (r *rig) feed(ctx context.Context, service batch.ServiceID) {
	for i := 0; ctx.Err() == nil; i++ {
		if n, _ := r.Room(); n > 0 && r.Closed(service) == 0 {
			r.post(far, service, batch.ID(fmt.Sprint(service, i)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// What the ledger says closes the gate; one probe a pause finds out when it is over.
func TestTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		maxProbes int           // within the minute that it lasts
		reopen    time.Duration // at the latest after it is over
	}{
		"busy":               {dlt.ErrBusy, 12, 20 * time.Second},
		"unreachable":        {dlt.ErrUnavailable, 12, 20 * time.Second},
		"misconfigured":      {dlt.ErrMisconfigured, 9, 75 * time.Second},
		"busy, and says how": {&dlt.Error{Kind: dlt.ErrBusy, RetryAfter: 20 * time.Second}, 3, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r := start(t, func(context.Context, batch.Attempt) error {
					if time.Since(begin) < time.Minute {
						return c.err
					}
					return nil
				}, func(o *submitter.Options, _ *dlt.Traits) { o.Retries = 0 })
				ctx, cancel := context.WithCancel(t.Context())
				go r.feed(ctx, "s")
				time.Sleep(time.Minute - time.Millisecond)
				synctest.Wait()
				probes := r.seen()
				assert.LessOrEqual(t, len(probes), c.maxProbes)
				assert.GreaterOrEqual(t, len(probes), 3)
				require.Equal(t, []event{{0, true, "", true}}, r.told(), "paused, once")
				require.ErrorIs(t, r.errs[0], c.err)
				for i, q := range probes[1:] {
					if e := new(dlt.Error); errors.As(c.err, &e) && e.RetryAfter > 0 {
						assert.GreaterOrEqual(t, q.at-probes[i].at, e.RetryAfter)
					}
				}
				time.Sleep(c.reopen)
				synctest.Wait()
				events := r.told()
				require.Len(t, events, 2, "resumed, once")
				assert.False(t, events[1].paused)
				assert.True(t, events[1].all)
				for _, o := range r.outcomes {
					assert.False(t, o.Spend)
					assert.NotEqual(t, store.Refused, o.Finding, "promise 10: nothing is burnt")
				}
				cancel()
				r.quit()
				assert.Greater(t, len(r.seen()), len(probes)+100, "and goes on at full speed")
			})
		})
	}
}

// Many requests that come back busy at a time are one piece of news.
func TestManyBusyAnswersCloseTheGateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			_ = taking(100*time.Millisecond)(ctx, a)
			return dlt.ErrBusy
		}, func(o *submitter.Options, _ *dlt.Traits) { o.Retries = 0 })
		for i := range 8 {
			r.post(far, batch.ServiceID(fmt.Sprint("s", i)), batch.ID(fmt.Sprint("b", i)))
		}
		r.post(far, "late", "late")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, r.told(), 1)
		assert.Len(t, r.seen(), 8)
		assert.Contains(t, r.found(), "late unposted", "what was claimed and cannot be posted is put back")
		n, again := r.Room()
		assert.Zero(t, n)
		assert.Positive(t, again)
		assert.LessOrEqual(t, again, 250*time.Millisecond, "that of one pause")
		time.Sleep(again)
		n, _ = r.Room()
		assert.Equal(t, 1, n, "room for the probe")
		r.quit()
	})
}

// Whoever is slow to hear that the gate closed hears last that it opened.
func TestPausedAndResumedAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			if a.ID == "busy" {
				return dlt.ErrBusy
			}
			return taking(100*time.Millisecond)(ctx, a) // sent before the gate closed; opens it
		}, func(o *submitter.Options, _ *dlt.Traits) {
			o.Retries = 0
			o.Paused = func(batch.ServiceID, bool, error) {
				time.Sleep(time.Second)
				events = append(events, "paused")
			}
			o.Resumed = func(batch.ServiceID, bool) { events = append(events, "resumed") }
		})
		r.post(far, "s", "fine")
		synctest.Wait()
		r.post(far, "t", "busy")
		time.Sleep(5 * time.Second)
		r.quit()
		assert.Equal(t, []string{"paused", "resumed"}, events)
	})
}

// Back-pressure slows the endpoint or the service, as the traits say.
func TestPressureSlowsItsScope(t *testing.T) {
	for scope, others := range map[dlt.Scope]bool{dlt.ScopeEndpoint: false, dlt.ScopeService: true} {
		t.Run(fmt.Sprint(scope), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(_ context.Context, a batch.Attempt) error {
					if a.Service == "busy" {
						return dlt.ErrBusy
					}
					return nil
				}, func(o *submitter.Options, traits *dlt.Traits) { o.Retries, traits.PressureScope = 0, scope })
				r.post(far, "busy", "a")
				synctest.Wait()
				r.post(far, "other", "b")
				r.post(far, "busy", "c")
				synctest.Wait()
				assert.Positive(t, r.Closed("busy"))
				assert.Equal(t, !others, r.Closed("other") > 0)
				n, _ := r.Room()
				assert.Equal(t, others, n > 0)
				want := []string{"a failed", "b unposted", "c unposted"}
				if others {
					want[1] = "b accepted"
				}
				assert.ElementsMatch(t, want, r.found())
				events := r.told()
				require.Len(t, events, 1)
				assert.Equal(t, !others, events[0].all)
				if others {
					assert.Equal(t, batch.ServiceID("busy"), events[0].service)
				}
				r.quit()
			})
		})
	}
}

func TestRoomIsWhatHandsCanPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, taking(100*time.Millisecond), func(o *submitter.Options, _ *dlt.Traits) { o.ClaimLimit = 6 })
		room := func() int { n, _ := r.Room(); return n }
		assert.Equal(t, 6, room(), "at most ClaimLimit")
		for i := range 5 {
			r.post(far, "s", batch.ID(fmt.Sprint(i)))
		}
		synctest.Wait()
		assert.Equal(t, 3, room(), "the free hands")
		for i := range 3 {
			r.post(far, "s", batch.ID(fmt.Sprint("m", i)))
		}
		synctest.Wait()
		assert.Zero(t, room())
		r.post(far, "s", "waits")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 6, room(), "what was posted lately, at most ClaimLimit")
		r.mu.Lock()
		ready := r.ready
		r.mu.Unlock()
		assert.GreaterOrEqual(t, ready, 8, "told whenever a hand is free")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, r.found(), 9)
		r.quit()
	})
}

// What is taken and waits for a hand takes room.
func TestQueuedRunsTakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, taking(500*time.Millisecond), nil)
		for i := range 8 {
			r.post(far, "s", batch.ID(fmt.Sprint(i)))
		}
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		n, _ := r.Room()
		require.Equal(t, 8, n)
		for i := range 8 {
			r.post(far, "s", batch.ID(fmt.Sprint("n", i)))
		}
		synctest.Wait()
		r.post(far, "s", "q1", "q2", "q3")
		n, _ = r.Room()
		assert.Equal(t, 5, n, "eight were posted lately, and three wait")
		r.quit()
	})
}

// Promise 7: services that hang wait for their own share, and nobody waits for them.
func TestServicesThatHangAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(ctx context.Context, a batch.Attempt) error {
			if a.Service[0] == 'h' {
				return taking(time.Hour)(ctx, a)
			}
			return nil
		}, nil)
		for i := range 8 {
			r.post(far, batch.ServiceID(fmt.Sprint("h", i)), batch.ID(fmt.Sprint("x", i)))
		}
		time.Sleep(2 * timeout) // all of them are known now
		r.post(far, "h0", "y0")
		r.post(far, "h1", "y1")
		synctest.Wait()
		assert.Positive(t, r.Closed("h2"), "two of eight hands are theirs")
		assert.Zero(t, r.Closed("good"))
		n, _ := r.Room()
		assert.Equal(t, 8, n)
		r.post(far, "h2", "y2") // a claim that slipped through does not stand in the way
		r.post(far, "good", "g")
		synctest.Wait()
		assert.Contains(t, r.found(), "g accepted")
		r.quit()
	})
}
