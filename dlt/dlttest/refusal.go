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
			Name:    "Refusal/" + name,
			Promise: "when the backend is " + string(f) + " the kind is " + string(want) + ", nothing was taken, and the client goes on afterwards",
			needs:   f,
			run:     func(e *exam) { requireRefused(e, f, want) },
		}
	}
	return []Check{
		refusal("busy", Busy, batch.KindBusy),
		refusal("refused", Refused, batch.KindRejected),
		refusal("unreachable", Unreachable, batch.KindUnavailable),
		refusal("misconfigured", Misconfigured, batch.KindMisconfigured),
		refusal("not yet", NotYet, batch.KindNotYet),
		{
			Name:    "Refusal/unreachable statuses",
			Promise: "a status query that reaches nobody is an error without answers",
			needs:   StatusUnreachable,
			run: func(e *exam) {
				b := e.committedBatch()
				e.Set(StatusUnreachable)
				statuses, err := e.ask(b)
				e.requireKind(err, batch.KindUnavailable)
				assert.Empty(e, statuses)
				e.Set(None)
				e.requireBecomes(b, batch.ReportedCommitted)
			},
		},
	}
}

func requireRefused(e *exam, f Fault, want batch.ErrorKind) {
	e.Set(f)
	b := e.batch()
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
