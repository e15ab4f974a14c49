package queuer_test

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
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

var errStore = errors.New("database down")

const (
	ttl    = time.Minute
	margin = 5 * time.Second
	scan   = 10 * time.Second
)

// call is one claim that was asked for.
type call struct {
	at    time.Duration // since the start
	lanes []batch.ServiceID
	limit int
}

// world is a store and a submitter that do as they are told, and keep a journal.
// Funcs that are nil do the obvious.
type world struct {
	begin time.Time
	lanes []batch.ServiceID // with open batches, in order

	claim    func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error)
	payloads func(refs []store.Ref) ([][]byte, error)
	list     func(q store.LanesQuery) ([]batch.ServiceID, error)
	room     func() (int, time.Duration)
	closed   func(batch.ServiceID) time.Duration

	mu       sync.Mutex
	scans    []store.LanesQuery
	calls    []call
	posted   []post
	returned []store.Claim
	claims   int
	held     []error
}

type post struct {
	at, until time.Duration
	ids       []batch.ID
	payloads  []string
}

func (w *world) now() time.Duration { return time.Since(w.begin) }

// look returns a value of the journal.
func look[T any](w *world, f func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *world) journal() []call { return look(w, func() []call { return slices.Clone(w.calls) }) }
func (w *world) posts() []post   { return look(w, func() []post { return slices.Clone(w.posted) }) }

// asked returns when a lane was part of a claim.
func (w *world) asked(s batch.ServiceID) (at []time.Duration) {
	for _, c := range w.journal() {
		if slices.Contains(c.lanes, s) {
			at = append(at, c.at)
		}
	}
	return at
}

func (w *world) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	w.mu.Lock()
	w.scans = append(w.scans, q)
	w.mu.Unlock()
	if w.list != nil {
		return w.list(q)
	}
	var out []batch.ServiceID
	for _, s := range w.lanes {
		if (q.Start || s > q.After) && len(out) < q.Limit {
			out = append(out, s)
		}
	}
	return out, ctx.Err()
}

func (w *world) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return store.Claimed{}, err
	}
	w.mu.Lock()
	w.calls = append(w.calls, call{w.now(), slices.Clone(q.Lanes), q.Limit})
	w.mu.Unlock()
	if w.claim != nil {
		c, err := w.claim(q, choose)
		return c, errors.Join(err, ctx.Err())
	}
	return store.Claimed{}, nil
}

func (w *world) Payloads(_ context.Context, refs []store.Ref) ([][]byte, error) {
	if w.payloads != nil {
		return w.payloads(refs)
	}
	var out [][]byte
	for _, r := range refs {
		out = append(out, []byte("payload of "+r.Key.ID))
	}
	return out, nil
}

func (w *world) Room() (int, time.Duration) {
	if w.room != nil {
		return w.room()
	}
	return 100, 0
}

func (w *world) Closed(s batch.ServiceID) time.Duration {
	if w.closed != nil {
		return w.closed(s)
	}
	return 0
}

func (w *world) Post(r store.ClaimedRun, payloads [][]byte, until time.Time) {
	p := post{at: w.now(), until: until.Sub(w.begin)}
	for i, c := range r.Batches {
		p.ids = append(p.ids, c.Key.ID)
		p.payloads = append(p.payloads, string(payloads[i]))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posted = append(w.posted, p)
}

func (w *world) Return(claims []store.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned = append(w.returned, claims...)
}

// start runs a queuer as the Runner does, until the test ends.
func (w *world) start(t *testing.T, change func(*queuer.Options)) (*queuer.Queuer, context.CancelFunc) {
	w.begin = time.Now()
	o := queuer.Options{
		Strategy: queuer.Serial{}, TTL: ttl, Margin: margin, ScanInterval: scan, ScanLanes: 3, Lanes: 100,
		Resend: func(batch.ServiceID) store.Resend { return store.Resend{} },
		Held: func(_ batch.ServiceID, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = append(w.held, err)
		},
		Claimed: func(store.Claim) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claims++
		},
	}
	if change != nil {
		change(&o)
	}
	q := queuer.New(w, w, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx, q.Run, func(error) {})
	}()
	return q, func() {
		cancel()
		<-done
	}
}

