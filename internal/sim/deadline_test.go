package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// hopeless is a ledger with which nothing ever becomes final. Its answers come by name.
type hopeless struct {
	dlt.Unimplemented

	traits dlt.Traits
	post   func(n int) error // n counts the POSTs of the batch
	status func(n, asked int, r *rand.Rand) (batch.Reported, error)
	proof  func(asked int) (dlt.Evidence, error)

	mu    sync.Mutex
	rng   *rand.Rand
	posts map[batch.ID]int
	asked map[batch.ID]int
	taken map[batch.ID]time.Time   // the first POST that was accepted, or shown
	tried map[batch.ID]time.Time   // the first POST
	heard map[batch.ID][]time.Time // each POST, and each question
}

func (l *hopeless) Traits(batch.ServiceID) dlt.Traits { return l.traits }

func (l *hopeless) Submit(_ context.Context, a batch.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[a.ID] = append(l.heard[a.ID], time.Now())
	if l.posts[a.ID]++; l.posts[a.ID] == 1 {
		l.tried[a.ID] = time.Now()
	}
	err := l.post(l.posts[a.ID])
	if _, was := l.taken[a.ID]; err == nil && !was {
		l.taken[a.ID] = time.Now()
	}
	return err
}

func (l *hopeless) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range attempts {
		l.asked[a.ID]++
		l.heard[a.ID] = append(l.heard[a.ID], time.Now())
		word, fails := l.status(l.posts[a.ID], l.asked[a.ID], l.rng)
		if fails != nil {
			return all, fails
		}
		all = append(all, batch.Status{ID: a.ID, Reported: word, Endpoint: "node"})
	}
	return all, nil
}

func (l *hopeless) Resolve(_ context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proof(l.asked[d.ID])
}

var (
	errWord = errors.New("the node says: zirkel defekt") // a word that no client knows
	down    = &dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable, StatusCode: 503}
	crashed = &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, StatusCode: 500}
)

func accepts(int) error { return nil }

func says(words ...batch.Reported) func(n, asked int, _ *rand.Rand) (batch.Reported, error) {
	return func(_, asked int, _ *rand.Rand) (batch.Reported, error) { return words[asked/20%len(words)], nil }
}

func proves(e dlt.Evidence) func(int) (dlt.Evidence, error) {
	return func(int) (dlt.Evidence, error) { return e, nil }
}

// troubles are ledgers that never come to an end.
var troubles = map[string]*hopeless{
	"unknown words, and no trace": {post: func(int) error { return errWord }, status: says(batch.ReportedUnknown)},
	"takes and forgets":           {post: accepts, status: says(batch.ReportedUnknown)},
	"500 for ever": {post: func(int) error { return crashed }, status: func(int, int, *rand.Rand) (batch.Reported, error) {
		return 0, &dlt.Error{Op: "statuses", Kind: dlt.ErrUnavailable, StatusCode: 500}
	}},
	"500 for POSTs":            {post: func(int) error { return crashed }, status: says(batch.ReportedUnknown)},
	"503 for ever":             {post: func(int) error { return down }, status: says(batch.ReportedUnknown)},
	"500 and 503 in turn":      {post: func(n int) error { return []error{crashed, down}[n%2] }, status: says(batch.ReportedUnknown)},
	"busy for ever":            {post: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy} }, status: says(batch.ReportedUnknown)},
	"misconfigured for ever":   {post: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured} }, status: says(batch.ReportedUnknown)},
	"not yet, for ever":        {post: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrNotYet} }, status: says(batch.ReportedUnknown)},
	"pending for ever":         {post: accepts, status: says(batch.ReportedPending)},
	"valid for ever":           {post: accepts, status: says(batch.ReportedValid)},
	"pending and unknown":      {post: accepts, status: says(batch.ReportedPending, batch.ReportedUnknown)},
	"pending and valid":        {post: accepts, status: says(batch.ReportedPending, batch.ReportedValid)},
	"invalid and valid":        {post: accepts, status: says(batch.ReportedInvalid, batch.ReportedValid)},
	"stalled for ever":         {post: accepts, status: says(batch.ReportedStalled)},
	"failed, again and again":  {post: accepts, status: says(batch.ReportedFailed)},
	"a foreign word":           {post: accepts, status: says(99)},
	"answers about nothing":    {post: accepts, status: func(int, int, *rand.Rand) (batch.Reported, error) { return 0, errWord }},
	"evidence that fails":      {post: accepts, status: says(batch.ReportedUnknown), proof: func(int) (dlt.Evidence, error) { return 0, errWord }},
	"in flight for ever":       {post: accepts, status: says(batch.ReportedUnknown), proof: proves(dlt.InFlight)},
	"not committed, for ever":  {post: accepts, status: says(batch.ReportedUnknown), proof: proves(dlt.NotCommitted)},
	"executed, and taken back": {post: accepts, status: says(batch.ReportedValid, batch.ReportedUnknown), proof: proves(dlt.NotCommitted)},
	"void, again and again": {post: accepts, status: func(_, asked int, _ *rand.Rand) (batch.Reported, error) {
		if asked%5 > 0 { // what is void goes again at once: without a pause this took a third of the test's time
			return batch.ReportedPending, nil
		}
		return batch.ReportedVoid, nil
	}},
	"anything": {
		post: func(n int) error { return []error{nil, crashed, down, errWord, &dlt.Error{Kind: dlt.ErrNotYet}}[n*7%5] },
		status: func(_, _ int, r *rand.Rand) (batch.Reported, error) {
			words := []batch.Reported{batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid, batch.ReportedStalled, batch.ReportedFailed, 99}
			return words[r.IntN(len(words))], []error{nil, nil, nil, errWord}[r.IntN(4)]
		},
		proof: func(asked int) (dlt.Evidence, error) {
			return []dlt.Evidence{dlt.InFlight, dlt.NotCommitted}[asked%2], nil
		},
	},
}

