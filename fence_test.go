package dltbatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// silentLedger is a ledger that executes every batch that it gets, even twice, and answers no
// status query. A person has to look at its executions.
type silentLedger struct{ *ledgermem.Ledger }

func (silentLedger) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, _ error) {
	for _, a := range attempts {
		all = append(all, batch.Status{ID: a.ID, Reported: batch.ReportedUnknown})
	}
	return all, nil
}

// Two people see the same doubt, and see that the ledger has not executed the batch. One of them
// decides so, and the batch is sent again: the ledger executes it, and the answer is lost. The
// second person's decision is about the first attempt, so it must not send the batch a third time.
func TestADecisionIsAboutTheAttemptThatWasSeen(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.Resolves = false
		ledger := silentLedger{ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Number == 1 {
				return ledgermem.Fault{Kind: ledgermem.LostRequest}
			}
			return ledgermem.Fault{Kind: ledgermem.LostReply}
		}})}
		r := newRunner(t, memory.New(), ledger, nil)
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Minute)
		ada, bob := recordOf(t, r, b), recordOf(t, r, b)
		require.NotEmpty(t, ada.Decision)
		require.Empty(t, ledger.Log("s"), "that is what both of them see")

		_, err := r.Decide(t.Context(), ada, batch.NotExecutedSendAgain, batch.By{Actor: "ada", Reason: "it is not there"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		again := recordOf(t, r, b)
		require.NotEmpty(t, again.Decision, "and it looks as before")
		require.Equal(t, 2, again.Attempt)
		require.Equal(t, []batch.ID{"a"}, ledger.Log("s"))

		time.Sleep(3 * time.Hour)
		require.Equal(t, again.Version, recordOf(t, r, b).Version, "that it is asked about on and on is no reason to look again")

		_, err = r.Decide(t.Context(), bob, batch.NotExecutedSendAgain, batch.By{Actor: "bob", Reason: "it is not there"})
		var movedOn *batch.MovedOnError
		assert.ErrorAs(t, err, &movedOn)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ID{"a"}, ledger.Log("s"), "executed once")
		require.ErrorIs(t, err, batch.ErrMovedOn)
		assert.Equal(t, again, movedOn.Now, "what there is to be decided now")

		rec, err := r.Decide(t.Context(), movedOn.Now, batch.WasCommitted, batch.By{Actor: "bob", Reason: "it is there"})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
		acts, err := r.History(t.Context(), b.Key())
		require.NoError(t, err)
		require.Len(t, acts, 2)
		assert.Equal(t, []string{"ada", "bob"}, []string{acts[0].Actor, acts[1].Actor})
	})
}

// Each act of an operator on a batch applies only to the version that the operator saw.
func TestWhatHasMovedOnIsLeftAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		old := recordOf(t, r, b)
		cancelled, err := r.Cancel(t.Context(), old, somebody)
		require.NoError(t, err)
		requeued, err := r.Requeue(t.Context(), cancelled, somebody)
		require.NoError(t, err)
		for _, do := range []func(batch.Record) (batch.Record, error){
			func(seen batch.Record) (batch.Record, error) { return r.Cancel(t.Context(), seen, somebody) },
			func(seen batch.Record) (batch.Record, error) { return r.Requeue(t.Context(), seen, somebody) },
			func(seen batch.Record) (batch.Record, error) {
				return r.Decide(t.Context(), seen, batch.NotExecutedReject, somebody)
			},
			func(seen batch.Record) (batch.Record, error) { return r.Acquit(t.Context(), seen, somebody) },
		} {
			for _, seen := range []batch.Record{old, cancelled} {
				_, err := do(seen)
				var movedOn *batch.MovedOnError
				require.ErrorAs(t, err, &movedOn)
				assert.Equal(t, requeued, movedOn.Now)
				assert.Equal(t, requeued, recordOf(t, r, b))
			}
		}
		// Of the record that was seen, the key and the version are enough.
		_, err = r.Cancel(t.Context(), batch.Record{Key: b.Key(), Version: requeued.Version}, somebody)
		require.NoError(t, err)
		_, err = r.Cancel(t.Context(), batch.Record{Key: b.Key()}, somebody)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
		acts, err := r.History(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Len(t, acts, 3)
	})
}

// A batch halts a lane, a person looks into it and releases the lane, and the next batch halts the
// lane again. A release by a person who saw only the first halt does not end the second.
func TestAReleaseIsOfTheHaltThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, _ := newRefusingLedger("bad", "worse")
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Policy: batch.PolicyHalt})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		bad, worse, next := newBatch("s", "bad"), newBatch("s", "worse"), newBatch("s", "next")
		require.NoError(t, r.Add(t.Context(), bad, worse, next))
		awaitFinal(t, r, bad)
		seen, err := r.Control(t.Context(), batch.Only("s"))
		require.NoError(t, err)
		require.Equal(t, bad.ID, seen.HaltedBy)
		_, err = r.Release(t.Context(), seen, batch.By{Actor: "ada"})
		require.NoError(t, err)
		awaitFinal(t, r, worse)
		_, err = r.Release(t.Context(), seen, batch.By{Actor: "bob"})
		var movedOn *batch.MovedOnError
		assert.ErrorAs(t, err, &movedOn)
		time.Sleep(time.Minute)
		require.Equal(t, batch.Queued, recordOf(t, r, next).State, "nobody has looked into the second halt")
		require.ErrorIs(t, err, batch.ErrMovedOn)
		assert.Equal(t, worse.ID, movedOn.Control.HaltedBy)
		_, err = r.SetPolicy(t.Context(), seen, batch.PolicyContinue, somebody)
		require.ErrorIs(t, err, batch.ErrMovedOn)
		_, err = r.Resume(t.Context(), seen, somebody)
		require.ErrorIs(t, err, batch.ErrMovedOn)
		_, err = r.Pause(t.Context(), seen.Scope, somebody)
		require.NoError(t, err, "that is done whatever there is")
		now, err := r.Control(t.Context(), seen.Scope)
		require.NoError(t, err)
		now, err = r.Resume(t.Context(), batch.Control{Scope: now.Scope, Version: now.Version}, somebody)
		require.NoError(t, err)
		_, err = r.Release(t.Context(), now, somebody)
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, next).State)
	})
}
