package monitor

import (
	"bytes"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// Rules are the settings of [Decide], beside the ledger's traits.
type Rules struct {
	TTL          time.Duration // duration of this process's claims, and so the longest time until a resend is sent
	FirstPoll    time.Duration // time from acceptance to the first query
	PollInterval time.Duration // longest time between two queries
	StuckAfter   time.Duration // time after which an open batch that has not moved needs a decision
	// Delay returns how long a batch of the service waits before another attempt follows its n-th
	// attempt.
	Delay func(s batch.ServiceID, n int) time.Duration
	// Budget returns the budget of batches without one of their own. nil means unlimited.
	Budget func(batch.ServiceID) batch.Budget
	// AssumeNotCommitted decides a CannotTell beforehand: the batch is sent again, at the risk
	// that it takes effect twice.
	AssumeNotCommitted bool
	// Reliant is true if the queuer's strategy relies on the ledger's order (queuer.Strategy): it
	// sends batches behind accepted ones.
	Reliant bool
	// Streamed is true if the ledger streams its decisions. Questions about batches under way then
	// only find decisions that the stream missed.
	Streamed bool
}

// Known is the monitor's knowledge about a row.
type Known struct {
	// Status is the ledger's answer; nil if there was none.
	Status *batch.Status
	// Evidence is the resolver's evidence; nil if it was not asked.
	Evidence *dlt.Evidence
	// Seen is how long this process has known the row unchanged, with its claim over, on its own
	// clock.
	Seen time.Duration
	// Forgotten is true if the endpoint that answered was restarted since the last POST, as it has
	// shown with this batch or another.
	Forgotten bool
}

// Verdict is what to do with a row: record an outcome, ask the resolver, or ask the ledger again
// after Next.
type Verdict struct {
	Outcome *store.Outcome // to be recorded; nil if there is nothing to record yet
	Resolve bool           // whether the resolver is to be asked (dlt.Ledger.Resolve)
	Ended   time.Duration  // for Resolve: the least time since the last POST ended
	Next    time.Duration  // time until the ledger is asked again
	why     string         // why the row waits; a sentence for the person who is called if that lasts too long
}

// Decide turns a row and the knowledge about it into a verdict. It is the table of
// docs/design.md#doubt, behind the deadline of docs/design.md#deadlines. Without a clear answer
// the row waits.
func Decide(f store.InFlight, k Known, t dlt.Traits, r Rules) Verdict {
	if f.Budget == (batch.Budget{}) && r.Budget != nil {
		f.Budget = r.Budget(f.Key.Service)
	}
	d := decider{data{inFlight: f, known: k, traits: t, rules: r}}
	v := d.deadline(d.decide())
	if v.Resolve {
		v.Ended = d.sinceClaimEnd()
	}
	if o := v.Outcome; o != nil && o.Error != nil {
		o.Report = &batch.Report{Attempt: f.Attempt, Kind: o.Error.Kind, Text: o.Error.Message}
	}
	return v
}

// deadline applies store.DeadlineOf to each verdict. Once the deadline is reached, a verdict with
// an outcome keeps it, and the store calls the person with it (store.Outcome.StuckAfter); for a
// verdict that waits, the call of the person becomes the outcome. If the deadline is put off, that
// outcome replaces a wait, a Resolve and every outcome that is not decisive.
func (d *decider) deadline(v Verdict) Verdict {
	f, waits := d.inFlight, v.Outcome == nil && !v.Resolve
	if v.Outcome != nil {
		v.Outcome.StuckAfter = d.rules.StuckAfter
	}
	if f.Called {
		if waits && f.PostedAgo > d.rules.StuckAfter { // also for this attempt no further answer is expected
			return d.callPerson(d.stillText(f.PostedAgo, v.why))
		}
		return v
	}
	switch store.DeadlineOf(f.Age, f.AskedAgo, d.rules.StuckAfter) {
	case store.DeadlineNotReached:
		return v
	case store.DeadlinePutOff:
		if waits || v.Resolve || !isDecisive(v.Outcome.Finding) {
			return d.putOff()
		}
		return v
	}
	if waits {
		return d.callPerson(d.stillText(f.Age, v.why))
	}
	return v
}

// isDecisive reports whether a finding ends a batch, or calls a person in any case.
func isDecisive(f store.Finding) bool {
	return f == store.IsCommitted || f == store.IsInvalid || f == store.Settled || f == store.Refused || f == store.Undecidable
}

func (d *decider) putOff() Verdict {
	v := d.record(store.PutOff)
	v.Outcome.StuckAfter = d.rules.StuckAfter
	return v
}

// stillText returns a text with the time for which a batch has not moved, and why.
func (d *decider) stillText(since time.Duration, why string) string {
	s := d.inFlight.State.String()
	if d.inFlight.Attempt > 1 {
		s += fmt.Sprintf(" in attempt %d, and has not moved", d.inFlight.Attempt)
	}
	return fmt.Sprintf("%s for %s: %s", s, since.Round(time.Second), why)
}

func (d *decider) decide() Verdict {
	if d.known.Status == nil && d.known.Evidence == nil {
		return d.waitAsUsual("the ledger has not answered about it")
	}
	if d.known.Evidence != nil {
		return d.decideEvidence()
	}
	st := d.known.Status
	switch st.Reported {
	case batch.ReportedCommitted:
		v := d.record(store.IsCommitted)
		v.Outcome.Receipts = st.Receipts
		return v
	case batch.ReportedInvalid:
		return d.decideInvalid()
	case batch.ReportedPending:
		return d.decideInState(batch.Pending, store.IsPending)
	case batch.ReportedValid:
		return d.decideInState(batch.Valid, store.IsValid)
	case batch.ReportedFailed:
		return d.decideFailed()
	case batch.ReportedUnknown:
		return d.decideNoTrace()
	case batch.ReportedStalled:
		return d.decideStalled()
	case batch.ReportedVoid:
		return d.decideVoid()
	}
	return d.waitAsUsual(fmt.Sprintf("the ledger says %s", st.Reported))
}

// decider makes a verdict from data.
type decider struct{ data }

// outcome returns an outcome with this finding, fenced by the version that was read before the
// ledger was asked.
func (d *decider) outcome(finding store.Finding) *store.Outcome {
	o := &store.Outcome{
		Ref: d.inFlight.Ref, Version: d.inFlight.Version, Was: d.inFlight.Was, By: batch.ByMonitor, Finding: finding, Check: d.nextQuestion(),
		Prepared: d.inFlight.Prepared,
	}
	if d.known.Status != nil {
		o.Attempt = d.known.Status.Attempt
	}
	switch finding {
	case store.Failed:
		// The pause grows with the number of attempts, and not with the failures in a row: that
		// number begins again when the ledger accepts an attempt, and a ledger may accept each
		// attempt and then answer each time that it had no effect.
		o.Delay = d.rules.Delay(d.inFlight.Key.Service, d.inFlight.Attempt)
	case store.NoTrace, store.NotCommitted, store.IsVoid:
		// The second attempt needs no pause, and most others have waited long enough since the
		// POST. This pause does not grow, because the next attempt may find a proof that a node
		// can give for a limited time only.
		if d.inFlight.Attempt > 1 {
			o.Delay = max(0, d.rules.Delay(d.inFlight.Key.Service, 1)-max(0, d.inFlight.PostedAgo))
		}
	}
	return o
}

func (d *decider) record(finding store.Finding) Verdict {
	return Verdict{Outcome: d.outcome(finding), Next: d.nextQuestion()}
}

// wait returns the verdict to ask again after at, within FirstPoll and PollInterval. why is the
// reason, for a person.
func (d *decider) wait(at time.Duration, why string) Verdict {
	return Verdict{Next: min(max(at, d.rules.FirstPoll), d.rules.PollInterval), why: why}
}

// waitAsUsual returns the verdict to ask again after the usual time.
func (d *decider) waitAsUsual(why string) Verdict { return Verdict{Next: d.nextQuestion(), why: why} }

// ledgerWords returns the ledger's message about a batch that waits, for the person who has to
// decide.
func (d *decider) ledgerWords() string {
	if st := d.known.Status; st != nil && st.Message != "" {
		return ": " + st.Message
	}
	return ""
}

// callPerson records a doubt that a person must decide, once.
func (d *decider) callPerson(cause string) Verdict {
	if d.inFlight.Undecided {
		return Verdict{Next: d.rules.PollInterval}
	}
	v := d.record(store.Undecidable)
	v.Outcome.Check = d.rules.PollInterval
	v.Outcome.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: batch.Excerpt(cause, batch.MaxErrorText)}
	return v
}

