package dltbatch_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// clockSteps returns the times by which the tests move a database's clock.
func clockSteps() []time.Duration {
	return []time.Duration{time.Minute, 7 * 24 * time.Hour, 365 * 24 * time.Hour}
}

// The database's clock steps ahead or back while batches are in every stage of delivery, and is
// put right after ten seconds. All batches become final soon, and no person is called.
func TestNothingStandsForAStepOfTheClock(t *testing.T) {
	for _, size := range clockSteps() {
		for _, by := range []time.Duration{size, -size} {
			t.Run(by.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := memory.New()
					var clockIsWrong atomic.Bool
					traits := ledger.Unforgiving(time.Second)
					traits.Settle = 30 * time.Second
					l := ledger.New(&ledger.Options{Traits: &traits, Fault: func(a batch.Attempt) ledger.Fault {
						if !clockIsWrong.Load() {
							return ledger.Fault{}
						}
						return map[batch.ServiceID]ledger.Fault{
							"busy": {Kind: ledger.Busy}, "not yet": {Kind: ledger.NotYet}, "lost": {Kind: ledger.LostRequest},
							"taken": {Kind: ledger.LostReply}, "against": {DecideAgainst: true}, "rejected": {Kind: ledger.Rejected},
						}[a.Service]
					}})
					r, err := dltbatch.New(st, l, nil)
					require.NoError(t, err)
					keepRunning(t, r)
					time.Sleep(time.Minute)
					st.StepClock(by)
					clockIsWrong.Store(true)
					for _, s := range []batch.ServiceID{"busy", "not yet", "lost", "taken", "against", "rejected", "fine"} {
						for i := range 2 {
							require.NoError(t, r.Add(t.Context(), batch.Batch{ID: batch.ID(fmt.Sprint(s, i)), Service: s, Payload: []byte("x")}))
						}
					}
					time.Sleep(10 * time.Second)
					st.StepClock(-by)
					clockIsWrong.Store(false)
					time.Sleep(3 * time.Minute)
					open, _, err := st.List(t.Context(), store.ListQuery{Open: true})
					require.NoError(t, err)
					for _, rec := range open {
						x, err := r.Explain(t.Context(), rec.Key)
						require.NoError(t, err)
						t.Errorf("%s is %s: %s", rec.Key, rec.State, x.Text)
					}
				})
			})
		}
	}
}

// A process claims a batch while the database's clock is ahead, and dies. The claim ends soon
// after the clock was put right, as if it had been made by the right time.
func TestAClaimFromAnAheadClockEnds(t *testing.T) {
	for _, by := range clockSteps() {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			st.StepClock(by)
			b := batch.Batch{ID: "a", Service: "s", Payload: []byte("x")}
			require.NoError(t, st.Add(t.Context(), b))
			_, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: 3 * time.Minute, Instance: "dead"},
				func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
			require.NoError(t, err)
			st.StepClock(-by)
			r, err := dltbatch.New(st, ledger.New(nil), nil)
			require.NoError(t, err)
			keepRunning(t, r)
			time.Sleep(3*time.Minute - time.Second)
			rec, err := r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			assert.Equal(t, batch.Submitting, rec.State, "%s: its process may still post it", by)
			time.Sleep(4 * time.Minute) // nobody knows how the attempt ended: this process waits for a whole claim, too
			rec, err = r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			assert.Equal(t, batch.Committed, rec.State, by)
		})
	}
}

// The ledger deduplicates for an hour after the first attempt, and forgets its statuses. The first
// attempt is made while the database's clock is ahead, so its true time is not known afterwards.
// The batch is not executed twice.
func TestAResendWindowFromAnAheadClock(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for _, by := range clockSteps() {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			traits := ledger.Unforgiving(30 * time.Second)
			traits.ResendHarmlessFor = time.Hour
			l := ledger.New(&ledger.Options{Traits: &traits, DeduplicateFor: time.Hour, Fault: func(a batch.Attempt) ledger.Fault {
				if a.Number == 1 {
					return ledger.Fault{Kind: ledger.LostReply}
				}
				return ledger.Fault{}
			}})
			r, err := dltbatch.New(st, l, nil)
			require.NoError(t, err)
			st.StepClock(by)
			require.NoError(t, r.Add(t.Context(), batch.Batch{ID: "a", Service: "s", Payload: []byte("pay 100")}))
			keepRunning(t, r)
			time.Sleep(5 * time.Millisecond)
			l.Restart()
			st.StepClock(-by)
			time.Sleep(30 * time.Hour)
			assert.Len(t, l.Log("s"), 1, by)
		})
	}
}
