package groups_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

var errTest = errors.New("database down")

// fakeStore is a store with answers made by the test.
type fakeStore struct {
	answer func(ctx context.Context, o []store.Outcome) ([]store.Applied, error)

	mu        sync.Mutex
	groups    [][]string // the ids of each call
	callTimes []time.Time
}

func (f *fakeStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	f.mu.Lock()
	f.groups = append(f.groups, ids(outcomes))
	f.callTimes = append(f.callTimes, time.Now())
	f.mu.Unlock()
	if f.answer != nil {
		return f.answer(ctx, outcomes)
	}
	return writtenAnswers(outcomes), nil
}

func (f *fakeStore) calls() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.groups)
}

// timesOfCalls returns the times of the calls.
func (f *fakeStore) timesOfCalls() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.callTimes)
}

func writtenAnswers(outcomes []store.Outcome) []store.Applied {
	applied := make([]store.Applied, len(outcomes))
	for i, o := range outcomes {
		applied[i] = store.Applied{Ref: o.Ref, Result: store.Written}
	}
	return applied
}

func outcome(id string) store.Outcome {
	return store.Outcome{Ref: store.Ref{Key: batch.Key{ID: batch.ID(id)}}, Version: 7, Finding: store.Accepted}
}

func ids(outcomes []store.Outcome) (out []string) {
	for _, o := range outcomes {
		out = append(out, string(o.Key.ID))
	}
	return out
}

// recorderTest is a recorder that runs, and a record of its calls.
type recorderTest struct {
	*groups.Recorder
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	doneIDs []string
	results map[string]store.Result
	doneAt  map[string]time.Time
	errs    []error
	lostIDs []string
}

func start(t *testing.T, f *fakeStore, change func(*groups.Settings)) *recorderTest {
	r := &recorderTest{ended: make(chan struct{}), results: map[string]store.Result{}, doneAt: map[string]time.Time{}}
	o := groups.Settings{Linger: 2 * time.Millisecond, MaxItems: 4, Timeout: time.Minute, RetryFor: time.Minute}
	if change != nil {
		change(&o)
	}
	done := func(group []inhand.Recorded) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, w := range group {
			id := string(w.Key.ID)
			r.doneIDs = append(r.doneIDs, id)
			r.results[id], r.doneAt[id] = w.Applied.Result, time.Now()
		}
	}
	lost := func(all []store.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lostIDs = append(r.lostIDs, ids(all)...)
	}
	trouble := func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}
	r.Recorder = groups.NewRecorder(f, o, done, lost, trouble)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		defer close(r.ended)
		r.Run(ctx)
	}()
	return r
}

func (r *recorderTest) put(ids ...string) {
	for _, id := range ids {
		r.Put(outcome(id))
	}
}

func (r *recorderTest) putVerdicts(ids ...string) {
	for _, id := range ids {
		o := outcome(id)
		o.Finding, o.By = store.IsCommitted, batch.ByMonitor
		r.Put(o)
	}
}

// callsSoFar returns the calls of Done and Trouble so far.
func (r *recorderTest) callsSoFar() (done []string, results map[string]store.Result, trouble []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.doneIDs), maps.Clone(r.results), slices.Clone(r.errs)
}

func (r *recorderTest) written() []string {
	done, _, _ := r.callsSoFar()
	return done
}

func (r *recorderTest) resultsSoFar() map[string]store.Result {
	_, results, _ := r.callsSoFar()
	return results
}

func (r *recorderTest) troubles() []error {
	_, _, trouble := r.callsSoFar()
	return trouble
}

func (r *recorderTest) close() {
	r.Close()
	<-r.ended
	r.stop()
}
