package dlttest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func statusChecks() []Check {
	return []Check{
		{
			Name:    "Statuses/never sent",
			Promise: "a batch that was never sent is unknown or void, or has no answer",
			run: func(e *checkRun) {
				b := e.newBatch()
				s, ok := e.requireAnswers(b)[b.ID]
				assert.True(e, !ok || hasNoTrace(s), "%s was never sent, and is %s", b.Key(), s.Reported)
			},
		},
		{
			Name:    "Statuses/by id",
			Promise: "each answer is about its own batch, wherever it stands in the question",
			run: func(e *checkRun) {
				a, b, never := e.committedBatch(), e.committedBatch(), e.newBatch()
				for _, asked := range [][]batch.Batch{{a, never, b}, {never, b, a}, {b, a, never}} {
					answers := e.requireAnswers(asked...)
					assert.Equal(e, batch.ReportedCommitted, answers[a.ID].Reported)
					assert.Equal(e, batch.ReportedCommitted, answers[b.ID].Reported)
					s, ok := answers[never.ID]
					assert.True(e, !ok || hasNoTrace(s), "%s was never sent, and is %s", never.Key(), s.Reported)
				}
			},
		},
		{
			Name:        "Statuses/verdicts apart",
			Promise:     "a batch that was decided against and one that was committed are distinguished in one question",
			neededFault: Decided,
			run: func(e *checkRun) {
				good := e.committedBatch()
				e.Set(Decided)
				bad := e.acceptedBatch(e.Services[0])
				e.requireBecomes(bad, batch.ReportedInvalid)
				answers := e.requireAnswers(bad, good)
				assert.Equal(e, batch.ReportedCommitted, answers[good.ID].Reported)
				assert.Equal(e, batch.ReportedInvalid, answers[bad.ID].Reported)
			},
		},
		{
			Name:        "Statuses/shuffled",
			Promise:     "the order of the backend's answers does not matter",
			neededFault: StatusShuffled,
			run: func(e *checkRun) {
				a, b, never := e.committedBatch(), e.committedBatch(), e.newBatch()
				e.Set(StatusShuffled)
				answers := e.requireAnswers(a, b, never)
				assert.Equal(e, batch.ReportedCommitted, answers[a.ID].Reported)
				assert.Equal(e, batch.ReportedCommitted, answers[b.ID].Reported)
				assert.NotEqual(e, batch.ReportedCommitted, answers[never.ID].Reported)
			},
		},
		{
			Name:    "Statuses/asked twice",
			Promise: "an id that is asked about twice does no harm",
			run: func(e *checkRun) {
				a, b := e.committedBatch(), e.committedBatch()
				answers := e.requireAnswers(a, b, a, a)
				require.Len(e, answers, 2)
				assert.Equal(e, batch.ReportedCommitted, answers[a.ID].Reported)
				assert.Equal(e, batch.ReportedCommitted, answers[b.ID].Reported)
			},
		},
		{
			Name:    "Statuses/attempt",
			Promise: "an answer names no attempt but one that was made, or none",
			run: func(e *checkRun) {
				b := e.committedBatch()
				s := e.requireAnswers(b)[b.ID]
				assert.True(e, s.Attempt == 0 || s.Attempt == 1, "attempt %d", s.Attempt)
			},
		},
	}
}