func (d *decider) decideInState(s batch.State, finding store.Finding) Verdict {
	if s == batch.Valid && d.wasRolledBack() && !d.inFlight.RolledBack {
		// The state is recorded at once, because the ledger may have forgotten it when the attempt
		// is resolved.
		v := d.record(finding)
		d.countRollback(v.Outcome)
		return v
	}
	if d.inFlight.State == s && d.traits.Resolves && d.traits.Stale > 0 && d.sinceClaimEnd() > d.traits.Stale {
		return Verdict{Resolve: true, Next: d.nextQuestion()} // the ledger may have dropped it without a report
	}
	seen := ""
	if s == batch.Pending {
		seen = shownBy(d.inFlight, d.known.Status, d.traits)
	}
	if d.inFlight.State == s && seen == "" {
		return d.waitAsUsual("the ledger goes on saying " + s.String() + d.ledgerWords())
	}
	v := d.record(finding)
	v.Outcome.Endpoint = seen
	return v
}

// shownBy returns the endpoint that shows this attempt as under way, if that is worth a write. It
// returns "" if the next resend need not wait anyway, or if the row has an endpoint already.
func shownBy(f store.InFlight, st *batch.Status, t dlt.Traits) string {
	if f.Resends == 0 || t.ResendQuiet == 0 || f.Seen != "" {
		return ""
	}
	return st.Endpoint
}

