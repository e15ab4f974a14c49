package dlttest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func acceptanceChecks() []Check {
	return []Check{
		{
			Name:    "Accepted",
			Promise: "nil from Submit leads to committed, with one submission",
			run: func(e *checkRun) {
				b := e.committedBatch()
				e.requirePosted(b, 1, 1)
				again := e.requireAnswers(b)
				assert.Equal(e, batch.ReportedCommitted, again[b.ID].Reported, "committed, and then not")
			},
		},
		{
			Name:    "Accepted/in order",
			Promise: "batches of one service, each submitted when the one before is committed, are all committed",
			run: func(e *checkRun) {
				for range 3 {
					e.requirePosted(e.committedBatch(), 1, 1)
				}
			},
		},
		{
			Name:    "Accepted/second service",
			Promise: "a client serves more than one service",
			run: func(e *checkRun) {
				b := e.acceptedBatch(e.Services[1])
				e.requireBecomes(b, batch.ReportedCommitted)
				e.requirePosted(b, 1, 1)
			},
		},
		{
			Name:        "Accepted/decided against",
			Promise:     "what was accepted and then decided against is reported invalid",
			neededFault: Decided,
			run: func(e *checkRun) {
				e.Set(Decided)
				b := e.acceptedBatch(e.Services[0])
				s := e.requireBecomes(b, batch.ReportedInvalid)
				assert.Equal(e, b.ID, s.ID)
				e.requirePosted(b, 1, 1)
				e.Set(None)
				e.committedBatch()
			},
		},
		{
			Name:        "Accepted/second attempt",
			Promise:     "the engine's own resend reaches the backend: a client does not swallow it",
			neededFault: LostRequest,
			run: func(e *checkRun) {
				e.Set(LostRequest)
				b := e.newBatch()
				e.requireKind(e.submit(b), batch.KindDoubt)
				e.Set(None)
				before := e.Posts(b.ID)
				second := attempt(b)
				second.Number = 2
				assert.NoError(e, e.Ledger.Submit(e.Context(), second))
				e.requirePosted(b, before+1, before+1)
				e.requireBecomes(b, batch.ReportedCommitted)
			},
		},
	}
}
