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

// neverFinalLedger is a ledger on which no batch ever becomes final. Its answers depend on the
// name of the ledger.
type neverFinalLedger struct {
	dlt.Unimplemented

	traits          dlt.Traits
	answerToPost    func(n int) error // n counts the POSTs of the batch
	answerToQuery   func(n, asked int, r *rand.Rand) (batch.Reported, error)
	answerToResolve func(asked int) (dlt.Evidence, error)

	mu              sync.Mutex
	rng             *rand.Rand
	postCounts      map[batch.ID]int
	queryCounts     map[batch.ID]int
	firstAcceptedAt map[batch.ID]time.Time   // the time of the first POST that was accepted, or that a status showed
	firstPostAt     map[batch.ID]time.Time   // the time of the first POST
	requestTimes    map[batch.ID][]time.Time // the time of each POST and of each question
}

func (l *neverFinalLedger) Traits(batch.ServiceID) dlt.Traits { return l.traits }

func (l *neverFinalLedger) Submit(_ context.Context, a batch.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requestTimes[a.ID] = append(l.requestTimes[a.ID], time.Now())
	if l.postCounts[a.ID]++; l.postCounts[a.ID] == 1 {
		l.firstPostAt[a.ID] = time.Now()
	}
	err := l.answerToPost(l.postCounts[a.ID])
	if _, was := l.firstAcceptedAt[a.ID]; err == nil && !was {
		l.firstAcceptedAt[a.ID] = time.Now()
	}
	return err
}

func (l *neverFinalLedger) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range attempts {
		l.queryCounts[a.ID]++
		l.requestTimes[a.ID] = append(l.requestTimes[a.ID], time.Now())
		word, fails := l.answerToQuery(l.postCounts[a.ID], l.queryCounts[a.ID], l.rng)
		if fails != nil {
			return all, fails
		}
		all = append(all, batch.Status{ID: a.ID, Reported: word, Endpoint: "node"})
	}
	return all, nil
}

func (l *neverFinalLedger) Resolve(_ context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answerToResolve(l.queryCounts[d.ID])
}

var (
	errUnknownText       = errors.New("the node says: zirkel defekt") // a text that no client knows
	errServerUnavailable = &dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable, StatusCode: 503}
	errServerError       = &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, StatusCode: 500}
)

func acceptAll(int) error { return nil }

func statusesInTurn(words ...batch.Reported) func(n, asked int, _ *rand.Rand) (batch.Reported, error) {
	return func(_, asked int, _ *rand.Rand) (batch.Reported, error) { return words[asked/20%len(words)], nil }
}

func alwaysEvidence(e dlt.Evidence) func(int) (dlt.Evidence, error) {
	return func(int) (dlt.Evidence, error) { return e, nil }
}

// neverFinalLedgers are ledgers on which batches never become final.
var neverFinalLedgers = map[string]*neverFinalLedger{
	"unknown words, and no trace": {answerToPost: func(int) error { return errUnknownText }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"takes and forgets":           {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"500 for ever": {answerToPost: func(int) error { return errServerError }, answerToQuery: func(int, int, *rand.Rand) (batch.Reported, error) {
		return 0, &dlt.Error{Op: "statuses", Kind: dlt.ErrUnavailable, StatusCode: 500}
	}},
	"500 for POSTs":            {answerToPost: func(int) error { return errServerError }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"503 for ever":             {answerToPost: func(int) error { return errServerUnavailable }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"500 and 503 in turn":      {answerToPost: func(n int) error { return []error{errServerError, errServerUnavailable}[n%2] }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"busy for ever":            {answerToPost: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy} }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"misconfigured for ever":   {answerToPost: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured} }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"not yet, for ever":        {answerToPost: func(int) error { return &dlt.Error{Op: "submit", Kind: dlt.ErrNotYet} }, answerToQuery: statusesInTurn(batch.ReportedUnknown)},
	"pending for ever":         {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedPending)},
	"valid for ever":           {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedValid)},
	"pending and unknown":      {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedPending, batch.ReportedUnknown)},
	"pending and valid":        {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedPending, batch.ReportedValid)},
	"invalid and valid":        {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedInvalid, batch.ReportedValid)},
	"stalled for ever":         {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedStalled)},
	"failed, again and again":  {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedFailed)},
	"a foreign word":           {answerToPost: acceptAll, answerToQuery: statusesInTurn(99)},
	"answers about nothing":    {answerToPost: acceptAll, answerToQuery: func(int, int, *rand.Rand) (batch.Reported, error) { return 0, errUnknownText }},
	"evidence that fails":      {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedUnknown), answerToResolve: func(int) (dlt.Evidence, error) { return 0, errUnknownText }},
	"in flight for ever":       {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedUnknown), answerToResolve: alwaysEvidence(dlt.InFlight)},
	"not committed, for ever":  {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedUnknown), answerToResolve: alwaysEvidence(dlt.NotCommitted)},
	"executed, and taken back": {answerToPost: acceptAll, answerToQuery: statusesInTurn(batch.ReportedValid, batch.ReportedUnknown), answerToResolve: alwaysEvidence(dlt.NotCommitted)},
	"void, again and again": {answerToPost: acceptAll, answerToQuery: func(_, asked int, _ *rand.Rand) (batch.Reported, error) {
		if asked%5 > 0 { // a void batch is sent again at once, which without this pause took a third of the test's time
			return batch.ReportedPending, nil
		}
		return batch.ReportedVoid, nil
	}},
	"anything": {
		answerToPost: func(n int) error {
			return []error{nil, errServerError, errServerUnavailable, errUnknownText, &dlt.Error{Kind: dlt.ErrNotYet}}[n*7%5]
		},
		answerToQuery: func(_, _ int, r *rand.Rand) (batch.Reported, error) {
			words := []batch.Reported{batch.ReportedUnknown, batch.ReportedPending, batch.ReportedValid, batch.ReportedStalled, batch.ReportedFailed, 99}
			return words[r.IntN(len(words))], []error{nil, nil, nil, errUnknownText}[r.IntN(4)]
		},
		answerToResolve: func(asked int) (dlt.Evidence, error) {
			return []dlt.Evidence{dlt.InFlight, dlt.NotCommitted}[asked%2], nil
		},
	},
}

