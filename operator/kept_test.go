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

// slowSurveyStore is a store whose surveys of all lanes take long.
type slowSurveyStore struct {
	store.Store
	surveyTime  time.Duration
	readTime    time.Duration // how long a read of kept reports takes
	mu          sync.Mutex
	surveyCount int
	writeErr    error
	writeCount  int
}

func (w *slowSurveyStore) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	if q.Start {
		w.mu.Lock()
		w.surveyCount++
		w.mu.Unlock()
		time.Sleep(w.surveyTime)
	}
	return w.Store.Survey(ctx, q)
}

func (w *slowSurveyStore) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	found, now, err := w.Store.ReadTexts(ctx, kind, names...)
	if w.readTime > 0 && kind == store.TextCauses {
		time.Sleep(w.readTime)
	}
	return found, now, err
}

func (w *slowSurveyStore) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	if all[0].Kind != store.TextCauses {
		return w.Store.SwapTexts(ctx, all...)
	}
	w.mu.Lock()
	w.writeCount++
	w.mu.Unlock()
	if w.writeErr != nil {
		return false, w.writeErr
	}
	return w.Store.SwapTexts(ctx, all...)
}

func (w *slowSurveyStore) desk(t *testing.T) *operator.Desk {
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
		w := &slowSurveyStore{Store: memory.New(), surveyTime: 2 * time.Second}
		o := newTestDesk(t, w)
		o.recordServing(traits, queuer.Serial(), "s", "t")
		o.addLane("s", 3)
		o.addLane("t", 2)
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
		assert.Equal(t, 1, w.surveyCount)

		time.Sleep(10 * time.Second)
		w.readTime = time.Millisecond // all processes read before one of them begins
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { causes(w.desk(t), true) })
		}
		all.Wait()
		assert.Equal(t, 2, w.surveyCount, "one looks again")
		w.readTime = 0
		read, took = causes(other, true)
		assert.Zero(t, took)
		assert.Less(t, read.Age, 5*time.Second)

		held, err := o.Control(o.ctx(), batch.Only("s"))
		require.NoError(t, err)
		_, err = o.Resume(o.ctx(), held, ada)
		require.NoError(t, err)
		fresh, took := causes(other, false)
		assert.Equal(t, 2*time.Second, took, "somebody wants the present")
		assert.Equal(t, 3, w.surveyCount)
		read, _ = causes(o.Desk, true)
		read.Age = 0
		assert.Equal(t, fresh, read, "and the others read it")

		w.surveyTime = time.Millisecond
		causes(other, false)
		for range 3 {
			causes(o.Desk, true)
		}
		assert.Equal(t, 7, w.surveyCount, "what takes no time is not kept")
		writes := w.writeCount
		causes(other, true)
		assert.Equal(t, writes, w.writeCount)
	})
}

// After the database's clock has stepped back, a survey with a later time has no known age: no
// process uses it, and the next survey replaces it. A survey from before the new time of the clock
// is still used.
func TestCausesKeptWhenTheClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		w := &slowSurveyStore{Store: m, surveyTime: 2 * time.Second}
		o := newTestDesk(t, w)
		o.recordServing(traits, queuer.Serial(), "s")
		o.addLane("s", 3)
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
		assert.Equal(t, 3, w.surveyCount, "nobody reads the survey of before while another looks")
		time.Sleep(90 * time.Second)
		m.StepClock(-time.Minute)
		again := causes(o.Desk)
		assert.Equal(t, 3, w.surveyCount)
		assert.Equal(t, reads[0].At, again.At, "all read the survey that replaced it")
		assert.Equal(t, 30*time.Second, again.Age)
	})
}

// Causes answers with a survey of its own where surveys cannot be kept, and where the kept text is
// of another version.
func TestCausesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowSurveyStore{Store: memory.New(), surveyTime: time.Second, writeErr: errors.New("permission denied")}
		d := w.desk(t)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 2, w.surveyCount)
		w.writeErr = nil
		_, err := w.Store.SwapTexts(t.Context(), store.Text{Kind: store.TextCauses, Body: "{not JSON"})
		require.NoError(t, err)
		for range 2 {
			_, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
			require.NoError(t, err)
		}
		assert.Equal(t, 3, w.surveyCount, "the next survey replaces it")
		time.Sleep(time.Minute)
		w.writeErr = errors.New("permission denied")
		c, err := d.Causes(t.Context(), operator.CausesQuery{Kept: true})
		require.NoError(t, err)
		assert.Zero(t, c.Age)
		assert.Equal(t, 4, w.surveyCount)
	})
}
