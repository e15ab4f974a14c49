package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// StepKind says what a [Step] is about.
type StepKind string

// The kinds of steps.
const (
	StepAdded    StepKind = "added"
	StepTaken    StepKind = "taken"    // an instance claimed the batch for an attempt
	StepAnswered StepKind = "answered" // an attempt ended, with its outcome
	StepMissing  StepKind = "missing"  // attempts without a report
	StepDoubt    StepKind = "doubt"    // the outcome of an attempt is not known
	StepCalled   StepKind = "called"   // nothing more can be found out: a person has to decide
	StepAct      StepKind = "act"      // a person acted
	StepOutcome  StepKind = "outcome"  // the batch became final
	StepDue      StepKind = "due"      // something is due, unless another step comes first
	StepRemoved  StepKind = "removed"  // retention removed the batch
)

// Tone says how good or bad a [Step] is.
type Tone string

// The tones.
const (
	TonePlain  Tone = "plain"
	ToneGood   Tone = "good"   // the ledger accepted or committed the batch
	ToneWait   Tone = "wait"   // the attempt failed and is repeated
	ToneDoubt  Tone = "doubt"  // the outcome is not known
	ToneBad    Tone = "bad"    // the batch ended without effect
	TonePerson Tone = "person" // a person acted, or is called
)

// Step is one event of a batch's history, or one that is due.
type Step struct {
	// At is when the step happened, or is due, on the database's clock. It is zero if that is not
	// known; the step then has its place in the order only.
	At   time.Time `json:"at,omitzero"`
	Kind StepKind  `json:"kind"`
	Tone Tone      `json:"tone"`
	// Title says what happened, in a few words.
	Title string `json:"title"`
	// Text is the ledger's answer, or the reason that a person gave. It may come from an untrusted
	// source.
	Text string `json:"text,omitzero"`
	// By is the name of the instance or the person.
	By string `json:"by,omitzero"`
	// Attempt is the number of the attempt; 0 if the step is about no attempt.
	Attempt int `json:"attempt,omitzero"`
	// Endpoint, StatusCode, Code and Took are the fields of the attempt's [batch.Report].
	Endpoint   string        `json:"endpoint,omitzero"`
	StatusCode int           `json:"status_code,omitzero"`
	Code       int           `json:"code,omitzero"`
	Took       time.Duration `json:"took_ns,omitzero"`
}

// Timeline returns the steps of a batch, oldest first, from what a store keeps about it: its
// record, the reports of its attempts, and its history. now is the time of the database's clock;
// steps that are due after it come last. It does no I/O.
//
// A store keeps no report of a first attempt that succeeded, and a limited number of the others
// ([batch.MaxReports]); a step says where reports are missing.
func Timeline(r batch.Record, reports []batch.Report, history []batch.Act, now time.Time) []Step {
	t := timeline{record: r, now: now}
	t.add(Step{At: r.CreatedAt, Kind: StepAdded, Tone: TonePlain, Title: "Added"})
	t.addAttempts(reports)
	t.addActs(history)
	t.addEnd(reports, history)
	slices.SortStableFunc(t.steps, func(a, b Step) int { return a.At.Compare(b.At) })
	for i := range t.steps {
		if s := &t.steps[i]; t.isUntimed && s.Kind == StepDoubt && s.Attempt > 0 {
			s.At = time.Time{}
		}
	}
	t.addMissing(reports)
	return t.steps
}

type timeline struct {
	record batch.Record
	now    time.Time
	steps  []Step
	// isUntimed is true if nobody knows when the attempt of a StepDoubt was sent; the step's time
	// then only gives its place.
	isUntimed bool
}

func (t *timeline) add(s Step) {
	if !s.At.IsZero() {
		t.steps = append(t.steps, s)
	}
}

func (t *timeline) addAttempts(reports []batch.Report) {
	for i, p := range reports {
		answer, tone := answerText(p.Kind)
		title := fmt.Sprintf("Attempt %d: %s", p.Attempt, answer)
		switch {
		case i > 0 && reports[i-1].Attempt == p.Attempt: // the attempt was one POST, so this second report answers a question about it
			title = fmt.Sprintf("The ledger was asked about attempt %d: %s", p.Attempt, answer)
		case i > 0 && reports[i-1].Kind == batch.KindDoubt:
			title = fmt.Sprintf("Sent again, attempt %d: %s", p.Attempt, answer)
		}
		t.add(Step{
			At: p.At, Kind: StepAnswered, Tone: tone, Title: title, Text: p.Text, By: p.Instance, Attempt: p.Attempt,
			Endpoint: p.Endpoint, StatusCode: p.StatusCode, Code: p.Code, Took: p.Took,
		})
	}
}

