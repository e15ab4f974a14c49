package dlttest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// queryChecks are about the number of batches in one query, and their services.
func queryChecks() []Check {
	return []Check{
		{
			Name:    "Queries/as many as declared",
			Promise: "Traits.MaxIDsPerQuery batches can be asked about in one call",
			run: func(e *checkRun) {
				bs := e.makeBatches(e.maxIDs())
				assert.Len(e, e.requireAllAnswers(bs), len(bs))
			},
		},
		{
			Name:        "Queries/size",
			Promise:     "no query holds more ids than Traits.MaxIDsPerQuery, however many are asked about",
			neededFault: QuerySize,
			run: func(e *checkRun) {
				bs := e.makeBatches(e.maxIDs() + 1)
				statuses, err := e.askStatuses(bs...) // the engine never asks about so many; the client asks in parts, or returns an error
				if answers := e.statusesByID(statuses, bs...); err == nil {
					assert.Len(e, answers, len(bs), "answers are missing, and there is no error")
				}
				assert.LessOrEqual(e, e.LargestQuery(), e.maxIDs(), "ids in one query")
			},
		},
		{
			Name:    "Queries/services",
			Promise: "one call serves one service where Traits.GroupsByService, and any of them where not",
			run: func(e *checkRun) {
				a, b := e.acceptedBatch(e.Services[0]), e.acceptedBatch(e.Services[1])
				e.requireBecomes(a, batch.ReportedCommitted)
				e.requireBecomes(b, batch.ReportedCommitted)
				require.Equal(e, e.traits.GroupsByService, e.Ledger.Traits(e.Services[1]).GroupsByService)
				if e.traits.GroupsByService {
					return // the check above has asked about each service alone
				}
				answers := e.requireAnswers(a, b)
				assert.Equal(e, batch.ReportedCommitted, answers[a.ID].Reported)
				assert.Equal(e, batch.ReportedCommitted, answers[b.ID].Reported)
			},
		},
	}
}

func (e *checkRun) maxIDs() int {
	if e.traits.MaxIDsPerQuery == 0 {
		return 50 // 0 means 50
	}
	return e.traits.MaxIDsPerQuery
}

// makeBatches returns n new batches. It submits the first and the last of them, and waits until
// both are committed.
func (e *checkRun) makeBatches(n int) []batch.Batch {
	e.Helper()
	bs := make([]batch.Batch, n)
	for i := range bs {
		bs[i] = e.newBatch()
	}
	for _, i := range [...]int{0, n - 1} {
		if e.Posts(bs[i].ID) == 0 {
			require.NoError(e, e.submit(bs[i]))
			e.requireBecomes(bs[i], batch.ReportedCommitted)
		}
	}
	return bs
}

// requireAllAnswers asks about all batches, and returns the answers. A client may leave out
// batches that were never sent: for these requireAllAnswers adds Unknown.
func (e *checkRun) requireAllAnswers(bs []batch.Batch) map[batch.ID]batch.Status {
	e.Helper()
	answers := e.requireAnswers(bs...)
	for i, b := range bs {
		s, ok := answers[b.ID]
		switch sent := i == 0 || i == len(bs)-1; {
		case sent:
			assert.Equal(e, batch.ReportedCommitted, s.Reported, "%s", b.Key())
		case !ok:
			answers[b.ID] = batch.Status{ID: b.ID, Reported: batch.ReportedUnknown}
		default:
			assert.True(e, hasNoTrace(s), "%s was never sent, and is %s", b.Key(), s.Reported)
		}
	}
	return answers
}
