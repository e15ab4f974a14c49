package cantontest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A wrong set-up makes no batch final and uses up no budget, whichever error reports it: after a
// limited time each batch is reported to a person once, and all batches are committed when the
// set-up is right.
func TestAWrongSetUpEndsNoBatch(t *testing.T) {
	for name, wrong := range map[string]func(id string) cantontest.Fault{
		"at the door":    func(id string) cantontest.Fault { return cantontest.Fault{Answer: cantontest.AnswerError, Error: id} },
		"in completions": func(id string) cantontest.Fault { return cantontest.Fault{Reject: id} },
		"in completions, not definite": func(id string) cantontest.Fault { // although the error id is that of a refusal
			return cantontest.Fault{Reject: "DAML_FAILURE", Definite: "false"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := []string{
				"UNKNOWN_SUBMITTERS", "UNKNOWN_INFORMEES", "NO_SYNCHRONIZER_FOR_SUBMISSION", "UNKNOWN_CONTRACT_SYNCHRONIZERS",
				"SUBMISSION_SYNCHRONIZER_NOT_READY", "SEQUENCER_NOT_ENOUGH_TRAFFIC_CREDIT", "PACKAGE_NOT_VETTED_BY_RECIPIENTS",
			}
			var isSetUpRight atomic.Bool
			p := cantontest.Start(t, &cantontest.Options{CompleteAfter: time.Millisecond, Fault: func(at cantontest.RequestPoint) cantontest.Fault {
				if isSetUpRight.Load() || at.Operation != cantontest.OpSubmit {
					return cantontest.Fault{}
				}
				return wrong(words[at.Try%len(words)])
			}})
			client, err := canton.New(p.URL(), &canton.Options{
				UserID: "app", PollOnly: true, IdleWait: 10 * time.Millisecond, LateArrival: 50 * time.Millisecond, Grace: 50 * time.Millisecond,
			})
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			var mu sync.Mutex
			called := map[batch.ID]int{}
			runner, err := dltbatch.New(memory.New(), client, &dltbatch.Options{
				PollInterval: 20 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 5 * time.Millisecond, MaxDelay: 50 * time.Millisecond, QuickRetryPause: 5 * time.Millisecond, Budget: batch.Budget{Attempts: 2}}, StuckAfter: 500 * time.Millisecond,
				Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
					if e.Kind == batch.EventDecision {
						mu.Lock()
						defer mu.Unlock()
						called[e.Key.ID]++
					}
				}),
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- runner.Run(ctx) }()
			t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })

			var added []batch.Batch
			for i := range 6 {
				added = append(added, batch.Batch{
					ID: batch.ID(fmt.Sprint("b", i)), Service: batch.ServiceID(fmt.Sprint("Party", i)),
					Payload: cantontest.Payload(cantontest.Transfer{To: "Bank", Amount: 2}),
				})
			}
			require.NoError(t, runner.Add(ctx, added...))
			require.Eventually(t, func() bool {
				for _, b := range added {
					if p.Count(cantontest.Posted, string(b.ID)) < 4 { // more tries than the budget has
						return false
					}
				}
				mu.Lock()
				defer mu.Unlock()
				return len(called) == len(added)
			}, time.Minute, 5*time.Millisecond, "it is tried again, and a person is called")
			isSetUpRight.Store(true)
			for _, b := range added {
				rec, err := runner.Await(ctx, b.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State, "%+v", rec.Error)
				assert.Zero(t, rec.Spent, "the set-up spends nothing")
			}
			mu.Lock()
			defer mu.Unlock()
			for id, n := range called {
				assert.Equal(t, 1, n, id)
			}
		})
	}
}
