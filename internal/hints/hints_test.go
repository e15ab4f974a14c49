package hints_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// hintWire is a store whose hints between processes can be cut off.
type hintWire struct {
	*memory.Store
	mu        sync.Mutex
	toldHints []store.Hint
	toldAt    []time.Time
	err       error              // the error of each Tell and Hear
	tellTime  time.Duration      // the time that each Tell takes
	cutHear   context.CancelFunc // ends the present Hear
}

func (w *hintWire) Tell(ctx context.Context, h store.Hint) error {
	w.mu.Lock()
	w.toldHints, w.toldAt = append(w.toldHints, h), append(w.toldAt, time.Now())
	err, slow := w.err, w.tellTime
	w.mu.Unlock()
	time.Sleep(slow)
	if err != nil {
		return err
	}
	return w.Store.Tell(ctx, h)
}

var errCut = errors.New("cut")

func (w *hintWire) Hear(ctx context.Context, l store.Listener) error {
	w.mu.Lock()
	err := w.err
	session, cut := context.WithCancel(ctx)
	w.cutHear = cut
	w.mu.Unlock()
	if err != nil {
		return err
	}
	err = w.Store.Hear(session, l)
	if ctx.Err() == nil {
		return errCut
	}
	return err
}

func (w *hintWire) setError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *hintWire) takeTold() (all []store.Hint, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, at, w.toldHints, w.toldAt = w.toldHints, w.toldAt, nil, nil
	return all, at
}

func laneHint(s batch.ServiceID) store.Hint { return store.Hint{Lanes: []batch.ServiceID{s}} }

// The first hint is sent at once, and those after it are sent together. A process that adds all
// the time sends a hundred hints a second at most, and leaves no goroutine running.
func TestHintsAreToldInGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New()}
		n := hints.New(hints.Options{Store: w, Timeout: time.Second})
		began := time.Now()
		for range 1000 {
			n.Tell(laneHint("a"))
			n.Tell(laneHint("b"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		told, at := w.takeTold()
		assert.Equal(t, began, at[0])
		assert.LessOrEqual(t, len(told), 101)
		assert.GreaterOrEqual(t, len(told), 99)
		for _, h := range told[1:] {
			assert.ElementsMatch(t, []batch.ServiceID{"a", "b"}, h.Lanes, "each once")
			assert.NotEmpty(t, h.From)
		}
		n.Tell(laneHint("a")) // the test ends while a timer is set, and without a goroutine
		n.Tell(laneHint("b"))
	})
}

// If the store is slow to send hints, sending takes one twentieth of the time, whether it succeeds
// or not. No hint is lost by that, and after one very slow answer the next hint waits for 5 s.
func TestTellingTakesAPartOfTheTime(t *testing.T) {
	for _, err := range []error{nil, errCut} {
		synctest.Test(t, func(t *testing.T) {
			w := &hintWire{Store: memory.New(), tellTime: 100 * time.Millisecond, err: err}
			n := hints.New(hints.Options{Store: w, Timeout: time.Minute})
			for i := range 40_000 {
				n.Tell(laneHint(batch.ServiceID(fmt.Sprint(i / 100))))
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			told, _ := w.takeTold()
			assert.LessOrEqual(t, len(told), 21, "of 100 ms each, in 40 s")
			if err == nil {
				lanes := 0
				for _, h := range told {
					lanes += len(h.Lanes)
				}
				assert.GreaterOrEqual(t, len(told), 20)
				assert.GreaterOrEqual(t, lanes, 400, "each is told")
			}
			time.Sleep(time.Minute)
			w.takeTold()
			w.tellTime = 10 * time.Second
			n.Tell(laneHint("a"))
			synctest.Wait()
			w.tellTime = 0
			n.Tell(laneHint("b"))
			time.Sleep(18 * time.Second) // a pause after a failure has jitter: 5 s and half of it at most
			told, at := w.takeTold()
			require.Len(t, told, 2)
			if err == nil {
				assert.Equal(t, 15*time.Second, at[1].Sub(at[0]))
			}
		})
	}
}

// If there are too many names for one hint, the hint is about the whole topic.
func TestManyHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New()}
		n := hints.New(hints.Options{Store: w, Timeout: time.Second})
		n.Tell(laneHint("first"))
		synctest.Wait()
		for i := range 5000 {
			n.Tell(store.Hint{Lanes: []batch.ServiceID{batch.ServiceID(fmt.Sprint(i))}, Finals: []uint64{uint64(i)}, OrderFinals: []uint64{1}})
		}
		time.Sleep(time.Second)
		told, _ := w.takeTold()
		require.Len(t, told, 2)
		told[1].From = ""
		assert.Equal(t, store.Hint{WholeTopics: store.TopicLanes | store.TopicFinals | store.TopicOrderFinals}, told[1])
	})
}

// After failures to send a hint, the store is called with growing pauses.
func TestHintsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New(), err: errCut}
		n := hints.New(hints.Options{Store: w, Timeout: time.Second})
		for range 60_000 {
			n.Tell(laneHint("a"))
			time.Sleep(time.Millisecond)
		}
		told, _ := w.takeTold()
		assert.Less(t, len(told), 30)
		w.setError(nil)
		time.Sleep(10 * time.Second)
		w.takeTold()
		n.Tell(laneHint("b"))
		synctest.Wait()
		told, _ = w.takeTold()
		require.Len(t, told, 1)
		assert.Equal(t, []batch.ServiceID{"b"}, told[0].Lanes)
	})
}