func services(n int) (out []batch.ServiceID) {
	for i := range n {
		out = append(out, batch.ServiceID(fmt.Sprintf("s%02d", i)))
	}
	return out
}

func run(service batch.ServiceID, ids ...batch.ID) store.ClaimedRun {
	r := store.ClaimedRun{Service: service}
	for _, id := range ids {
		r.Batches = append(r.Batches, store.Claim{Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 2, From: batch.Queued, Attempt: 1})
	}
	return r
}

// once answers the first claim with c, and later ones with nothing.
func once(c store.Claimed) func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
	first := true
	return func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
		if first {
			first = false
			return c, nil
		}
		return store.Claimed{}, nil
	}
}

// Promise 6: what nobody hinted at is found, however many lanes there are, at the
// latest after as many scans as it takes to read them all.
func TestTheScanRotatesOverAllLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: append([]batch.ServiceID{""}, services(7)...)} // ScanLanes is 3
		_, stop := w.start(t, nil)
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		stop()
		for i, s := range w.lanes {
			first := time.Duration(i/3) * scan
			assert.Equal(t, []time.Duration{first, first + 3*scan}, w.asked(s), "lane %q", s)
		}
		assert.Equal(t, store.LanesQuery{Start: true, Limit: 3}, w.scans[0])
		assert.Equal(t, store.LanesQuery{After: "s01", Limit: 3}, w.scans[1])
	})
}

// A scan that was cut short by an error elsewhere goes on where it was, else lanes
// past the first ScanLanes would never be read.
func TestTheScanGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: services(9), claim: func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			if slices.Contains(q.Lanes, "s00") {
				return store.Claimed{}, errStore // one lane that always fails
			}
			return store.Claimed{}, nil
		}}
		_, stop := w.start(t, nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		stop()
		assert.NotEmpty(t, w.asked("s08"))
	})
}

func TestScansWaitForTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		q, stop := w.start(t, nil)
		for range 100 {
			q.Wake()
			q.Hint("a")
			time.Sleep(scan / 10)
		}
		synctest.Wait()
		stop()
		assert.LessOrEqual(t, len(w.scans), 11, "whatever wakes the queuer meanwhile")
	})
}

func TestAHintIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		q, stop := w.start(t, nil)
		time.Sleep(1500 * time.Millisecond)
		q.Hint("b")
		q.Hint("a")
		q.HintIn("later", 2*time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{1500 * time.Millisecond}, w.asked("a"))
		assert.Equal(t, []time.Duration{1500 * time.Millisecond}, w.asked("b"))
		assert.Equal(t, []time.Duration{3500 * time.Millisecond}, w.asked("later"))
	})
}

// A hinted lane that another instance was choosing from keeps its hint.
func TestALockedLaneKeepsItsHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			if w.now() < 100*time.Millisecond {
				return store.Claimed{Locked: q.Lanes}, nil
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		at := w.asked("a")
		require.NotEmpty(t, at)
		assert.InDelta(t, 100*time.Millisecond, at[len(at)-1], float64(50*time.Millisecond), "soon after it was let go")
		assert.Less(t, len(at), 50, "and without spinning")
	})
}

func TestALaneThatWasLeftGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{claim: once(store.Claimed{Left: []batch.ServiceID{"b"}})}
		q, stop := w.start(t, nil)
		q.Hint("a")
		q.Hint("b")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{0}, w.asked("a"))
		assert.Equal(t, []time.Duration{0, 0}, w.asked("b"), "at once")
	})
}

// NextReady is when a batch of the lanes becomes ready: they are looked at again
// then, and not only when a scan comes by.
func TestNextReadyIsLookedAtInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: services(30), list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			var c store.Claimed
			for _, s := range q.Lanes {
				choose(batch.Lane{Service: s, Batches: []batch.Waiting{{ID: "x", State: batch.Delayed, Ready: s == "idle"}}})
			}
			if left := 4200*time.Millisecond - w.now(); left > 0 && slices.Contains(q.Lanes, "waits") {
				c.NextReady = left
			}
			return c, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("waits")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		stop()
		at := w.asked("waits")
		require.GreaterOrEqual(t, len(at), 2)
		assert.GreaterOrEqual(t, at[len(at)-1], 4200*time.Millisecond)
		assert.Less(t, at[len(at)-1], 4300*time.Millisecond)
		assert.Less(t, len(at), 5)
	})
}