// TestEachStuckBatchCallsAPerson is promise 6 with ledgers on which batches never become final:
// each batch whose turn has come calls a person exactly once, StuckAfter after its first claim, or
// after the ledger first took it. Batches that wait behind another batch call nobody. This holds
// with all strategies, while one of two processes stops and starts all the time.
func TestEachStuckBatchCallsAPerson(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for name, trouble := range neverFinalLedgers {
		for lanesName, strategy := range map[string]queuer.Strategy{"serial": queuer.Serial(), "pipelined": queuer.Pipelined(2), "parallel": queuer.Parallel(0)} {
			if lanesName != "serial" && (lanesName == "parallel") == (len(name)%2 == 0) {
				continue
			}
			for i, k := range ledgerKinds {
				traits := k.traits
				if traits.KeepsOrder = lanesName == "pipelined"; trouble.answerToResolve != nil {
					traits.ResendHarmlessFor, traits.Resolves = 0, true // the resolver is asked for evidence
				} else if traits.Resolves = false; traits.ResendHarmlessFor != dlt.Forever {
					continue // such a batch calls a person at once, since nothing can be found out
				}
				if trouble.answerToResolve != nil {
					traits.Stale = time.Minute
				}
				t.Run(fmt.Sprint(name, "/", lanesName, "/", k.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						runNeverFinal(t, &neverFinalLedger{
							answerToPost: trouble.answerToPost, answerToQuery: trouble.answerToQuery, answerToResolve: trouble.answerToResolve, traits: traits,
							rng: rand.New(rand.NewPCG(uint64(len(name)), uint64(i))),
						}, strategy)
					})
				})
			}
		}
	}
}

const stuckAfterLimit = 5 * time.Minute

func runNeverFinal(t *testing.T, l *neverFinalLedger, strategy queuer.Strategy) {
	l.postCounts, l.queryCounts, l.firstAcceptedAt, l.firstPostAt = map[batch.ID]int{}, map[batch.ID]int{}, map[batch.ID]time.Time{}, map[batch.ID]time.Time{}
	l.requestTimes = map[batch.ID][]time.Time{}
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
		r, err := dltbatch.New(st, l, &dltbatch.Options{Strategy: strategy, StuckAfter: stuckAfterLimit, Observer: observer, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second}, Retention: -1})
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
		for ctx.Err() == nil { // the second Runner stops and starts from time to time
			life, end := context.WithTimeout(ctx, 11*time.Minute)
			assert.NoError(t, first.Run(life))
			end()
		}
	})
	time.Sleep(stuckAfterLimit + 7*time.Minute)
	assertPersonCalledOnce(t, l, st, calls, &mu)
	time.Sleep(12 * time.Minute)
	assertPersonCalledOnce(t, l, st, calls, &mu)
}

// assertPersonCalledOnce compares the calls for a person with the requests that the ledger got.
func assertPersonCalledOnce(t *testing.T, l *neverFinalLedger, st *memory.Store, calls map[batch.ID][]time.Time, mu *sync.Mutex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	for i := range 6 {
		key := batch.Key{Service: batch.ServiceID(fmt.Sprint("s", i%2)), ID: batch.ID(fmt.Sprint("b", i))}
		rec, err := st.Get(t.Context(), key)
		require.NoError(t, err)
		tried, was := l.firstPostAt[key.ID]
		if !was {
			require.Empty(t, calls[key.ID], "%s was never tried", key)
			continue
		}
		if rec.Final() {
			continue // the batch was executed and taken back, and its lane is halted
		}
		since := tried
		if taken, was := l.firstAcceptedAt[key.ID]; was && !taken.Before(tried) {
			since = taken
		}
		if time.Since(since) < stuckAfterLimit+5*time.Minute {
			require.LessOrEqual(t, len(calls[key.ID]), 1)
			continue
		}
		require.Len(t, calls[key.ID], 1, "%s, tried %s ago", key, time.Since(tried))
		require.NotEmpty(t, rec.Decision, "and it still shows it")
		at := calls[key.ID][0]
		require.GreaterOrEqual(t, at.Sub(tried), stuckAfterLimit-time.Minute, "its claim came a little before")
		// A batch that waits behind another when its time is over calls a person once its turn has
		// come.
		due := since.Add(stuckAfterLimit)
		turn, _ := slices.BinarySearchFunc(l.requestTimes[key.ID], due, time.Time.Compare)
		if i >= 2 && turn < len(l.requestTimes[key.ID]) {
			due = l.requestTimes[key.ID][turn]
		}
		require.LessOrEqual(t, at.Sub(due), 2*time.Minute, "%s: %s", key, rec.Decision)
	}
}