// TestNobodyWaitsForEver is promise 6 with ledgers that never come to an end: each batch whose
// turn has come calls a person exactly once, StuckAfter after its first claim, or after the ledger
// took it first. Batches that wait behind another call nobody. It is so with all strategies, while
// one of two processes stops and starts all the time.
func TestNobodyWaitsForEver(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for name, trouble := range troubles {
		for lanesName, strategy := range map[string]queuer.Strategy{"serial": queuer.Serial(), "pipelined": queuer.Pipelined(2), "parallel": queuer.Parallel(0)} {
			if lanesName != "serial" && (lanesName == "parallel") == (len(name)%2 == 0) {
				continue
			}
			for i, k := range kinds {
				traits := k.traits
				if traits.KeepsOrder = lanesName == "pipelined"; trouble.proof != nil {
					traits.ResendHarmlessFor, traits.Resolves = 0, true // the evidence is asked for
				} else if traits.Resolves = false; traits.ResendHarmlessFor != dlt.Forever {
					continue // it calls at once, for nothing can be found out
				}
				if trouble.proof != nil {
					traits.Stale = time.Minute
				}
				t.Run(fmt.Sprint(name, "/", lanesName, "/", k.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						waitForEver(t, &hopeless{
							post: trouble.post, status: trouble.status, proof: trouble.proof, traits: traits,
							rng: rand.New(rand.NewPCG(uint64(len(name)), uint64(i))),
						}, strategy)
					})
				})
			}
		}
	}
}

const stuckFor = 5 * time.Minute

func waitForEver(t *testing.T, l *hopeless, strategy queuer.Strategy) {
	l.posts, l.asked, l.taken, l.tried = map[batch.ID]int{}, map[batch.ID]int{}, map[batch.ID]time.Time{}, map[batch.ID]time.Time{}
	l.heard = map[batch.ID][]time.Time{}
	var mu sync.Mutex
	calls := map[batch.ID][]time.Time{}
	observer := batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		if e.Kind != batch.EventDecision {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		calls[e.Key.ID] = append(calls[e.Key.ID], e.At)
		assert.Error(t, e.Err, "its cause")
	})
	st := memory.New()
	runner := func() *dltbatch.Runner {
		r, err := dltbatch.New(st, l, &dltbatch.Options{Strategy: strategy, StuckAfter: stuckFor, Observer: observer, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second}, Retention: -1})
		require.NoError(t, err)
		return r
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	first := runner()
	for i := range 6 {
		require.NoError(t, first.Add(ctx, batch.Batch{ID: batch.ID(fmt.Sprint("b", i)), Service: batch.ServiceID(fmt.Sprint("s", i%2)), Payload: []byte("x")}))
	}
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			life, end := context.WithTimeout(ctx, time.Duration(1+n%7)*40*time.Second)
			assert.NoError(t, runner().Run(life))
			end()
			time.Sleep(time.Duration(n%5) * time.Second)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil { // and one that starts anew now and then
			life, end := context.WithTimeout(ctx, 11*time.Minute)
			assert.NoError(t, first.Run(life))
			end()
		}
	})
	time.Sleep(stuckFor + 7*time.Minute)
	assertCalled(t, l, st, calls, &mu)
	time.Sleep(12 * time.Minute)
	assertCalled(t, l, st, calls, &mu)
}

// assertCalled compares the calls with what the ledger saw.
func assertCalled(t *testing.T, l *hopeless, st *memory.Store, calls map[batch.ID][]time.Time, mu *sync.Mutex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	for i := range 6 {
		key := batch.Key{Service: batch.ServiceID(fmt.Sprint("s", i%2)), ID: batch.ID(fmt.Sprint("b", i))}
		rec, err := st.Get(t.Context(), key)
		require.NoError(t, err)
		tried, was := l.tried[key.ID]
		if !was {
			require.Empty(t, calls[key.ID], "%s was never tried", key)
			continue
		}
		if rec.Final() {
			continue // it was executed and taken back, and its lane is halted
		}
		since := tried
		if taken, was := l.taken[key.ID]; was && !taken.Before(tried) {
			since = taken
		}
		if time.Since(since) < stuckFor+5*time.Minute {
			require.LessOrEqual(t, len(calls[key.ID]), 1)
			continue
		}
		require.Len(t, calls[key.ID], 1, "%s, tried %s ago", key, time.Since(tried))
		require.NotEmpty(t, rec.Decision, "and it still shows it")
		at := calls[key.ID][0]
		require.GreaterOrEqual(t, at.Sub(tried), stuckFor-time.Minute, "its claim came a little before")
		// A batch that waits behind another one when its time is over calls once its turn comes.
		due := since.Add(stuckFor)
		turn, _ := slices.BinarySearchFunc(l.heard[key.ID], due, time.Time.Compare)
		if i >= 2 && turn < len(l.heard[key.ID]) {
			due = l.heard[key.ID][turn]
		}
		require.LessOrEqual(t, at.Sub(due), 2*time.Minute, "%s: %s", key, rec.Decision)
	}
}