// Promise 9: waiting lanes are not looked at over and over because one of them
// becomes ready every few milliseconds.
func TestManyWaitingLanesCostNoMoreThanAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: services(100)}
		looks := 0
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			looks += len(q.Lanes)
			for _, s := range q.Lanes {
				choose(batch.Lane{Service: s, Batches: []batch.Waiting{{ID: "x", State: batch.Delayed}}})
			}
			return store.Claimed{NextReady: time.Millisecond}, nil
		}
		_, stop := w.start(t, func(o *queuer.Options) { o.ScanLanes, o.ScanInterval = 100, time.Second })
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		assert.Less(t, looks, 3*60*100, "as many as the scans make, and as many again")
	})
}

// An error of the store loses no lane: they are asked for again.
func TestAnErrorOfTheStoreKeepsTheLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			if w.now() < 3*time.Second {
				return store.Claimed{}, errStore
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("a")
		q.Hint("b")
		time.Sleep(scan + 5*time.Second)
		synctest.Wait()
		stop()
		for _, s := range []batch.ServiceID{"a", "b"} {
			at := w.asked(s)
			require.NotEmpty(t, at)
			assert.GreaterOrEqual(t, at[len(at)-1], 3*time.Second, "lane %q", s)
		}
	})
}

// Promise 4 begins here: until is reckoned from before the claim.
func TestUntilIsReckonedFromBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		first := true
		w.claim = func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
			if !first {
				return store.Claimed{}, nil
			}
			first = false
			time.Sleep(7 * time.Second) // a slow database
			return store.Claimed{Runs: []store.ClaimedRun{run("s", "a", "b"), run("t", "c")}}, nil
		}
		w.payloads = func(refs []store.Ref) ([][]byte, error) {
			time.Sleep(3 * time.Second)
			return [][]byte{[]byte("1"), []byte("2"), []byte("3")}, nil
		}
		q, stop := w.start(t, nil)
		time.Sleep(2 * time.Second)
		q.Hint("s")
		q.Hint("t")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		stop()
		until := 2*time.Second + ttl - margin
		assert.Equal(t, []post{
			{12 * time.Second, until, []batch.ID{"a", "b"}, []string{"1", "2"}},
			{12 * time.Second, until, []batch.ID{"c"}, []string{"3"}},
		}, w.posts())
		assert.Equal(t, 3, w.claims, "each claim is told")
		assert.Empty(t, w.returned)
	})
}

// Claims whose payloads cannot be had are put back.
func TestPayloadErrorsPutClaimsBack(t *testing.T) {
	for name, c := range map[string]struct {
		payloads func([]store.Ref) ([][]byte, error)
		posted   []batch.ID
		returned int
	}{
		"the store fails": {func([]store.Ref) ([][]byte, error) { return nil, errStore }, nil, 4},
		"too few":         {func([]store.Ref) ([][]byte, error) { return [][]byte{[]byte("x")}, nil }, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{payloads: c.payloads, claim: once(store.Claimed{
					Runs: []store.ClaimedRun{run("s", "a", "b", "c"), run("t", "d")},
				})}
				q, stop := w.start(t, nil)
				q.Hint("s")
				time.Sleep(time.Second)
				synctest.Wait()
				stop()
				assert.Empty(t, w.posts())
				assert.Len(t, w.returned, c.returned)
			})
		})
	}
}

