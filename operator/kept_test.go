package operator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// wide is a store whose looks at all lanes take long.
type wide struct {
	store.Full
	takes  time.Duration
	mu     sync.Mutex
	looks  int
	keeps  error
	writes int
}

func (w *wide) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	if q.Start {
		w.mu.Lock()
		w.looks++
		w.mu.Unlock()
		time.Sleep(w.takes)
	}
	return w.Full.Survey(ctx, q)
}

func (w *wide) KeepSummary(ctx context.Context, name string, turn int64, next store.Summary) (bool, error) {
	w.mu.Lock()
	w.writes++
	w.mu.Unlock()
	if w.keeps != nil {
		return false, w.keeps
	}
	return w.Full.KeepSummary(ctx, name, turn, next)
}

func (w *wide) desk(t *testing.T) *operator.Desk {
	t.Helper()
	d, err := operator.New(w)
	require.NoError(t, err)
	return d
}

// A look that takes long is kept: other processes read it at once, with its age, for fifty times as long.
// One of them looks again then, while the others read on.
func TestCausesKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wide{Full: memory.New(), takes: 2 * time.Second}
		o := newOffice(t, w)
		o.serves(traits, queuer.Serial{}, "s", "t")
		o.lane("s", 3)
		o.lane("t", 2)
		_, err := o.Pause(o.ctx(), batch.Only("s"), ada)
		require.NoError(t, err)
		causes := func(d *operator.Desk, kept bool) (operator.Causes, time.Duration) {
			begin := time.Now()
			c, err := d.Causes(t.Context(), operator.CausesQuery{Kept: kept})
			assert.NoError(t, err)
			return c, time.Since(begin)
		}
		first, took := causes(o.Desk, true)
		assert.Equal(t, 2*time.Second, took)
		assert.Zero(t, first.Age)
		time.Sleep(90 * time.Second)
		other := w.desk(t)
		read, took := causes(other, true)
		assert.Zero(t, took)
		assert.Equal(t, 90*time.Second, read.Age)
		read.Age = 0
		assert.Equal(t, first, read, "all of it is read as it was written")
		assert.Equal(t, 1, w.looks)

		time.Sleep(10 * time.Second)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { causes(w.desk(t), true) })
		}
		all.Wait()
		assert.Equal(t, 2, w.looks, "one looks again")
		read, took = causes(other, true)
		assert.Zero(t, took)
		assert.Less(t, read.Age, 5*time.Second)

		held, err := o.Control(o.ctx(), batch.Only("s"))
		require.NoError(t, err)
		_, err = o.Resume(o.ctx(), held, ada)
		require.NoError(t, err)
		fresh, took := causes(other, false)
		assert.Equal(t, 2*time.Second, took, "somebody wants the present")
		assert.Equal(t, 3, w.looks)
		read, _ = causes(o.Desk, true)
		read.Age = 0
		assert.Equal(t, fresh, read, "and the others read it")

		w.takes = time.Millisecond
		causes(other, false)
		for range 3 {
			causes(o.Desk, true)
		}
		assert.Equal(t, 7, w.looks, "what takes no time is not kept")
		writes := w.writes
		causes(other, true)
		assert.Equal(t, writes, w.writes)
	})
}

// A look is an answer where it cannot be kept, and where what is kept is another code's.
func TestCausesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wide{Full: memory.New(), takes: time.Second, keeps: errors.New("permission denied")}
		d := w.desk(t)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 2, w.looks)
		w.keeps = nil
		_, err := w.Full.KeepSummary(t.Context(), "causes", 0, store.Summary{Text: "{not JSON"})
		require.NoError(t, err)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 3, w.looks, "the next look replaces it")
		time.Sleep(time.Minute)
		w.keeps = errors.New("permission denied")
		c, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
		require.NoError(t, err)
		assert.Zero(t, c.Age)
		assert.Equal(t, 4, w.looks)
	})
}