// answerText says how an attempt ended.
func answerText(k batch.ErrorKind) (string, Tone) {
	switch k {
	case "":
		return "accepted", ToneGood
	case batch.KindRejected:
		return "refused for good", ToneBad
	case batch.KindBusy:
		return "the ledger is busy", ToneWait
	case batch.KindUnavailable:
		return "the ledger was not reached", ToneWait
	case batch.KindMisconfigured:
		return "the ledger refuses this client", ToneWait
	case batch.KindNotYet:
		return "the ledger does not take it yet", ToneWait
	case batch.KindDoubt:
		return "the outcome is not known", ToneDoubt
	case batch.KindFailed:
		return "it had no effect", ToneWait
	case batch.KindInvalid:
		return "the ledger decided against it", ToneBad
	case batch.KindExhausted:
		return "the budget is used up", ToneBad
	case batch.KindCancelled, batch.KindGivenUp:
		return "ended by a person", TonePerson
	}
	return string(k), ToneWait
}

func (t *timeline) addActs(history []batch.Act) {
	for _, a := range history {
		title := string(a.Action)
		switch a.Action {
		case batch.ActionCancel:
			title = "Cancelled"
		case batch.ActionRequeue:
			title = "Put back into its lane"
		case batch.ActionDecide:
			title = "Decided by a person"
		case batch.ActionWithdraw:
			title = "Withdrawn"
		case batch.ActionAcquit:
			title = "Quarantine ended"
		}
		if a.From != a.To {
			title += fmt.Sprintf(": %s to %s", a.From, a.To)
		}
		t.add(Step{At: a.At, Kind: StepAct, Tone: TonePerson, Title: title, Text: a.Reason, By: a.Actor})
	}
}

// century is longer than any time that a person waits for.
const century = 100 * 365 * 24 * time.Hour

// addEnd adds the steps that the record itself gives: the last attempt, what is still open, and
// how the batch ended.
func (t *timeline) addEnd(reports []batch.Report, history []batch.Act) {
	r := t.record
	reported := slices.ContainsFunc(reports, func(p batch.Report) bool { return p.Attempt == r.Attempt })
	live := r.State == batch.Submitting && r.ClaimExpires.After(t.now)
	switch {
	case r.DoubtSince.IsZero():
	case ledgerHas(r):
		t.add(Step{At: r.DoubtSince, Kind: StepTaken, Tone: TonePlain, Title: "Claimed for an attempt", By: r.ClaimedBy})
	case live && r.Attempt == 1:
		t.add(Step{At: r.DoubtSince, Kind: StepTaken, Tone: TonePlain, Title: "Claimed for attempt 1, which is under way", By: r.ClaimedBy, Attempt: 1})
	default:
		title := "Claimed for the attempt that is in doubt"
		t.add(Step{At: r.DoubtSince, Kind: StepDoubt, Tone: ToneDoubt, Title: title, By: r.ClaimedBy})
	}
	if !reported && r.Attempt > 0 && !live {
		t.addUnreported(reports)
	}
	if r.Decision != "" {
		t.add(Step{At: t.now, Kind: StepCalled, Tone: TonePerson, Title: "A person has to decide", Text: r.Decision})
	}
	t.addOutcome(reports, history)
	for _, due := range []struct {
		at    time.Time
		title string
	}{
		{r.ClaimExpires, "The claim ends, and anybody may ask the ledger"},
		{r.NotBefore, "It may be sent again"},
		{r.SettlesAt, "The decision against it is final"},
		{r.ResendUntil, "Until then a resend is harmless"},
	} {
		if due.at.Sub(t.now) > century { // a resend is harmless for ever
			continue
		}
		if !r.Final() && due.at.After(t.now) {
			t.add(Step{At: due.at, Kind: StepDue, Tone: TonePlain, Title: due.title})
		}
	}
	t.add(Step{At: r.PrunedAt, Kind: StepRemoved, Tone: TonePlain, Title: "Removed by retention"})
}

