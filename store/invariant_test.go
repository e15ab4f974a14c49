package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// rowHistory is one batch under random findings, together with what a ledger knows: the attempts
// that may yet take effect.
type rowHistory struct {
	t            *testing.T
	random       *rand.Rand
	row          store.Row
	now          time.Time
	openAttempts []int // attempts that may yet take effect, ascending
	firstSentAt  time.Time
	steps        []string
}

// A batch is sent again, or refused for good, only if no attempt can take effect twice. Its row
// keeps all invariants after every step.
func TestRowInvariants(t *testing.T) {
	for seed := range uint64(400) {
		l := &rowHistory{t: t, random: rand.New(rand.NewPCG(seed, 2)), row: store.NewRow(), now: testStart, steps: []string{fmt.Sprint("seed ", seed)}}
		for range 80 {
			before := l.row
			l.makeRandomStep()
			l.requireInvariants(before)
		}
	}
}

func (l *rowHistory) addStep(format string, args ...any) {
	l.steps = append(l.steps, fmt.Sprintf(format, args...)+fmt.Sprintf(" -> %s v%d a%d d%d", l.row.State, l.row.Version, l.row.Attempt, l.row.DoubtAttempt))
}

func (l *rowHistory) require(ok bool, format string, args ...any) {
	if ok {
		return
	}
	require.Fail(l.t, "the row is not whole", "%s\n%q\n%+v", fmt.Sprintf(format, args...), l.steps, l.row)
}

func (l *rowHistory) makeRandomStep() {
	l.now = l.now.Add(time.Duration(l.random.IntN(90)) * time.Second)
	switch n := l.random.IntN(20); {
	case l.row.IsReady(l.now) && n < 12:
		l.claimOrReturn()
	case n < 17:
		l.applyRandomFinding()
	default:
		l.operateAtRandom()
	}
}

func (l *rowHistory) claimOrReturn() {
	if !l.row.Resendable(l.now, ttl, hourResend) {
		l.row = l.row.BackToMonitor(l.now)
		l.addStep("return")
		return
	}
	if len(l.openAttempts) > 0 {
		lands := l.now.Add(ttl).Add(hourResend.LateArrival)
		l.require(!lands.After(l.firstSentAt.Add(hourResend.HarmlessFor)), "sent again while attempts %v may take effect", l.openAttempts)
	} else {
		l.firstSentAt = l.now
	}
	l.require(!l.row.Refused, "sent again after a refusal")
	l.row = l.row.Claim(l.now, ttl, hourResend)
	l.openAttempts = append(l.openAttempts, l.row.Attempt)
	l.addStep("claim")
}

func (l *rowHistory) applyRandomFinding() {
	o := monitorOutcome(l.row, monitorAndSubmitterFindings[l.random.IntN(len(monitorAndSubmitterFindings))])
	if l.row.Live(l.now) {
		o = submitterOutcome(l.row, monitorAndSubmitterFindings[l.random.IntN(5)])
		o.Back = []batch.State{batch.Queued, batch.Delayed, batch.Unknown}[l.random.IntN(3)]
	} else if o.Finding == store.Accepted || o.Finding == store.Unposted { // a finding that only a submitter makes
		return
	}
	o.Attempt = []int{0, l.row.Attempt}[l.random.IntN(2)]
	o.Spend, o.Last = l.random.IntN(3) == 0, l.random.IntN(6) == 0
	o.Delay, o.Check = time.Duration(l.random.IntN(60))*time.Second, time.Second
	o.Settle = time.Duration(l.random.IntN(3)) * time.Minute
	next, a := l.row.Apply(o, l.now)
	l.require((a.Result == store.Bad) == (a.Err != nil), "%s: %v", o.Finding, a.Err)
	if a.Result != store.Written {
		l.require(a.Row.Version == l.row.Version && next.State == l.row.State, "%s wrote", o.Finding)
		return
	}
	switch o.Finding {
	case store.Unposted, store.Failed, store.Refused: // the present attempt is known to have had no effect
		if n := len(l.openAttempts); n > 0 && l.openAttempts[n-1] == l.row.Attempt {
			l.openAttempts = l.openAttempts[:n-1]
		}
	case store.NotCommitted, store.IsVoid:
		l.openAttempts = nil
	}
	if next.State == batch.Rejected && next.Version != l.row.Version {
		l.require(len(l.openAttempts) == 0, "%s: rejected while attempts %v may take effect", o.Finding, l.openAttempts)
	}
	a, _ = a.Enforce(batch.Control{}, batch.Policy(l.random.IntN(4)), l.now)
	next = a.Row
	l.row = next
	l.addStep("%s by the %s", o.Finding, o.By)
	if next.Final() { // a verdict is about all attempts
		l.openAttempts = nil
	}
}

