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
			Name:    "Statuses/lost",
			Promise: "an answer that is lost is an error",
			needs:   StatusLost,
			run:     func(e *exam) { requireStatusFails(e, StatusLost, 0) },
		},
		{
			Name:    "Statuses/garbage",
			Promise: "an answer that cannot be read is an error",
			needs:   StatusGarbage,
			run:     func(e *exam) { requireStatusFails(e, StatusGarbage, 2) },
		},
		{
			Name:    "Statuses/unknown word",
			Promise: "a word that the client does not know is an error, never a status",
			needs:   StatusUnknownWord,
			run:     func(e *exam) { requireStatusFails(e, StatusUnknownWord, 2) },
		},
		{
			Name:    "Statuses/missing",
			Promise: "an answer that is missing stays missing: it does not become one about another batch, or a verdict",
			needs:   StatusMissing,
			run: func(e *exam) {
				bs := []batch.Batch{e.committedBatch(), e.committedBatch(), e.committedBatch()}
				e.Set(StatusMissing)
				statuses, _ := e.ask(bs...) // an error with the answers is allowed
				answers := e.requireRightAnswers(statuses, bs)
				assert.Less(e, len(answers), len(bs), "one was missing")
				e.Set(None)
				assert.Len(e, e.answers(bs...), len(bs))
			},
		},
		{
			Name:    "Statuses/stranger",
			Promise: "an answer about a batch that nobody asked about is dropped",
			needs:   StatusStranger,
			run: func(e *exam) {
				bs := []batch.Batch{e.committedBatch(), e.committedBatch()}
				e.Set(StatusStranger)
				statuses, err := e.ask(bs...)
				answers := e.requireRightAnswers(statuses, bs)
				assert.True(e, err != nil || len(answers) == len(bs), "answers are missing, and there is no error")
			},
		},
	}
}

// requireStatusFails asks about three committed batches under a fault. It requires an error, and
// with the error at most atMost answers, which must be right.
func requireStatusFails(e *exam, f Fault, atMost int) {
	bs := []batch.Batch{e.committedBatch(), e.committedBatch(), e.committedBatch()}
	e.Set(f)
	statuses, err := e.ask(bs...)
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
func (e *exam) requireRightAnswers(statuses []batch.Status, committed []batch.Batch) map[batch.ID]batch.Status {
	e.Helper()
	answers := e.byID(statuses, committed...)
	for id, s := range answers {
		assert.Equal(e, batch.ReportedCommitted, s.Reported, "%s is committed", id)
	}
	return answers
}
