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

// fake is a store with answers made by the test.
type fake struct {
	answer func(ctx context.Context, o []store.Outcome) ([]store.Applied, error)

	mu     sync.Mutex
	groups [][]string // the ids of each call
	at     []time.Time
}

func (f *fake) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	f.mu.Lock()
	f.groups = append(f.groups, ids(outcomes))
	f.at = append(f.at, time.Now())
	f.mu.Unlock()
	if f.answer != nil {
		return f.answer(ctx, outcomes)
	}
	return written(outcomes), nil
}

func (f *fake) calls() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.groups)
}

// when returns the times of the calls.
func (f *fake) when() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.at)
}

func written(outcomes []store.Outcome) []store.Applied {
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

// rig is a recorder that runs, and a record of its calls.
type rig struct {
	*groups.Recorder
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	done    []string
	results map[string]store.Result
	doneAt  map[string]time.Time
	trouble []error
	lost    []string
}

func start(t *testing.T, f *fake, change func(*groups.Settings)) *rig {
	r := &rig{ended: make(chan struct{}), results: map[string]store.Result{}, doneAt: map[string]time.Time{}}
	o := groups.Settings{Linger: 2 * time.Millisecond, MaxItems: 4, Timeout: time.Minute, RetryFor: time.Minute}
	if change != nil {
		change(&o)
	}
	done := func(group []inhand.Recorded) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, w := range group {
			id := string(w.Key.ID)
			r.done = append(r.done, id)
			r.results[id], r.doneAt[id] = w.Applied.Result, time.Now()
		}
	}
	lost := func(all []store.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost = append(r.lost, ids(all)...)
	}
	trouble := func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.trouble = append(r.trouble, err)
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

func (r *rig) put(ids ...string) {
	for _, id := range ids {
		r.Put(outcome(id))
	}
}

func (r *rig) verdict(ids ...string) {
	for _, id := range ids {
		o := outcome(id)
		o.Finding, o.By = store.IsCommitted, batch.ByMonitor
		r.Put(o)
	}
}

// told returns the calls of Done and Trouble so far.
func (r *rig) told() (done []string, results map[string]store.Result, trouble []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done), maps.Clone(r.results), slices.Clone(r.trouble)
}

func (r *rig) written() []string {
	done, _, _ := r.told()
	return done
}

func (r *rig) said() map[string]store.Result {
	_, results, _ := r.told()
	return results
}

func (r *rig) troubles() []error {
	_, _, trouble := r.told()
	return trouble
}

func (r *rig) close() {
	r.Close()
	<-r.ended
	r.stop()
}
