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

// life is one batch under random findings, together with what a ledger knows: the attempts that
// may yet take effect.
type life struct {
	t     *testing.T
	r     *rand.Rand
	row   store.Row
	now   time.Time
	open  []int // attempts that may yet take effect, ascending
	since time.Time
	trace []string
}

// A batch is sent again, or refused for good, only if no attempt can take effect twice. Its row
// keeps all invariants after every step.
func TestRowInvariants(t *testing.T) {
	for seed := range uint64(400) {
		l := &life{t: t, r: rand.New(rand.NewPCG(seed, 2)), row: store.NewRow(), now: start, trace: []string{fmt.Sprint("seed ", seed)}}
		for range 80 {
			before := l.row
			l.step()
			l.whole(before)
		}
	}
}

func (l *life) say(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...)+fmt.Sprintf(" -> %s v%d a%d d%d", l.row.State, l.row.Version, l.row.Attempt, l.row.DoubtAttempt))
}

func (l *life) require(ok bool, format string, args ...any) {
	if ok {
		return
	}
	require.Fail(l.t, "the row is not whole", "%s\n%q\n%+v", fmt.Sprintf(format, args...), l.trace, l.row)
}

func (l *life) step() {
	l.now = l.now.Add(time.Duration(l.r.IntN(90)) * time.Second)
	switch n := l.r.IntN(20); {
	case l.row.Ready(l.now) && n < 12:
		l.claim()
	case n < 17:
		l.finding()
	default:
		l.operate()
	}
}

func (l *life) claim() {
	if !l.row.Resendable(l.now, ttl, hour) {
		l.row = l.row.BackToMonitor(l.now)
		l.say("return")
		return
	}
	if len(l.open) > 0 {
		lands := l.now.Add(ttl).Add(hour.LateArrival)
		l.require(!lands.After(l.since.Add(hour.HarmlessFor)), "sent again while attempts %v may take effect", l.open)
	} else {
		l.since = l.now
	}
	l.require(!l.row.Refused, "sent again after a refusal")
	l.row = l.row.Claim(l.now, ttl, hour)
	l.open = append(l.open, l.row.Attempt)
	l.say("claim")
}

func (l *life) finding() {
	o := monitored(l.row, findings[l.r.IntN(len(findings))])
	if l.row.Live(l.now) {
		o = submitted(l.row, findings[l.r.IntN(5)])
		o.Back = []batch.State{batch.Queued, batch.Delayed, batch.Unknown}[l.r.IntN(3)]
	} else if o.Finding == store.Accepted || o.Finding == store.Unposted { // a finding that only a submitter makes
		return
	}
	o.Attempt = []int{0, l.row.Attempt}[l.r.IntN(2)]
	o.Spend, o.Last = l.r.IntN(3) == 0, l.r.IntN(6) == 0
	o.Delay, o.Check = time.Duration(l.r.IntN(60))*time.Second, time.Second
	o.Settle = time.Duration(l.r.IntN(3)) * time.Minute
	next, a := l.row.Apply(o, l.now)
	l.require((a.Result == store.Bad) == (a.Err != nil), "%s: %v", o.Finding, a.Err)
	if a.Result != store.Written {
		l.require(a.Row.Version == l.row.Version && next.State == l.row.State, "%s wrote", o.Finding)
		return
	}
	switch o.Finding {
	case store.Unposted, store.Failed, store.Refused: // the present attempt is known to have had no effect
		if n := len(l.open); n > 0 && l.open[n-1] == l.row.Attempt {
			l.open = l.open[:n-1]
		}
	case store.NotCommitted, store.IsVoid:
		l.open = nil
	}
	if next.State == batch.Rejected && next.Version != l.row.Version {
		l.require(len(l.open) == 0, "%s: rejected while attempts %v may take effect", o.Finding, l.open)
	}
	a, _ = a.Enforce(batch.Control{}, batch.Policy(l.r.IntN(4)), l.now)
	next = a.Row
	l.row = next
	l.say("%s by the %s", o.Finding, o.By)
	if next.Final() { // a verdict is about all attempts
		l.open = nil
	}
}

func (l *life) operate() {
	var next store.Row
	var err error
	what := ""
	switch l.r.IntN(4) {
	case 0:
		what = "cancel"
		next, err = l.row.Cancel(l.now, "")
		l.require(err != nil || len(l.open) == 0, "cancelled while attempts %v may take effect", l.open)
	case 1:
		what = "requeue"
		next, err = l.row.Requeue(l.now, store.Requeue{Quiet: time.Minute})
		l.require(err != nil || l.row.State != batch.Committed, "a committed batch is requeued")
	case 2:
		what = "decide"
		next, err = l.row.Decide(l.now, []batch.Ruling{batch.NotExecutedSendAgain, batch.NotExecutedReject, batch.WasCommitted}[l.r.IntN(3)], "")
	case 3:
		what = "acquit"
		next, err = l.row.Acquit()
	}
	if err != nil {
		return
	}
	l.row, l.open = next, nil
	l.say("%s", what)
}

// whole checks the invariants that every row has.
func (l *life) whole(before store.Row) {
	r := l.row
	l.require(r.Version == before.Version || r.Version == before.Version+1, "the version goes from %d to %d", before.Version, r.Version)
	l.require(r.Attempt >= before.Attempt && r.Spent >= before.Spent, "counts only grow")
	l.require(r.State != before.State || r.Attempt != before.Attempt || r.Version >= before.Version, "changed without a version")
	first := 0
	if len(l.open) > 0 {
		first = l.open[0]
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
