package dltbatch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// warningStore is a store whose warnings a test sets.
type warningStore struct {
	store.Store
	mu       sync.Mutex
	warnings []store.Warning
	err      error
	calls    int
}

func (w *warningStore) set(err error, warnings ...store.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings, w.err = warnings, err
}

func (w *warningStore) Upkeep(context.Context) ([]store.Warning, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	return w.warnings, w.err
}

var errLarge, errLarger, errOld = errors.New("large"), errors.New("larger"), errors.New("old")

// A warning of the store is reported once while it lasts, and again when it comes back. Health has
// the warning only while it lasts.
func TestWarningsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reportedErrs []error
		s := &warningStore{Store: noHints{memory.New()}} // an idle Runner looks each second
		r, err := dltbatch.New(s, ledgermem.New(nil), &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == batch.EventTrouble {
				reportedErrs = append(reportedErrs, e.Err)
			}
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for _, step := range []struct {
			errText      string
			now          []store.Warning
			reportedErrs []error // the warnings in the order of their reports
		}{
			{"all is well", nil, nil},
			{"one begins", []store.Warning{{Name: "log", Err: errLarge}}, []error{errLarge}},
			{"it gets worse", []store.Warning{{Name: "log", Err: errLarger}}, nil},
			{"another begins beside it", []store.Warning{{Name: "age", Err: errOld}, {Name: "log", Err: errLarger}}, []error{errOld}},
			{"the first is over", []store.Warning{{Name: "age", Err: errOld}}, nil},
			{"the first is back", []store.Warning{{Name: "age", Err: errOld}, {Name: "log", Err: errLarge}}, []error{errLarge}},
			{"all is over", nil, nil},
		} {
			s.set(nil, step.now...)
			time.Sleep(3 * time.Second) // three calls of Upkeep
			mu.Lock()
			require.Len(t, reportedErrs, len(step.reportedErrs), step.errText)
			for i, want := range step.reportedErrs {
				require.ErrorIs(t, reportedErrs[i], want, step.errText)
			}
			reportedErrs = nil
			mu.Unlock()
			got := r.Health().Warnings
			require.Len(t, got, len(step.now), step.errText)
			for i, w := range step.now {
				assert.Equal(t, w.Err, got[i], step.errText)
			}
		}
		// A failure of Upkeep is reported, and the call is repeated.
		s.set(errDown)
		time.Sleep(3 * time.Second)
		mu.Lock()
		require.NotEmpty(t, reportedErrs)
		require.ErrorIs(t, reportedErrs[0], errDown)
		mu.Unlock()
		s.set(nil, store.Warning{Name: "log", Err: errLarge})
		time.Sleep(10 * time.Second)
		assert.Equal(t, []error{errLarge}, r.Health().Warnings)
		since := r.Health().WarningsSince
		assert.InDelta(t, 10*time.Second, time.Since(since), float64(2*time.Second))
		time.Sleep(20 * time.Second) // the row of the instance is written every 15 s
		row := statsOf(t, r).Instances[0]
		assert.Equal(t, []string{"large"}, row.Warnings, "for everybody who looks")
		assert.WithinDuration(t, since, row.Seen.Add(-row.WarnsFor), time.Millisecond, "since when")
		cancel()
		require.NoError(t, <-done)
		assert.Empty(t, r.Health().Warnings, "nobody looks any more")
		calls := s.calls
		time.Sleep(time.Minute)
		assert.Equal(t, calls, s.calls)
	})
}

// A Runner that has nothing to do at its start calls Upkeep before it rests.
func TestUpkeepBeforeTheFirstRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &warningStore{Store: memory.New()}
		s.set(nil, store.Warning{Name: "log", Err: errLarge})
		r := newStartedRunner(t, s, ledgermem.New(nil), nil)
		time.Sleep(3 * time.Second)
		require.Equal(t, []error{errLarge}, r.Health().Warnings)
	})
}