// Promise 6: a payload that is gone holds up its own lane and no other.
func TestAMissingPayloadHoldsItsOwnLaneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{payloads: func(refs []store.Ref) (out [][]byte, _ error) {
			for _, r := range refs {
				if r.Key.ID == "gone" {
					out = append(out, nil)
				} else {
					out = append(out, []byte("x"))
				}
			}
			return out, nil
		}}
		w.claim = func(q store.ClaimQuery, _ store.Choose) (c store.Claimed, _ error) {
			for _, s := range q.Lanes {
				if s == "bad" {
					c.Runs = append(c.Runs, run("bad", "before", "gone", "after"))
				} else {
					c.Runs = append(c.Runs, run(s, batch.ID("of "+s)))
				}
			}
			return c, nil
		}
		q, stop := w.start(t, nil)
		q.Hint("bad")
		q.Hint("good")
		time.Sleep(10 * time.Millisecond)
		q.Hint("better")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		stop()
		var ids []batch.ID
		for _, p := range w.posts() {
			ids = append(ids, p.ids...)
		}
		assert.Equal(t, []batch.ID{"before", "gone", "after", "of good", "of better"}, ids, "the others at once")
		assert.Equal(t, []string{"x", "", "x"}, w.posts()[0].payloads, "the submitter stops the run there")
		assert.Empty(t, w.returned)
		require.Len(t, w.held, 1)
		require.ErrorIs(t, w.held[0], batch.ErrNotFound)
	})
}

// No claim is made that no hand could post.
func TestNothingIsClaimedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: services(3)}
		w.room = func() (int, time.Duration) {
			switch {
			case w.now() < 2*time.Second:
				return 0, 2*time.Second - w.now()
			case w.now() < 4*time.Second:
				return 0, 0 // until woken
			}
			return 2, 0
		}
		q, stop := w.start(t, nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, w.journal())
		time.Sleep(time.Second)
		q.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		require.Equal(t, []call{
			{4 * time.Second, []batch.ServiceID{"s00", "s01"}, 2},
			{4 * time.Second, []batch.ServiceID{"s02"}, 2},
		}, w.journal(), "then as much as there is room for, and the hints were kept")
	})
}

func TestRoomIsAskedForWhenItMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{lanes: services(1)}
		w.room = func() (int, time.Duration) {
			if left := 1300*time.Millisecond - w.now(); left > 0 {
				return 0, left
			}
			return 1, 0
		}
		_, stop := w.start(t, nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{1300 * time.Millisecond}, w.asked("s00"))
	})
}

// A service that may not be sent to waits until it may; the others go on.
func TestClosedServicesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{list: func(store.LanesQuery) ([]batch.ServiceID, error) { return nil, nil }}
		w.closed = func(s batch.ServiceID) time.Duration {
			if s == "closed" {
				return max(0, 3500*time.Millisecond-w.now())
			}
			return 0
		}
		q, stop := w.start(t, nil)
		q.Hint("closed")
		q.Hint("open")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		stop()
		assert.Equal(t, []time.Duration{0}, w.asked("open"))
		assert.Equal(t, []time.Duration{3500 * time.Millisecond}, w.asked("closed"))
	})
}

// A stop begins no claim, and does not cut one short that is under way.
func TestAStopLetsTheClaimUnderWayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		begun := make(chan struct{})
		w.claim = func(q store.ClaimQuery, _ store.Choose) (store.Claimed, error) {
			if q.Lanes[0] == "a" {
				close(begun)
				time.Sleep(time.Second)
			}
			return store.Claimed{Runs: []store.ClaimedRun{run(q.Lanes[0], "of "+batch.ID(q.Lanes[0]))}}, nil
		}
		q, stop := w.start(t, func(o *queuer.Options) { o.Lanes = 1 })
		q.Hint("a")
		q.Hint("b")
		<-begun
		stop()
		require.Len(t, w.posts(), 1, "what it took is handed over")
		assert.Equal(t, []batch.ID{"of a"}, w.posts()[0].ids)
		assert.Len(t, w.journal(), 1, "and b is not begun")
	})
}

// A strategy's bad answer and panic reach Held, and nothing of the lane is claimed.
func TestABadStrategyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
			assert.Equal(t, 10, q.Window)
			for _, s := range q.Lanes {
				assert.Empty(t, choose(batch.Lane{Service: s, Batches: []batch.Waiting{{ID: "x", State: batch.Pending}}}))
			}
			return store.Claimed{}, nil
		}
		q, stop := w.start(t, func(o *queuer.Options) {
			o.Strategy = strategy(func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		})
		q.Hint("s")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		assert.Len(t, w.held, 1)
	})
}