func (d *decider) decideInvalid() Verdict {
	switch {
	case d.inFlight.Requeued && d.sinceClaimEnd() < d.traits.Settle:
		// This may be the verdict from before the requeue
		// (docs/ledgers/sawtooth.md#the-same-bytes-again).
		return d.wait(d.traits.Settle-d.sinceClaimEnd(), "the ledger says invalid, perhaps of before the requeue")
	case d.inFlight.State == batch.Invalid:
		return d.settle()
	case d.maybeOfEarlier():
		return d.wait(d.lateArrivalLeft(), "the ledger says invalid, and the last attempt may yet arrive")
	case d.isOfEarlierOnly() && d.inFlight.Refused && d.known.Status.Attempt > d.inFlight.DoubtAttempt:
		return d.decideNoTrace() // that verdict is recorded already
	case !d.inFlight.AboutLast(d.known.Status.Attempt):
		return d.decideNoTrace() // no trace of this attempt: the answer is about another one
	}
	v := d.record(store.IsInvalid)
	v.Outcome.Settle = d.traits.Settle
	v.Outcome.Receipts = d.known.Status.Receipts
	v.Outcome.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: invalidMessage(d.known.Status)}
	return v
}

func invalidMessage(st *batch.Status) string {
	text := st.Message
	if text == "" && len(st.Receipts) > 0 {
		text = st.Receipts[0].Message
	}
	return batch.Excerpt(text, batch.MaxErrorText)
}

// decideFailed handles the ledger's answer that an attempt had no effect. The answer counts only
// for the attempt that it names.
func (d *decider) decideFailed() Verdict {
	st := d.known.Status
	if st.Attempt != 0 && st.Attempt < d.inFlight.Attempt {
		return d.decideNoTrace() // no trace of this attempt: the answer is about an earlier one
	}
	if d.inFlight.State == batch.Invalid || st.Attempt > d.inFlight.Attempt {
		return d.waitAsUsual("the ledger speaks of another attempt")
	}
	if d.maybeOfEarlier() {
		return d.wait(d.lateArrivalLeft(), "the ledger says failed, and the last attempt may yet arrive")
	}
	if d.isOfEarlierOnly() && (d.inFlight.Refused || (d.inFlight.Ended && d.inFlight.Failures > 0)) {
		return d.decideNoTrace() // that failure is recorded already
	}
	v := d.record(store.Failed)
	v.Outcome.Spend = true
	v.Outcome.Error = &batch.SubmissionError{Kind: batch.KindFailed, Message: batch.Excerpt(st.Message, batch.MaxErrorText)}
	if d.inFlight.Budget.EveryTry {
		v.Outcome.Spend = false // the claim has spent it
	}
	spent := d.inFlight.Spent
	if v.Outcome.Spend {
		spent++
	}
	if d.inFlight.Budget.Exhausted(spent) {
		v.Outcome.Finding = store.Refused
		v.Outcome.Error = d.budgetUsedUp()
	}
	return v
}