// ledgerHas reports whether the ledger has said that it has the batch, so that no attempt is in
// doubt.
func ledgerHas(r batch.Record) bool {
	return r.State == batch.Pending || r.State == batch.Valid || r.State == batch.Invalid
}

// addUnreported adds the last attempt if it has no report. The record holds the time of the last
// POST, which may belong to an earlier attempt: a report is never older than its POST.
func (t *timeline) addUnreported(reports []batch.Report) {
	r := t.record
	s := Step{At: r.LastPost, Kind: StepAnswered, Tone: TonePlain, Title: fmt.Sprintf("Attempt %d was sent", r.Attempt), Attempt: r.Attempt}
	var last time.Time
	if len(reports) > 0 {
		last = reports[len(reports)-1].At
	}
	earlier := !r.LastPost.After(last)
	if !r.DoubtSince.IsZero() && !ledgerHas(r) {
		s.Kind, s.Tone, s.Title = StepDoubt, ToneDoubt, fmt.Sprintf("Attempt %d may have been sent", r.Attempt)
		if earlier {
			s.At, t.isUntimed = slices.MaxFunc([]time.Time{r.DoubtSince, last}, time.Time.Compare), true
		}
		t.add(s)
	} else if !earlier {
		t.add(s)
	}
}

// addOutcome adds the step that ended the batch, unless an act of a person did.
func (t *timeline) addOutcome(reports []batch.Report, history []batch.Act) {
	r := t.record
	if !r.Final() || slices.ContainsFunc(history, func(a batch.Act) bool { return a.At.Equal(r.FinalAt) && a.To == r.State && a.From != a.To }) {
		return
	}
	s := Step{At: r.FinalAt, Kind: StepOutcome, Tone: ToneBad}
	// The report of the last attempt is written at the same time as the outcome, and may have the
	// later time.
	if n := len(reports); n > 0 && reports[n-1].At.Sub(s.At) > 0 && reports[n-1].At.Sub(s.At) < time.Second {
		s.At = reports[n-1].At
	}
	switch r.State {
	case batch.Committed:
		s.Title, s.Tone = "Committed", ToneGood
		if n := len(r.Receipts); n > 0 {
			s.Text = fmt.Sprintf("%d %s", n, map[bool]string{true: "receipt", false: "receipts"}[n == 1])
		}
	case batch.Invalid:
		s.Title = "Invalid: the ledger decided against it"
	default:
		s.Title = "Rejected"
	}
	if r.Error != nil && r.State != batch.Committed {
		s.Text = r.Error.Error()
	}
	if r.Quarantined {
		s.Title += ", and set aside by the policy of its lane"
	}
	t.add(s)
}

// addMissing adds a step where attempts have no report. A store reports every attempt after a
// failed one, so a missing attempt was a claim that ended without a POST, or its process died, or
// the store dropped the report at its limit.
func (t *timeline) addMissing(reports []batch.Report) {
	for i := 1; i < len(reports); i++ {
		first, last := reports[i-1].Attempt+1, reports[i].Attempt-1
		if last < first {
			continue
		}
		title := fmt.Sprintf("Attempts %d to %d: no report is kept", first, last)
		if first == last {
			title = fmt.Sprintf("Attempt %d: no report is kept", first)
		}
		at := slices.IndexFunc(t.steps, func(s Step) bool { return s.Kind == StepAnswered && s.Attempt == reports[i].Attempt })
		if at >= 0 {
			t.steps = slices.Insert(t.steps, at, Step{Kind: StepMissing, Tone: TonePlain, Title: title, Attempt: first})
		}
	}
}

// Origin says in one line where the step comes from: the person or the instance, the endpoint, the
// HTTP status and the code of the answer, and how long the attempt took.
func (s Step) Origin() string {
	var parts []string
	if s.By != "" {
		parts = append(parts, "by "+s.By)
	}
	if s.Endpoint != "" {
		parts = append(parts, "at "+s.Endpoint)
	}
	if s.StatusCode != 0 {
		parts = append(parts, fmt.Sprintf("HTTP %d", s.StatusCode))
	}
	if s.Code != 0 {
		parts = append(parts, fmt.Sprintf("code %d", s.Code))
	}
	if s.Took > 0 {
		parts = append(parts, "in "+tookText(s.Took))
	}
	return strings.Join(parts, ", ")
}

// tookText returns the duration of an attempt in words: in milliseconds below a second, with a
// space before the unit.
func tookText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
