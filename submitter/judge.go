package submitter

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// Rules are the settings of [Judge].
type Rules struct {
	FirstCheck time.Duration // time from acceptance to the first status query
	// Delay returns how long a batch of the service waits after its n-th certain failure in a row.
	Delay func(s batch.ServiceID, n int) time.Duration
	// StuckAfter is how long a batch may be open without moving before it needs a person; 0 is
	// never.
	StuckAfter time.Duration
}

// Judge turns the result of an attempt into the outcome to record. It is pure except for the
// jitter of Delay. Every result that is not certain is doubt. A failure before anything was posted
// spends no try.
func Judge(c store.Claim, err error, posted bool, r Rules) store.Outcome {
	o := store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, Budget: c.Budget, By: batch.BySubmitter, Attempt: c.Attempt, Check: r.FirstCheck}
	o.Refund = !posted && c.Budget.EveryTry
	kind := dlt.Kind(err)
	if err != nil {
		o.Error = dlt.Reason(err)
	}
	switch kind {
	case "":
		o.Finding = store.Accepted
	case batch.KindRejected:
		o.Finding, o.Spend, o.Last = store.Refused, !c.Budget.EveryTry, true
	case batch.KindBusy, batch.KindUnavailable:
		o.Finding = store.Failed
		o.Delay = max(r.Delay(c.Key.Service, c.Failures+1), dlt.RetryAfter(err))
	case batch.KindMisconfigured:
		o.Finding = store.Failed
		o.Refund = c.Budget.EveryTry
		o.Delay = r.Delay(c.Key.Service, c.Failures+1)
	case batch.KindNotYet:
		o.Finding = store.Failed
		o.Refund = c.Budget.EveryTry
		o.Delay = max(r.Delay(c.Key.Service, c.Failures+1), dlt.RetryAfter(err))
	default:
		o.Finding = store.Doubtful
	}
	// If every try spends, the claim has spent this attempt already.
	if (o.Finding == store.Failed || o.Finding == store.Doubtful) && c.Budget.EveryTry && !o.Refund && !c.Withdrawn && c.Budget.Exhausted(c.Spent) {
		o.Last = true
		o.Error = &batch.SubmissionError{
			Kind:    batch.KindExhausted,
			Message: batch.Excerpt("budget used up; last: "+o.Error.Error(), batch.MaxErrorText),
		}
		if o.Finding == store.Failed {
			o.Finding = store.Refused
		}
	}
	if o.Finding == store.Failed { // about a doubt the monitor decides, once it has asked
		o.StuckAfter = r.StuckAfter
	}
	return o
}

// Unposted returns the outcome of a claim for which nothing was sent.
func Unposted(c store.Claim) store.Outcome {
	return store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Unposted, Back: c.From, Refund: c.Budget.EveryTry}
}