func (d *decider) budgetUsedUp() *batch.SubmissionError {
	return &batch.SubmissionError{Kind: batch.KindExhausted, Message: fmt.Sprintf("budget of %d attempts used up", d.inFlight.Budget.Attempts)}
}

// decideNoTrace handles an answer that has no trace of the batch. An accepted batch that others
// may follow is in doubt from the first such answer on, and nothing of its lane is sent: if the
// ledger lost the batch, any batch sent now would overtake it. An answer that shows the batch ends
// the doubt.
func (d *decider) decideNoTrace() Verdict {
	v := d.decideAbsent()
	if v.Outcome == nil && d.mayBePassed() {
		next := v.Next
		if v = d.record(store.Doubtful); next > 0 {
			v.Outcome.Check = min(next, d.rules.PollInterval)
		}
	}
	return v
}

// decideAbsent handles the hard case: a ledger that does not know the batch may still get it, or
// may have forgotten it. The batch is sent again only if that is declared harmless or proved to
// be.
func (d *decider) decideAbsent() Verdict {
	f, t := d.inFlight, d.traits
	if f.State == batch.Invalid {
		return d.settle()
	}
	again := d.hasSpendable() && (store.Resend{LateArrival: t.LateArrival}).Allows(d.resendLeft(), d.rules.TTL)
	age := f.PostedAgo
	if !again { // a resend would do harm, and the database's clock may have jumped: this process waits by its own clock, too
		age = min(age, d.known.Seen)
	}
	late := t.LateArrival - age
	if late > 0 {
		return d.untraced(late)
	}
	if age < t.Grace {
		return d.untraced(t.Grace - age)
	}
	if again {
		if f.Resends > 0 && f.PostedAgo < t.ResendQuiet && !d.isForgotten() {
			return d.waitAsUsual("not found, and a second resend must wait")
		}
		return d.record(store.NoTrace)
	}
	if !f.Ended { // the end of the last POST was not recorded: by our clock it may still run (see sinceClaimEnd)
		if late := d.lateArrivalLeft(); late > 0 {
			return d.wait(late, "not found, and the last attempt may yet arrive")
		}
	}
	if t.Resolves {
		return Verdict{Resolve: true, Next: d.nextQuestion()}
	}
	return d.decideCannotTell("not found, and this ledger gives no evidence")
}

// decideStalled handles a batch that the ledger has and makes no progress with. It is sent again
// as if there were no trace of it, never more often than questions are asked, and without spending
// an attempt.
func (d *decider) decideStalled() Verdict {
	f, t := d.inFlight, d.traits
	if f.Budget.EveryTry && f.Spent > 0 {
		f.Spent-- // the attempt that the next one helps
	}
	again := data{inFlight: f, known: d.known, traits: t, rules: d.rules}
	early := f.PostedAgo < max(t.ResendQuiet, t.LateArrival, d.rules.PollInterval)
	if early || f.State == batch.Invalid || !again.hasSpendable() || !(store.Resend{LateArrival: t.LateArrival}).Allows(d.resendLeft(), d.rules.TTL) {
		return d.decideInState(batch.Pending, store.IsPending)
	}
	v := d.record(store.NoTrace)
	v.Outcome.Refund = f.Budget.EveryTry
	return v
}

// decideVoid handles an answer that the prepared bytes by which the ledger was asked are void. The
// row may keep other bytes by now. The bytes asked about may be more than the store kept when the
// row was read: the store may have forgotten some, or another process has already found them void.
func (d *decider) decideVoid() Verdict {
	if d.inFlight.State == batch.Invalid {
		return d.settle()
	}
	v := d.record(store.IsVoid)
	if was := d.inFlight.Was; was != nil && bytes.HasPrefix(d.inFlight.Prepared, was.Prepared) {
		v.Outcome.Prepared = was.Prepared
	}
	if st := d.known.Status; d.inFlight.Withdrawn && st.Message != "" { // the row ends, with this reason
		v.Outcome.Error = &batch.SubmissionError{Kind: batch.KindCancelled, Message: st.Message}
		return v
	}
	d.lastIfSpent(v.Outcome)
	return v
}