func (l *rowHistory) operateAtRandom() {
	var next store.Row
	var err error
	what := ""
	switch l.random.IntN(4) {
	case 0:
		what = "cancel"
		next, err = l.row.Cancel(l.now, "")
		l.require(err != nil || len(l.openAttempts) == 0, "cancelled while attempts %v may take effect", l.openAttempts)
	case 1:
		what = "requeue"
		next, err = l.row.Requeue(l.now, store.Requeue{Quiet: time.Minute})
		l.require(err != nil || l.row.State != batch.Committed, "a committed batch is requeued")
	case 2:
		what = "decide"
		next, err = l.row.Decide(l.now, []batch.Ruling{batch.NotExecutedSendAgain, batch.NotExecutedReject, batch.WasCommitted}[l.random.IntN(3)], "")
	case 3:
		what = "acquit"
		next, err = l.row.Acquit()
	}
	if err != nil {
		return
	}
	l.row, l.openAttempts = next, nil
	l.addStep("%s", what)
}

// requireInvariants checks the invariants that every row has.
func (l *rowHistory) requireInvariants(before store.Row) {
	r := l.row
	l.require(r.Version == before.Version || r.Version == before.Version+1, "the version goes from %d to %d", before.Version, r.Version)
	l.require(r.Attempt >= before.Attempt && r.Spent >= before.Spent, "counts only grow")
	l.require(r.State != before.State || r.Attempt != before.Attempt || r.Version >= before.Version, "changed without a version")
	first := 0
	if len(l.openAttempts) > 0 {
		first = l.openAttempts[0]
	}
	l.require(r.DoubtAttempt == first, "in doubt is %d, not %d", r.DoubtAttempt, first)
	l.require(r.DoubtSince.IsZero() == (r.DoubtAttempt == 0), "DoubtSince %s", r.DoubtSince)
	l.require(r.ResendUntil.IsZero() == (r.DoubtAttempt == 0), "ResendUntil %s", r.ResendUntil)
	l.require(r.DoubtAttempt != 0 || r.Resends == 0, "resends of no doubt")
	l.require(!r.State.InFlight() || r.DoubtAttempt != 0, "in flight, and nothing unresolved")
	l.require((r.State == batch.Submitting) == !r.ClaimExpires.IsZero(), "ClaimExpires %s", r.ClaimExpires)
	if r.Final() {
		l.require(r.State == batch.Committed || r.State == batch.Invalid || r.State == batch.Rejected, "final in %s", r.State)
		l.require(!r.Refused && r.Decision == "" && r.DoubtAttempt == 0 && r.NotBefore.IsZero(), "final, and not done with")
	} else {
		l.require(r.State != batch.Committed && r.State != batch.Rejected, "open in %s", r.State)
	}
	l.require(!r.Quarantined || r.Final() && r.State != batch.Committed, "in quarantine in %s", r.State)
	if r.State.Claimable() {
		l.require(!r.Refused && !r.Undecided(), "claimable, and refused or needing a decision")
	}
	owners := 0
	for _, is := range []bool{r.State.Claimable(), r.Live(l.now), r.Monitored(l.now), r.Final()} {
		if is {
			owners++
		}
	}
	l.require(owners == 1, "%d own it", owners)
}
