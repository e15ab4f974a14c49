package sawtooth_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// TestADoubtThatNobodyResolves shows that a Runner finds evidence about batches that are in doubt
// and must not be sent again. No person is needed.
func TestADoubtThatNobodyResolves(t *testing.T) {
	const quiet = 700 * time.Millisecond
	lost := sawtoothtest.Fault{Answer: sawtoothtest.AnswerReset}
	late := sawtoothtest.Fault{Answer: sawtoothtest.AnswerReset, Acceptance: sawtoothtest.AcceptedLate, AcceptAfter: 350 * time.Millisecond}
	refused := sawtoothtest.Fault{Answer: sawtoothtest.AnswerError, Status: 400, Code: 30}
	for name, c := range map[string]struct {
		posts    []sawtoothtest.Fault // the last one is repeated for ever
		budget   batch.Budget
		state    batch.State
		wantKind batch.ErrorKind
		tries    int
	}{
		"lost, and then refused":           {posts: []sawtoothtest.Fault{lost, refused}, state: batch.Rejected, wantKind: batch.KindRejected, tries: 2},
		"late, and refused before":         {posts: []sawtoothtest.Fault{late, refused}, state: batch.Committed, tries: 2},
		"lost, and no budget":              {posts: []sawtoothtest.Fault{lost}, budget: batch.Budget{Attempts: 1, EveryTry: true}, state: batch.Rejected, wantKind: batch.KindExhausted, tries: 1},
		"late, and no budget":              {posts: []sawtoothtest.Fault{late}, budget: batch.Budget{Attempts: 1, EveryTry: true}, state: batch.Committed, tries: 1},
		"lost, and sent again without ado": {posts: []sawtoothtest.Fault{lost, {}}, state: batch.Committed, tries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond, Faults: &sawtoothtest.Faults{
				Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
					if p.Operation != sawtoothtest.OpSubmit {
						return sawtoothtest.Fault{}
					}
					return c.posts[min(p.Try, len(c.posts))-1]
				},
			}})
			client := newClient(t, n.URL(), &sawtooth.Options{Grace: 50 * time.Millisecond, ResendQuiet: quiet, Settle: 50 * time.Millisecond})
			watched := &evidenceRecorder{Client: client}
			decisions := &decisionCounter{}
			r, err := dltbatch.New(memory.New(), watched, &dltbatch.Options{
				PollInterval: 20 * time.Millisecond, ScanInterval: 20 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 10 * time.Millisecond}, Observer: decisions,
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			defer func() { cancel(); assert.NoError(t, <-done) }()

			b := settingBatch(t, "x")
			b.Budget = c.budget
			begin := time.Now()
			require.NoError(t, r.Add(ctx, b))
			wait, stop := context.WithTimeout(ctx, 30*time.Second)
			defer stop()
			rec, err := r.Await(wait, b.Key())
			require.NoError(t, err)
			assert.Equal(t, c.state, rec.State)
			assert.Equal(t, c.tries, rec.Attempt)
			assert.Zero(t, decisions.count(), "nobody was asked")
			if c.state == batch.Rejected {
				require.NotNil(t, rec.Error)
				assert.Equal(t, c.wantKind, rec.Error.Kind)
				assert.Greater(t, time.Since(begin), quiet, "while it could arrive there was no evidence")
				assert.Equal(t, dlt.NotCommitted, watched.last())
				assert.Empty(t, n.Chain())
			} else {
				assert.Equal(t, []batch.ID{b.ID}, n.Chain())
				assert.NotEqual(t, dlt.NotCommitted, watched.last())
			}
			if len(c.posts) == 2 && c.posts[1] == (sawtoothtest.Fault{}) {
				assert.Zero(t, watched.count(), "what may be sent again is: no evidence is needed")
			}
		})
	}
}

// evidenceRecorder records the results of Resolve.
type evidenceRecorder struct {
	*sawtooth.Client
	mu       sync.Mutex
	evidence []dlt.Evidence
}

// Resolve implements dlt.Ledger.
func (r *evidenceRecorder) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	e, err := r.Client.Resolve(ctx, d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence = append(r.evidence, e)
	return e, err
}

func (r *evidenceRecorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.evidence)
}

func (r *evidenceRecorder) last() dlt.Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.evidence) == 0 {
		return dlt.CannotTell
	}
	return r.evidence[len(r.evidence)-1]
}

// decisionCounter counts the events that ask a person for a decision.
type decisionCounter struct {
	mu            sync.Mutex
	decisionCount int
}

// Observe implements batch.Observer.
func (d *decisionCounter) Observe(_ context.Context, e batch.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Kind == batch.EventDecision {
		d.decisionCount++
	}
}

func (d *decisionCounter) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.decisionCount
}

// With a node's events, a commit is known long before the batch would be asked about.
func TestEventsReachTheRunner(t *testing.T) {
	for name, c := range map[string]struct {
		options         sawtooth.Options
		atLeast, atMost time.Duration
	}{
		"told":  {sawtooth.Options{}, 0, 10 * time.Second},
		"asked": {sawtooth.Options{NoEvents: true}, 10 * time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second})
				require.NoError(t, err)
				defer n.Close()
				c.options.Client = n.Client()
				r, err := dltbatch.New(memory.New(), newClient(t, "http://node", &c.options), &dltbatch.Options{
					FirstPoll: 10 * time.Minute, PollInterval: 10 * time.Minute,
				})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				time.Sleep(30 * time.Second)
				b := settingBatch(t, "x")
				begin := time.Now()
				require.NoError(t, r.Add(ctx, b))
				rec, err := r.Await(ctx, b.Key())
				require.NoError(t, err)
				took := rec.FinalAt.Sub(begin)
				assert.Equal(t, batch.Committed, rec.State)
				assert.GreaterOrEqual(t, took, c.atLeast)
				assert.LessOrEqual(t, took, c.atMost)
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}