// lastIfSpent ends a batch whose budget is used up.
func (d *decider) lastIfSpent(o *store.Outcome) {
	if d.inFlight.Budget.Exhausted(d.inFlight.Spent) {
		o.Last, o.Error = true, d.budgetUsedUp()
	}
}

// untraced waits until "no trace" is meaningful. Meanwhile a batch that was accepted is asked
// about as soon as any other: the node that answers may get the batch in a moment from the node
// that accepted it. The same holds for a batch in doubt that holds up its lane.
func (d *decider) untraced(left time.Duration) Verdict {
	if d.inFlight.State == batch.Pending || d.inFlight.State == batch.Valid || d.sendsBehindAccepted() {
		left = min(left, d.nextQuestion())
	}
	return d.wait(left, "not found, which says nothing yet")
}

// settle ends an Invalid batch once it can no longer become Committed, by both clocks. If the
// database's clock was ahead at the verdict, and was put right, only this process's clock counts.
func (d *decider) settle() Verdict {
	left := d.traits.Settle - d.known.Seen
	if d.inFlight.SettleLeft <= d.traits.Settle {
		left = max(left, d.inFlight.SettleLeft)
	}
	if left > 0 {
		return d.wait(left, "decided against, and not settled")
	}
	v := d.record(store.Settled)
	v.Outcome.Settle = d.traits.Settle
	if d.inFlight.SettleLeft > d.traits.Settle {
		// When this is written, the time in the row may be ahead by less than Settle. It must not
		// count then, either.
		v.Outcome.Settle = time.Nanosecond
	}
	return v
}

func (d *decider) decideEvidence() Verdict {
	switch *d.known.Evidence {
	case dlt.Committed:
		return d.record(store.IsCommitted)
	case dlt.NotCommitted:
		return d.decideNotCommitted()
	case dlt.InFlight:
		return d.waitAsUsual("the ledger goes on saying in flight" + d.ledgerWords())
	}
	if st := d.known.Status; st != nil && st.Reported != batch.ReportedUnknown {
		cause := "the ledger goes on saying " + st.Reported.String() + ", and the evidence does not tell" + d.ledgerWords()
		if st.Reported == batch.ReportedPending || min(d.inFlight.PostedAgo, d.known.Seen) <= d.traits.Stale+evidenceTime {
			return d.waitAsUsual(cause)
		}
		return d.callPerson(cause)
	}
	return d.decideCannotTell("not found, and the evidence does not tell")
}

// evidenceTime is how long beyond Stale a resolver that cannot tell is asked again about an
// executed batch. After that its answer is final. A process that has just started takes Stale to
// see that nothing moves, and a log is written a little later than its events happen.
const evidenceTime = time.Minute

func (d *decider) decideCannotTell(cause string) Verdict {
	if d.rules.AssumeNotCommitted {
		return d.decideNotCommitted()
	}
	return d.callPerson(cause)
}

// maxRollbacks is the number of executions in a row that were taken back at which a lane is
// halted. One may have been caused by a crash. Two of one batch, with Traits.LateArrival between
// them, show that the ledger's nodes disagree, and each further one may do harm.
const maxRollbacks = 2

// countRollback counts an execution that was taken back, once for each attempt. The count is in
// the row, so no restart, of the ledger's nodes or of this process, sets it back.
func (d *decider) countRollback(o *store.Outcome) {
	o.RolledBack = true
	if n := d.inFlight.Rollbacks + 1; n >= maxRollbacks {
		o.Halt = fmt.Sprintf("the nodes of this circuit disagree: %d executions in a row were rolled back", n)
	}
}

func (d *decider) decideNotCommitted() Verdict {
	v := d.record(store.NotCommitted)
	if d.wasRolledBack() && !d.inFlight.RolledBack {
		d.countRollback(v.Outcome)
	}
	d.lastIfSpent(v.Outcome)
	return v
}
