package dlttest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// doubtChecks are about attempts whose outcome is not known. A client must report them as
// doubt: an attempt that is wrongly called certain is sent again and executed twice.
func doubtChecks() []Check {
	return []Check{
		{
			Name:        "Doubt/lost reply",
			Promise:     "a reply lost after the batch was taken is doubt; the batch is found, and was sent once",
			neededFault: LostReply,
			run: func(e *checkRun) {
				e.Set(LostReply)
				b := e.newBatch()
				e.requireKind(e.submit(b), batch.KindDoubt)
				e.Set(None)
				e.requireBecomes(b, batch.ReportedCommitted)
				e.requirePosted(b, 1, 1)
			},
		},
		{
			Name:        "Doubt/lost request",
			Promise:     "a connection lost before the batch was taken is doubt, and the batch was sent once at most",
			neededFault: LostRequest,
			run:         func(e *checkRun) { e.submitInDoubt(LostRequest) },
		},
		{
			Name:        "Doubt/unheard answer",
			Promise:     "an answer that nobody documented is doubt",
			neededFault: UnknownAnswer,
			run:         func(e *checkRun) { e.submitInDoubt(UnknownAnswer) },
		},
		{
			Name:        "Doubt/redirect",
			Promise:     "a redirect is not followed: that would be a submission nobody counted",
			neededFault: Redirect,
			run: func(e *checkRun) {
				e.Set(Redirect)
				b := e.newBatch()
				e.requireKind(e.submit(b), batch.KindDoubt, batch.KindMisconfigured)
				e.Set(None)
				e.requireNotTaken(b)
				e.requirePosted(b, 1, 1)
			},
		},
		{
			Name:        "Doubt/many lost replies",
			Promise:     "after replies lost on connections that are in use, too, nothing is sent twice",
			neededFault: LostReply,
			run: func(e *checkRun) {
				var lostBatches []batch.Batch
				for range 5 {
					e.Set(None)
					e.committedBatch() // so that an old connection exists, if the client has connections
					e.Set(LostReply)
					b := e.newBatch()
					e.requireKind(e.submit(b), batch.KindDoubt)
					lostBatches = append(lostBatches, b)
				}
				e.Set(None)
				for _, b := range lostBatches {
					e.requireBecomes(b, batch.ReportedCommitted)
					assert.Equal(e, 1, e.Posts(b.ID), "submissions of %s that reached the backend; a client never resends", b.Key())
				}
			},
		},
	}
}

// submitInDoubt submits under a fault that does not accept the batch.
func (e *checkRun) submitInDoubt(f Fault) {
	e.Helper()
	e.Set(f)
	b := e.newBatch()
	e.requireKind(e.submit(b), batch.KindDoubt)
	e.Set(None)
	e.requireNotTaken(b)
	e.requirePosted(b, 0, 1)
}
