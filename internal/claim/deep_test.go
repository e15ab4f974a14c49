package claim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// fillLane adds n batches of a service that share no address to a store.
func fillLane(t *testing.T, st *memory.Store, service batch.ServiceID, n int) {
	t.Helper()
	for i := range n {
		id := batch.ID(fmt.Sprintf("%s-%03d", service, i))
		require.NoError(t, st.Add(t.Context(), batch.Batch{
			ID: id, Service: service, Payload: []byte(id), Footprint: batch.Footprint{Writes: []string{fmt.Sprintf("%03x", i)}},
		}))
	}
}

// useStore makes a test's queuer work on a store.
func useStore(w *claimTest, st *memory.Store, resend store.Resend) {
	w.claim = func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
		q.Resend = func(batch.ServiceID) store.Resend { return resend }
		return st.Claim(context.Background(), q, choose)
	}
}

// Promise 7 for a lane with many batches that may be sent at once: it goes behind the lanes for
// which the same claim had no room.
func TestADeepLaneTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		fillLane(t, st, "deep", 200)
		for _, s := range serviceNames(5) {
			fillLane(t, st, s, 1)
		}
		w := &claimTest{room: func() (int, time.Duration) { return 4, 0 }}
		useStore(w, st, store.Resend{})
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Parallel(0) })
		q.Hint("deep")
		for _, s := range serviceNames(5) {
			q.Hint(s)
		}
		time.Sleep(scan / 2) // the lane rests in between
		synctest.Wait()
		stop()
		posts := w.posts()
		require.Len(t, posts, 205, "everything leaves")
		last := 0
		for i, p := range posts {
			if strings.HasPrefix(string(p.ids[0]), "s") {
				last = i
			}
		}
		assert.Less(t, last, 2*4+5, "no other lane waits for more than two claims of the deep one")
	})
}

// A strategy may ask for all batches of a lane: the largest window overflows nothing, even with
// several lanes.
func TestTheLargestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &claimTest{claim: claimOneOfEach, room: func() (int, time.Duration) {
			if asked++; asked > 10 {
				return 0, 0 // a queuer that puts its lanes back would ask for ever
			}
			return 100, 0
		}}
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Parallel(math.MaxInt) })
		q.Hint("a", "b")
		synctest.Wait()
		stop()
		assert.Equal(t, []claimCall{{lanes: []batch.ServiceID{"a", "b"}, limit: 100}}, w.claimCalls())
		assert.Len(t, w.posts(), 2)
	})
}

// A lane of many open batches is not read each time that one of them becomes final or is added: it
// rests for a time that depends on their number. A hint after the rest causes a read at once, and
// so does a hint for a lane of few batches.
func TestADeepLaneRests(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		for _, l := range []struct {
			service batch.ServiceID
			n       int
		}{{"deep", 1000}, {"few", 50}} {
			fillLane(t, st, l.service, l.n)
			_, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{l.service}, Limit: l.n, Window: l.n, TTL: time.Hour},
				queuer.Parallel(0).Select)
			require.NoError(t, err)
		}
		w := &claimTest{}
		useStore(w, st, store.Resend{})
		q, stop := w.start(t, func(o *claim.Options) { o.Strategy, o.ScanInterval = queuer.Parallel(0), time.Hour })
		for range 1000 {
			q.Hint("deep")
			q.Hint("few")
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.Len(t, w.askTimes("few"), 1000)
		deep := w.askTimes("deep")
		require.LessOrEqual(t, len(deep), 101, "one read serves ten hints")
		require.GreaterOrEqual(t, deep[len(deep)-1], 999*time.Millisecond, "and the last one is served, too")

		q.Hint("deep")
		hinted := w.now()
		synctest.Wait()
		stop()
		deep = w.askTimes("deep")
		require.Equal(t, hinted, deep[len(deep)-1], "it has rested: a chain of conflicts is not slowed")
	})
}

// lyingStrategy is a strategy that answers wrongly while lieAbout is set.
type lyingStrategy struct {
	mu       sync.Mutex
	lieAbout func(batch.Lane) []batch.Run // the wrong answer; nil for the right one
}

func (l *lyingStrategy) Select(lane batch.Lane) []batch.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lieAbout == nil {
		return queuer.Parallel(0).Select(lane)
	}
	return l.lieAbout(lane)
}

// If a strategy gives a wrong answer, no batch is sent that may not be sent: the lane is held,
// unchanged, and other lanes go on. The lane goes on when the strategy gives right answers again.
func TestALyingStrategyHoldsItsLane(t *testing.T) {
	for name, lie := range map[string]func(batch.Lane) []batch.Run{
		"passes a conflict": func(batch.Lane) []batch.Run { return []batch.Run{{1}} },
		"beside a good one": func(batch.Lane) []batch.Run { return []batch.Run{{2}, {1}} },
		"twice":             func(batch.Lane) []batch.Run { return []batch.Run{{0}, {2}, {0}} },
		"out of range":      func(batch.Lane) []batch.Run { return []batch.Run{{0, 3}} },
		"negative":          func(batch.Lane) []batch.Run { return []batch.Run{{-1}} },
		"backwards":         func(batch.Lane) []batch.Run { return []batch.Run{{2, 0}} },
		"panics":            func(batch.Lane) []batch.Run { panic(errors.New("boom")) },
		"makes up a lane":   func(l batch.Lane) []batch.Run { clear(l.Batches); return []batch.Run{{1}} },
		"writes into a footprint": func(l batch.Lane) []batch.Run {
			l.Batches[0].Footprint.Writes[0] = "x"
			return []batch.Run{{1}}
		},
		"unties a conflict": func(l batch.Lane) []batch.Run { l.Batches[0].Footprint.Writes = []string{"x"}; return []batch.Run{{1}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				for _, service := range []batch.ServiceID{"bad", "good"} {
					for i, write := range []string{"aa", "aabb", "cc"} {
						id := batch.ID(fmt.Sprint(service, i))
						require.NoError(t, st.Add(t.Context(), batch.Batch{ID: id, Service: service, Payload: []byte(id), Footprint: batch.Footprint{Writes: []string{write}}}))
					}
				}
				s := &lyingStrategy{}
				s.lieAbout = func(l batch.Lane) []batch.Run {
					if l.Service == "good" {
						return queuer.Parallel(0).Select(l)
					}
					return lie(l)
				}
				w := &claimTest{lanes: []batch.ServiceID{"bad", "good"}}
				useStore(w, st, store.Resend{})
				_, stop := w.start(t, func(o *claim.Options) { o.Strategy = queuer.Strategy{Name: "liar", Window: 100, Select: s.Select} })
				synctest.Wait()
				assert.Equal(t, []batch.ID{"good0", "good2"}, postedIDs(w.posts()))
				assert.Len(t, locked(w, func() []error { return w.heldErrors }), 1, "reported")
				for i := range 3 {
					rec, err := st.Get(t.Context(), batch.Key{Service: "bad", ID: batch.ID(fmt.Sprint("bad", i))})
					require.NoError(t, err)
					assert.Equal(t, batch.Queued, rec.State)
					assert.Zero(t, rec.Attempt)
				}
				s.mu.Lock()
				s.lieAbout = nil
				s.mu.Unlock()
				time.Sleep(2 * scan)
				synctest.Wait()
				stop()
				assert.Equal(t, []batch.ID{"good0", "good2", "bad0", "bad2"}, postedIDs(w.posts()), "what conflicts still waits")
			})
		})
	}
}

func postedIDs(posts []post) (out []batch.ID) {
	for _, p := range posts {
		out = append(out, p.ids...)
	}
	return out
}