// A listener whose connection is lost listens again, and then look is called once.
func TestAListenerThatIsLost(t *testing.T) {
	tier.Hints(t)
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New()}
		var states []string
		n := hints.New(hints.Options{Store: w, Timeout: time.Second, Changed: func(_ store.Topics, _, now hints.State) {
			states = append(states, fmt.Sprint(now.Live, now.Err))
		}})
		ctx, stop := context.WithCancel(t.Context())
		var looks, heard atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			n.Hear(ctx, store.TopicLanes, func(store.Hint) { heard.Add(1) }, func() { looks.Add(1) })
		}()
		synctest.Wait()
		assert.EqualValues(t, 1, looks.Load())
		assert.True(t, n.State(store.TopicLanes).Live)
		require.NoError(t, w.Tell(ctx, store.Hint{From: "other", WholeTopics: store.TopicLanes}))
		require.NoError(t, w.Tell(ctx, store.Hint{From: "other", WholeTopics: store.TopicFinals}))
		assert.EqualValues(t, 1, heard.Load())

		w.setError(errCut)
		w.cutHear()
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 1, looks.Load())
		assert.Equal(t, errCut, n.State(store.TopicLanes).Err)
		w.setError(nil)
		time.Sleep(2 * time.Minute)
		assert.EqualValues(t, 2, looks.Load())
		assert.True(t, n.State(store.TopicLanes).Live)
		stop()
		<-ended
		assert.False(t, n.State(store.TopicLanes).Live)
		assert.Equal(t, []string{"true <nil>", "false cut", "true <nil>", "false <nil>"}, states)
	})
}

// Several calls of Hear may listen to the same topics. The node is live while one of them is.
func TestSeveralHearTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		n := hints.New(hints.Options{Store: memory.New(), Timeout: time.Second, Changed: func(store.Topics, hints.State, hints.State) { changes++ }})
		hear := func() context.CancelFunc {
			ctx, stop := context.WithCancel(t.Context())
			go n.Hear(ctx, store.TopicFinals, func(store.Hint) {}, func() {})
			synctest.Wait()
			return func() { stop(); synctest.Wait() }
		}
		one := hear()
		since := time.Now()
		time.Sleep(time.Minute)
		two := hear()
		one()
		assert.Equal(t, hints.State{Live: true, Since: since, Way: "in memory"}, n.State(store.TopicFinals))
		time.Sleep(time.Minute)
		two()
		assert.Equal(t, hints.State{Since: time.Now()}, n.State(store.TopicFinals))
		assert.Equal(t, 2, changes)
	})
}

// A node that has listened for a while knows whether another process listens.
func TestHearersNameWhatTheyWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New()}
		runs := hints.New(hints.Options{Store: w, Timeout: time.Second})
		waits := hints.New(hints.Options{Store: w, Timeout: time.Second})
		assert.True(t, runs.Wanted(store.TopicFinals), "nobody knows")
		none := func(store.Hint) {}
		go runs.Hear(t.Context(), store.TopicLanes, none, func() {})
		synctest.Wait()
		assert.True(t, runs.Wanted(store.TopicFinals), "others may not have told yet")
		time.Sleep(hints.ForgetAfter)
		assert.False(t, runs.Wanted(store.TopicFinals))
		ctx, stop := context.WithCancel(t.Context())
		go waits.Hear(ctx, store.TopicFinals, none, func() {})
		synctest.Wait()
		assert.True(t, runs.Wanted(store.TopicFinals))
		assert.False(t, runs.Wanted(store.TopicOrders))
		time.Sleep(time.Hour)
		assert.True(t, runs.Wanted(store.TopicFinals))
		stop()
		time.Sleep(hints.ForgetAfter)
		assert.False(t, runs.Wanted(store.TopicFinals))
	})
}

// Made up listeners take no more than bounded memory, and no hint from listeners that exist.
func TestListenersThatAreMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hintWire{Store: memory.New()}
		runs := hints.New(hints.Options{Store: w, Timeout: time.Second})
		waits := hints.New(hints.Options{Store: w, Timeout: time.Second})
		none := func(store.Hint) {}
		go runs.Hear(t.Context(), store.TopicLanes, none, func() {})
		time.Sleep(hints.ForgetAfter)
		for i := range 5000 {
			require.NoError(t, w.Store.Tell(t.Context(), store.Hint{From: fmt.Sprint("forged", i), Hears: store.TopicOrders}))
		}
		assert.LessOrEqual(t, runs.Peers(), 1000)
		ctx, stop := context.WithCancel(t.Context())
		go waits.Hear(ctx, store.TopicFinals, none, func() {})
		synctest.Wait()
		assert.True(t, runs.Wanted(store.TopicFinals))
		time.Sleep(2 * hints.ForgetAfter) // real listeners name themselves each minute
		assert.True(t, runs.Wanted(store.TopicFinals))
		assert.False(t, runs.Wanted(store.TopicOrders))
		stop()
		time.Sleep(hints.ForgetAfter)
		assert.False(t, runs.Wanted(store.TopicFinals))
	})
}

// A node on a store without hints calls no method of the store.
func TestNoHints(t *testing.T) {
	n := hints.New(hints.Options{Timeout: time.Second})
	n.Tell(laneHint("a"))
	assert.False(t, n.Wanted(store.AllTopics))
	n.Hear(t.Context(), store.TopicLanes, nil, nil)
	require.ErrorIs(t, n.State(store.TopicLanes).Err, store.ErrUnsupported)
}
