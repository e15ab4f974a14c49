package dlttest

import (
	"errors"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// refusalChecks are about the kinds of errors after which certainly no batch was accepted.
func refusalChecks() []Check {
	refusal := func(name string, f Fault, want batch.ErrorKind) Check {
		return Check{
			Name:        "Refusal/" + name,
			Promise:     "when the backend is " + string(f) + " the kind is " + string(want) + ", nothing was taken, and the client goes on afterwards",
			neededFault: f,
			run:         func(e *checkRun) { checkRefusal(e, f, want) },
		}
	}
	return []Check{
		refusal("busy", Busy, batch.KindBusy),
		refusal("refused", Refused, batch.KindRejected),
		refusal("unreachable", Unreachable, batch.KindUnavailable),
		refusal("misconfigured", Misconfigured, batch.KindMisconfigured),
		refusal("not yet", NotYet, batch.KindNotYet),
		{
			Name:        "Refusal/unreachable statuses",
			Promise:     "a status query that reaches nobody is an error without answers",
			neededFault: StatusUnreachable,
			run: func(e *checkRun) {
				b := e.committedBatch()
				e.Set(StatusUnreachable)
				statuses, err := e.askStatuses(b)
				e.requireKind(err, batch.KindUnavailable)
				assert.Empty(e, statuses)
				e.Set(None)
				e.requireBecomes(b, batch.ReportedCommitted)
			},
		},
	}
}

func checkRefusal(e *checkRun, f Fault, want batch.ErrorKind) {
	e.Set(f)
	b := e.newBatch()
	err := e.submit(b)
	e.requireKind(err, want)
	if f == Busy {
		var after time.Duration
		if typed, ok := errors.AsType[*dlt.Error](err); ok {
			after = typed.RetryAfter
		}
		assert.Equal(e, e.RetryAfter, after, "when to try again")
	}
	e.Set(None)
	e.requireNotTaken(b)
	e.requirePosted(b, 0, 1)
}
