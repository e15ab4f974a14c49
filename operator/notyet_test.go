package operator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// A batch that the ledger answered with "not yet" is claimed again, and the process that claimed
// it dies. Before the monitor has asked the ledger, nothing needs a decision.
func TestABatchUnderWayNeedsNoDecisionForWhatItWaitedFor(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		b := newBatch("s", "a")
		o.add(b)
		claim := func() store.Claim {
			q := store.ClaimQuery{
				Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: 20 * time.Millisecond, Instance: "one",
				Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: time.Hour} },
			}
			c, err := o.st.Claim(o.ctx(), q, queuer.Choose(queuer.Serial(), nil, func(batch.ServiceID, error) {}))
			require.NoError(o, err)
			require.Len(o, c.Runs, 1)
			return c.Runs[0].Batches[0]
		}
		for again := range 2 {
			c := claim()
			time.Sleep(5 * time.Millisecond)
			applied, err := o.st.Record(o.ctx(), []store.Outcome{{
				Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Failed, Attempt: again + 1,
				StuckAfter: time.Millisecond, Error: &batch.SubmissionError{Kind: batch.KindNotYet, Message: "no funds"},
			}})
			require.NoError(o, err)
			require.Equal(o, again > 0, applied[0].Stuck)
		}
		claim() // attempt 3: the ledger may have taken the batch when the process died
		sel := o.preview(operator.Bulk{Action: batch.ActionDecide, Ruling: batch.NotExecutedReject})
		assert.Empty(o, sel.Batches, "while the claim is live")
		time.Sleep(50 * time.Millisecond)
		e, err := o.Explain(o.ctx(), b.Key())
		require.NoError(o, err)
		assert.Equal(o, batch.CauseInDoubt, e.Cause)
		r, err := o.Desk.Run(o.ctx(), sel, ada, nil)
		require.NoError(o, err)
		assert.Zero(o, r.Done)
		assert.Equal(o, batch.Submitting, o.readRecord(b).State, "the monitor asks first")
	})
}

// After a second attempt the explanation still names the first attempt whose outcome is not known.
func TestExplainNamesTheAttemptInDoubt(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		b := newBatch("s", "a")
		o.add(b)
		attempt := func() {
			o.Helper()
			c, err := o.st.Claim(o.ctx(), store.ClaimQuery{
				Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute,
				Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: time.Hour} },
			}, queuer.Choose(queuer.Serial(), nil, func(batch.ServiceID, error) {}))
			require.NoError(o, err)
			require.Len(o, c.Runs, 1)
			o.recordEnds(store.Doubtful, c.Runs[0].Batches...)
		}
		attempt()
		e, err := o.Explain(o.ctx(), b.Key())
		require.NoError(o, err)
		assert.Equal(o, 1, e.Doubt)
		assert.Contains(o, e.Text, "the outcome of attempt 1 is not known")
		o.recordAnswer(store.NoTrace, b.Key())
		attempt()
		e, err = o.Explain(o.ctx(), b.Key())
		require.NoError(o, err)
		assert.Equal(o, batch.CauseInDoubt, e.Cause)
		assert.Equal(o, 1, e.Doubt)
		assert.Equal(o, 2, e.Attempts)
		assert.Contains(o, e.Text, "the outcome of attempt 1 of 2 is not known")
	})
}
