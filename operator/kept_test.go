package operator_test

import (
	"context"
	"errors"
	"slices"
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

// wide is a store whose surveys of all lanes take long.
type wide struct {
	store.Store
	takes  time.Duration
	reads  time.Duration // how long a read of kept reports takes
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
	return w.Store.Survey(ctx, q)
}

func (w *wide) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	found, now, err := w.Store.ReadTexts(ctx, kind, names...)
	if w.reads > 0 && kind == store.TextCauses {
		time.Sleep(w.reads)
	}
	return found, now, err
}

func (w *wide) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	if all[0].Kind != store.TextCauses {
		return w.Store.SwapTexts(ctx, all...)
	}
	w.mu.Lock()
	w.writes++
	w.mu.Unlock()
	if w.keeps != nil {
		return false, w.keeps
	}
	return w.Store.SwapTexts(ctx, all...)
}

func (w *wide) desk(t *testing.T) *operator.Desk {
	t.Helper()
	d, err := operator.New(w)
	require.NoError(t, err)
	return d
}

// A survey that takes long is kept: other processes read it at once, with its age, for fifty times
// as long as it took. Then one of them makes a new survey, while the others still read the kept
// one.
func TestCausesKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wide{Store: memory.New(), takes: 2 * time.Second}
		o := newOffice(t, w)
		o.serves(traits, queuer.Serial(), "s", "t")
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
		w.reads = time.Millisecond // all processes read before one of them begins
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { causes(w.desk(t), true) })
		}
		all.Wait()
		assert.Equal(t, 2, w.looks, "one looks again")
		w.reads = 0
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

// After the database's clock has stepped back, a survey with a later time has no known age: no
// process uses it, and the next survey replaces it. A survey from before the new time of the clock
// is still used.
func TestCausesKeptWhenTheClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		w := &wide{Store: m, takes: 2 * time.Second}
		o := newOffice(t, w)
		o.serves(traits, queuer.Serial(), "s")
		o.lane("s", 3)
		causes := func(d *operator.Desk) operator.Causes {
			c, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			assert.NoError(t, err)
			return c
		}
		paused := func(c operator.Causes) bool {
			return slices.ContainsFunc(c.Groups, func(g operator.Group) bool { return g.Cause == batch.CausePaused })
		}
		require.False(t, paused(causes(o.Desk)))
		m.StepClock(-5 * time.Minute)
		_, err := o.Pause(o.ctx(), batch.Only("s"), ada)
		require.NoError(t, err)
		time.Sleep(4 * time.Minute)
		var reads [2]operator.Causes
		var both sync.WaitGroup
		for i := range reads {
			both.Go(func() { reads[i] = causes(w.desk(t)) })
		}
		both.Wait()
		for i, read := range reads {
			assert.True(t, paused(read), "what is true now, %d", i)
			assert.Zero(t, read.Age)
		}
		assert.Equal(t, 3, w.looks, "nobody reads the survey of before while another looks")
		time.Sleep(90 * time.Second)
		m.StepClock(-time.Minute)
		again := causes(o.Desk)
		assert.Equal(t, 3, w.looks)
		assert.Equal(t, reads[0].At, again.At, "all read the survey that replaced it")
		assert.Equal(t, 30*time.Second, again.Age)
	})
}

// Causes answers with a survey of its own where surveys cannot be kept, and where the kept text is
// of another version.
func TestCausesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wide{Store: memory.New(), takes: time.Second, keeps: errors.New("permission denied")}
		d := w.desk(t)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 2, w.looks)
		w.keeps = nil
		_, err := w.Store.SwapTexts(t.Context(), store.Text{Kind: store.TextCauses, Body: "{not JSON"})
		require.NoError(t, err)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 3, w.looks, "the next survey replaces it")
		time.Sleep(time.Minute)
		w.keeps = errors.New("permission denied")
		c, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
		require.NoError(t, err)
		assert.Zero(t, c.Age)
		assert.Equal(t, 4, w.looks)
	})
}
