package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Deadline is what has to be done about an open batch that has not moved towards a final state for
// some time: see [DeadlineOf].
type Deadline uint8

// The answers of [DeadlineOf].
const (
	// DeadlineNotReached: nothing has to be done.
	DeadlineNotReached Deadline = iota
	// DeadlineReached: a person has to be called.
	DeadlineReached
	// DeadlinePutOff: for a long time nobody could read the batch, or the clock was put back. The
	// deadline is put off.
	DeadlinePutOff
)

// LookGap is how long nobody may read an open batch before that time no longer counts: all
// processes were stopped, the lane was paused, or the database could not be read. A batch whose
// deadline has passed meanwhile gets LookGap more, or the whole deadline if that is less. So the
// first failure after a long stop calls nobody.
const LookGap = 10 * time.Minute

// DeadlineOf is the rule of docs/design.md#deadlines: an open batch that has not moved for the
// time after calls a person. still is how long the batch has not moved ([InFlight].Age), and
// unseen is how long nobody had read it before this read. If after is 0 or less, there is no
// deadline.
//
// DeadlineOf does not consider whether a person was called already: [Row].Decision says so, until
// the batch moves.
func DeadlineOf(still, unseen, after time.Duration) Deadline {
	switch {
	case after <= 0:
		return DeadlineNotReached
	case still < -LookGap: // the batch moved in the future, so the clock was put back
		return DeadlinePutOff
	case still <= after:
		return DeadlineNotReached
	case unseen > LookGap:
		return DeadlinePutOff
	}
	return DeadlineReached
}

// withDeadlinePutOff puts the deadline off by the rule of [LookGap].
func (r Row) withDeadlinePutOff(now time.Time, after time.Duration) Row {
	if r.MovedAt.After(now) {
		r.MovedAt = now
	} else if least := now.Add(min(after, LookGap) - after); r.MovedAt.Before(least) {
		r.MovedAt = least
	}
	return r
}

// withWaitPutOff returns the row as a claim at now finds it. Time in which nobody could claim the
// batch does not count: its lane was paused or halted, its ledger rested, or no process ran.
func (r Row) withWaitPutOff(now time.Time, after time.Duration) Row {
	if r.MovedAt.IsZero() || r.Called() {
		return r
	}
	looked := r.MovedAt
	for _, at := range [...]time.Time{r.NotBefore, r.LastPost} {
		if at.After(looked) {
			looked = at
		}
	}
	if DeadlineOf(now.Sub(r.MovedAt), now.Sub(looked), after) == DeadlinePutOff {
		return r.withDeadlinePutOff(now, after)
	}
	return r
}

// AskedAgo returns [InFlight].AskedAgo of a row. asked is when somebody last asked about the row;
// the zero time means never.
func (r Row) AskedAgo(asked, now time.Time) time.Duration {
	for _, at := range [...]time.Time{r.MovedAt, r.lastPostEnd()} {
		if at.After(asked) {
			asked = at
		}
	}
	return max(0, now.Sub(asked))
}

// Called reports whether a person was called about the batch since it moved last.
func (r Row) Called() bool { return r.Decision != "" }

// Undecided reports whether a person was called about the very attempt that is under way. After a
// call about an attempt that has ended, the decision is the text of the last error.
func (r Row) Undecided() bool {
	return r.Called() && (r.Error == nil || r.Decision != r.Error.Error())
}

// markMoved notes that the batch has moved towards a final state: its deadline begins anew, and
// the call to a person is over.
func (r *Row) markMoved(now time.Time) { r.MovedAt, r.Decision = now, "" }

// setDecision sets the row's decision if the outcome calls a person, or if a person was called
// about the batch before and an attempt has begun or ended since, so that the kept decision is not
// about the present attempt. was is the row before the outcome.
func (r *Row) setDecision(was Row, o Outcome, now time.Time) {
	switch {
	case r.Final(), o.Finding == Undecidable, o.Finding == PutOff:
		return
	case r.Called() && o.Finding == IsPending && was.State == batch.Pending:
		return // nothing has changed since the call
	case r.Called():
		if r.Error == nil {
			text, _ := strings.CutPrefix(r.Decision, string(batch.KindDoubt)+": ")
			r.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: text}
		}
	case o.Finding == Failed && o.By == batch.BySubmitter && was.Error == nil:
		return // the first failure calls nobody, since it may come right after an outage
	case DeadlineOf(was.age(now), 0, o.StuckAfter) != DeadlineReached || !r.MovedAt.Equal(was.MovedAt):
		return
	case r.Error == nil || o.Error == nil && !r.Refused:
		text := fmt.Sprintf("%s in attempt %d: it has not moved for %s", o.Finding, r.Attempt, was.age(now).Round(time.Second))
		if r.Error != nil {
			text += "; " + r.Error.Error()
		}
		r.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: batch.Excerpt(text, batch.MaxErrorText)}
	}
	r.Decision = r.Error.Error()
}
