package dlttest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// resolverChecks are about evidence. After NotCommitted a batch may be sent again, so NotCommitted
// must stay true for ever.
func resolverChecks() []Check {
	resolver := func(name, promise string, needs Fault, run func(e *checkRun)) Check {
		return Check{Name: "Resolve/" + name, Promise: promise, neededFault: needs, run: func(e *checkRun) {
			if !e.traits.Resolves {
				e.Logf("declared: its traits say that it does not resolve")
				return
			}
			run(e)
		}}
	}
	return []Check{
		resolver("committed", "a batch that was accepted is never called not committed, and in the end committed", None,
			func(e *checkRun) {
				b := e.acceptedBatch(e.Services[0])
				e.requireProof(b, dlt.Committed, dlt.NotCommitted)
				assert.Equal(e, batch.ReportedCommitted, e.requireAnswers(b)[b.ID].Reported)
			}),
		resolver("lost reply", "a batch whose reply was lost is never called not committed, and in the end committed", LostReply,
			func(e *checkRun) {
				e.Set(LostReply)
				b := e.newBatch()
				require.Error(e, e.submit(b))
				e.Set(None)
				e.requireProof(b, dlt.Committed, dlt.NotCommitted)
			}),
		resolver("lost request", "a batch that never arrived is never called committed, and in the end not committed", LostRequest,
			func(e *checkRun) {
				e.committedBatch() // this batch is a witness, for ledgers that need one
				e.Set(LostRequest)
				b := e.newBatch()
				require.Error(e, e.submit(b))
				e.Set(None)
				e.requireProof(b, dlt.NotCommitted, dlt.Committed)
				e.requireNotTaken(b)
			}),
		resolver("decided against", "a batch that was decided against is never called committed", Decided,
			func(e *checkRun) {
				e.Set(Decided)
				b := e.acceptedBatch(e.Services[0])
				e.requireBecomes(b, batch.ReportedInvalid)
				e.Set(None)
				e.requireProof(b, dlt.NotCommitted, dlt.Committed)
			}),
		resolver("unreachable", "who reaches nobody cannot tell", StatusUnreachable,
			func(e *checkRun) {
				b := e.committedBatch()
				e.Set(StatusUnreachable)
				found, err := e.resolve(b)
				assert.Equal(e, dlt.CannotTell, found)
				e.requireKind(err, batch.KindUnavailable)
			}),
		resolver("context", "Resolve returns at once when its context is done", None,
			func(e *checkRun) {
				b := e.committedBatch()
				ctx, cancel := context.WithCancel(e.Context())
				cancel()
				e.requirePrompt(ctx, func() error {
					found, err := e.Ledger.Resolve(ctx, e.doubtOf(b))
					assert.Equal(e, dlt.CannotTell, found)
					return err
				})
			}),
	}
}

func (e *checkRun) resolve(b batch.Batch) (dlt.Evidence, error) {
	ctx, cancel := context.WithTimeout(e.Context(), e.CommitTimeout+e.CancelTimeout)
	defer cancel()
	return e.Ledger.Resolve(ctx, e.doubtOf(b))
}

// doubtOf returns the Doubt that the engine would pass to Resolve for b.
func (e *checkRun) doubtOf(b batch.Batch) dlt.Doubt {
	since := time.Since(e.lastMadeAt)
	return dlt.Doubt{Attempt: attempt(b), Since: since, Ended: since, Witnesses: e.witnesses}
}

// requireProof calls Resolve, from LateArrival on, until it returns want. Neither before nor after
// that may it return contrary.
func (e *checkRun) requireProof(b batch.Batch, want, contrary dlt.Evidence) {
	e.Helper()
	late := time.NewTimer(e.traits.LateArrival)
	defer late.Stop()
	<-late.C
	e.retryWithin(e.CommitTimeout, func() error {
		found, err := e.resolve(b)
		require.NoError(e, err)
		require.NotEqual(e, contrary, found, "%s", b.Key())
		if found != want {
			return fmt.Errorf("%s: %s, want %s", b.Key(), found, want)
		}
		return nil
	})
	found, err := e.resolve(b)
	require.NoError(e, err)
	require.Equal(e, want, found, "evidence does not change any more")
}
