package dlttest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// statusFaultChecks are about answers that are lost, unreadable or odd. The engine uses
// answers that come with an error, so they must be right.
func statusFaultChecks() []Check {
	return []Check{
		{
			Name:        "Statuses/lost",
			Promise:     "an answer that is lost is an error",
			neededFault: StatusLost,
			run:         func(e *checkRun) { checkStatusFault(e, StatusLost, 0) },
		},
		{
			Name:        "Statuses/garbage",
			Promise:     "an answer that cannot be read is an error",
			neededFault: StatusGarbage,
			run:         func(e *checkRun) { checkStatusFault(e, StatusGarbage, 2) },
		},
		{
			Name:        "Statuses/unknown word",
			Promise:     "a word that the client does not know is an error, never a status",
			neededFault: StatusUnknownWord,
			run:         func(e *checkRun) { checkStatusFault(e, StatusUnknownWord, 2) },
		},
		{
			Name:        "Statuses/missing",
			Promise:     "an answer that is missing stays missing: it does not become one about another batch, or a verdict",
			neededFault: StatusMissing,
			run: func(e *checkRun) {
				bs := []batch.Batch{e.committedBatch(), e.committedBatch(), e.committedBatch()}
				e.Set(StatusMissing)
				statuses, _ := e.askStatuses(bs...) // an error with the answers is allowed
				answers := e.requireRightAnswers(statuses, bs)
				assert.Less(e, len(answers), len(bs), "one was missing")
				e.Set(None)
				assert.Len(e, e.requireAnswers(bs...), len(bs))
			},
		},
		{
			Name:        "Statuses/stranger",
			Promise:     "an answer about a batch that nobody asked about is dropped",
			neededFault: StatusStranger,
			run: func(e *checkRun) {
				bs := []batch.Batch{e.committedBatch(), e.committedBatch()}
				e.Set(StatusStranger)
				statuses, err := e.askStatuses(bs...)
				answers := e.requireRightAnswers(statuses, bs)
				assert.True(e, err != nil || len(answers) == len(bs), "answers are missing, and there is no error")
			},
		},
	}
}

// checkStatusFault asks about three committed batches under a fault. It requires an error, and
// with the error at most atMost answers, which must be right.
func checkStatusFault(e *checkRun, f Fault, atMost int) {
	bs := []batch.Batch{e.committedBatch(), e.committedBatch(), e.committedBatch()}
	e.Set(f)
	statuses, err := e.askStatuses(bs...)
	// Any kind is allowed, because a query has no effect that could be in doubt.
	e.requireKind(err, batch.KindDoubt, batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured)
	assert.LessOrEqual(e, len(e.requireRightAnswers(statuses, bs)), atMost)
	e.Set(None)
	for _, b := range bs {
		e.requireBecomes(b, batch.ReportedCommitted)
	}
}

// requireRightAnswers requires that every answer is about one of the committed batches and is
// right.
func (e *checkRun) requireRightAnswers(statuses []batch.Status, committed []batch.Batch) map[batch.ID]batch.Status {
	e.Helper()
	answers := e.statusesByID(statuses, committed...)
	for id, s := range answers {
		assert.Equal(e, batch.ReportedCommitted, s.Reported, "%s is committed", id)
	}
	return answers
}
