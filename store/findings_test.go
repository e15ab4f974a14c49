package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

var monitorAndSubmitterFindings = []store.Finding{
	store.Accepted, store.Doubtful, store.Unposted, store.Failed, store.Refused,
	store.IsPending, store.IsValid, store.IsInvalid, store.IsCommitted, store.Settled, store.NoTrace, store.NotCommitted, store.IsVoid, store.Undecidable,
}

// monitorsTable has the state after each finding of a monitor (columns), for each row of
// rowsByStanding. p is pending, v valid, i invalid, c committed, d delayed, u unknown, r rejected,
// s submitting; - is the result Bad, f Fenced and h Held.
const monitorsTable = `
                  failed refused pending valid invalid committed settled notrace notcommitted isvoid undecidable
queued            -      -       -       -     -       c         -       -       -            -      -
live              f      f       f       f     f       h         f       f       f            f      f
expired           d      r       p       v     i       c         -       u       u            u      s
doubt             d      r       p       v     i       c         -       u       u            u      s
undecided         d      r       p       v     i       c         -       u       u            u      s
pending           d      r       p       v     i       c         -       u       u            u      p
valid             d      r       p       v     i       c         -       u       u            u      v
stuck             d      r       p       v     i       c         -       u       u            u      p
lost              d      r       p       v     i       c         -       u       u            u      v
delayed           -      -       -       -     -       c         -       -       -            -      -
unknown           -      -       -       -     -       c         -       -       -            -      -
not_committed     -      -       -       -     -       c         -       -       -            -      -
live_again        f      f       f       f     f       h         f       f       f            f      f
pending_again     d      s       p       v     i       c         -       u       u            u      p
delayed_again     -      -       -       -     -       c         -       -       -            -      -
refused_in_doubt  s      s       p       v     i       c         -       -       r            r      s
unsettled         -      -       p       v     i       c         -       -       -            -      i
invalid           f      f       f       f     f       c         f       f       f            f      f
committed         f      f       f       f     f       c         f       f       f            f      f
rejected          f      f       f       f     f       c         f       f       f            f      f
requeued          -      -       -       -     -       c         -       -       -            -      -
`

var stateLetters = map[string]batch.State{
	"p": batch.Pending, "v": batch.Valid, "i": batch.Invalid, "c": batch.Committed, "d": batch.Delayed,
	"u": batch.Unknown, "r": batch.Rejected, "s": batch.Submitting,
}

func TestMonitorsFindings(t *testing.T) {
	columns := []store.Finding{
		store.Failed, store.Refused, store.IsPending, store.IsValid, store.IsInvalid, store.IsCommitted, store.Settled,
		store.NoTrace, store.NotCommitted, store.IsVoid, store.Undecidable,
	}
	rows := rowsByStanding(t)
	lines := strings.Split(strings.TrimSpace(monitorsTable), "\n")[1:]
	require.Len(t, lines, len(rows))
	for _, line := range lines {
		cells := strings.Fields(line)
		name := strings.ReplaceAll(cells[0], "_", " ")
		r, ok := rows[name]
		require.True(t, ok, name)
		for i, want := range cells[1:] {
			f := columns[i]
			next, a := r.Apply(monitorOutcome(r, f), testStart.Add(time.Second))
			switch want {
			case "-", "f", "h":
				result := map[string]store.Result{"-": store.Bad, "f": store.Fenced, "h": store.Held}[want]
				assert.Equal(t, result, a.Result, "%s, %s: %v", name, f, a.Err)
				assert.Equal(t, want == "-", a.Err != nil, "%s, %s", name, f)
				assert.Equal(t, r, next, "%s, %s", name, f)
				continue
			}
			assert.Equal(t, store.Written, a.Result, "%s, %s: %v", name, f, a.Err)
			assert.Equal(t, stateLetters[want], next.State, "%s, %s", name, f)
			wasFinal := r.Final() || (r.Requeued && r.State == batch.Queued)
			assert.Equal(t, wasFinal && r.State != batch.Committed, a.Breach, "%s, %s", name, f)
			assert.Equal(t, r.State, a.From)
		}
	}
}

func TestSubmittersFindings(t *testing.T) {
	want := map[store.Finding]batch.State{
		store.Accepted: batch.Pending, store.Doubtful: batch.Submitting, store.Failed: batch.Delayed, store.Refused: batch.Rejected,
		store.Unposted: batch.Queued,
	}
	rows := rowsByStanding(t)
	for f, state := range want {
		for _, name := range []string{"live", "expired"} { // while the row still has the claim's version
			r := rows[name]
			o := submitterOutcome(r, f)
			o.Back = batch.Queued
			assert.Equal(t, state, mustApply(t, r, o, testStart).State, f)
		}
		for name, r := range rows {
			if r.State == batch.Submitting {
				continue
			}
			_, a := r.Apply(submitterOutcome(r, f), testStart)
			assert.NotEqual(t, store.Written, a.Result, "%s, %s", name, f)
		}
	}
}

func TestUnposted(t *testing.T) {
	rows := rowsByStanding(t)
	for _, back := range batch.States() {
		r := rows["live again"]
		o := submitterOutcome(r, store.Unposted)
		o.Back = back
		next, a := r.Apply(o, testStart)
		if !back.Claimable() {
			assert.Equal(t, store.Bad, a.Result, back)
			assert.ErrorIs(t, a.Err, batch.ErrNotAllowed)
			continue
		}
		require.Equal(t, store.Written, a.Result)
		assert.Equal(t, back, next.State)
		assert.Equal(t, 1, next.DoubtAttempt, "an earlier doubt stays")
		assert.Zero(t, next.Resends, "nothing was sent")
		assert.Equal(t, rows["unknown"].LastPost, next.LastPost)
		assert.True(t, next.IsReady(testStart))
	}
	r := rows["live"]
	o := submitterOutcome(r, store.Unposted)
	o.Back = batch.Queued
	next := mustApply(t, r, o, testStart)
	assert.Equal(t, store.Row{
		State: batch.Queued, Version: 3, Attempt: 1, NextCheck: next.NextCheck, ClaimTTL: r.ClaimTTL, MovedAt: r.MovedAt,
	}, next)
}

func TestFailed(t *testing.T) {
	r := rowsByStanding(t)["live"]
	o := submitterOutcome(r, store.Failed)
	o.Delay, o.Spend, o.Error = time.Minute, true, &batch.SubmissionError{Kind: batch.KindBusy}
	next := mustApply(t, r, o, testStart)
	assert.Equal(t, testStart.Add(time.Minute), next.NotBefore)
	assert.Equal(t, 1, next.Spent)
	assert.Equal(t, 1, next.Failures)
	assert.Equal(t, o.Error, next.Error)
	assert.Zero(t, next.DoubtAttempt, "a certain failure resolves its own attempt")
	again := rowsByStanding(t)["delayed again"]
	assert.Equal(t, 1, again.DoubtAttempt, "and not an earlier one")
	assert.Zero(t, again.Resends)
	assert.Equal(t, testStart, again.DoubtSince)
	accepted := next.Claim(testStart, ttl, hourResend)
	assert.Zero(t, mustApply(t, accepted, submitterOutcome(accepted, store.Accepted), testStart).Failures, "acceptance ends the row of failures")
}

// An Invalid of a later attempt says nothing about the earlier attempt that is in doubt.
func TestInvalidOfALaterAttempt(t *testing.T) {
	r := rowsByStanding(t)["pending again"]
	o := monitorOutcome(r, store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid}
	o.Attempt = 2
	next := mustApply(t, r, o, testStart.Add(time.Second))
	assert.Equal(t, batch.Submitting, next.State)
	assert.True(t, next.Refused)
	assert.Equal(t, o.Error, next.Error)
	assert.True(t, next.Monitored(testStart.Add(time.Second)))
	o.Attempt = 0
	assert.Equal(t, batch.Invalid, mustApply(t, r, o, testStart).State, "it is about the batch as a whole")
	last := mustApply(t, next, monitorOutcome(next, store.NotCommitted), testStart.Add(time.Minute))
	assert.Equal(t, batch.Rejected, last.State, "once the doubt is resolved, the verdict stands")
	assert.Equal(t, o.Error, last.Error)
}

// A verdict that names another attempt does not end the present one, in any row. The exception is
// a row whose POSTs since the named attempt are known to have had no effect.
func TestInvalidOfAnotherAttempt(t *testing.T) {
	written := 0
	for name, r := range rowsByStanding(t) {
		for attempt := range 5 {
			o := monitorOutcome(r, store.IsInvalid)
			o.Attempt = attempt
			next, a := r.Apply(o, testStart.Add(time.Second))
			onlyOpen := attempt == r.DoubtAttempt && r.Resends == 0
			if attempt != 0 && attempt != r.Attempt && !onlyOpen {
				assert.NotEqual(t, store.Written, a.Result, "%s, attempt %d", name, attempt)
				assert.Equal(t, r, next, "%s, attempt %d", name, attempt)
			} else if a.Result == store.Written && attempt != 0 && attempt != r.Attempt {
				written++
				assert.Equal(t, "refused in doubt", name)
				assert.Equal(t, batch.Invalid, next.State)
			}
		}
	}
	assert.Equal(t, 1, written, "attempt 2 was refused at the door, and the verdict about attempt 1 ends the doubt")
}

// The endpoint that reported an attempt as under way counts for that attempt only.
func TestShown(t *testing.T) {
	r := rowsByStanding(t)["pending again"]
	ref, none := store.Ref{}, batch.Budget{}
	assert.Empty(t, r.InFlight(ref, none, testStart).Seen)
	o := monitorOutcome(r, store.IsPending)
	o.Endpoint, o.Check = "node", time.Minute
	r.Decision = "needs one"
	next := mustApply(t, r, o, testStart.Add(time.Hour))
	assert.Equal(t, "node", next.InFlight(ref, none, testStart).Seen)
	assert.Equal(t, r.LastPost, next.LastPost, "nothing was posted")
	assert.Equal(t, "needs one", next.Decision, "and nothing happened")
	assert.Equal(t, testStart.Add(time.Hour+time.Minute), next.NextCheck)
	lost := mustApply(t, next, monitorOutcome(next, store.NoTrace), testStart.Add(2*time.Hour))
	again := lost.Claim(testStart.Add(2*time.Hour), ttl, hourResend)
	assert.Empty(t, again.InFlight(ref, none, testStart).Seen, "that was another attempt")
	doubt := mustApply(t, again, submitterOutcome(again, store.Doubtful), testStart.Add(2*time.Hour))
	o = monitorOutcome(doubt, store.IsPending)
	o.Endpoint = "other"
	assert.Equal(t, "other", mustApply(t, doubt, o, testStart.Add(3*time.Hour)).InFlight(ref, none, testStart).Seen)
}

func TestSettling(t *testing.T) {
	r := rowsByStanding(t)["unsettled"]
	for _, c := range []struct {
		at   time.Time
		want store.Result
	}{{r.SettlesAt.Add(-1), store.Bad}, {r.SettlesAt, store.Written}} {
		next, a := r.Apply(monitorOutcome(r, store.Settled), c.at)
		assert.Equal(t, c.want, a.Result)
		assert.Equal(t, c.want == store.Written, next.Final())
	}
	assert.False(t, mustApply(t, r, monitorOutcome(r, store.IsPending), testStart).Final())
	assert.Zero(t, mustApply(t, r, monitorOutcome(r, store.IsPending), testStart).SettlesAt)
}

func TestNotCommittedForTheLastTime(t *testing.T) {
	r := rowsByStanding(t)["doubt"]
	o := monitorOutcome(r, store.NotCommitted)
	o.Last, o.Error = true, &batch.SubmissionError{Kind: batch.KindExhausted}
	next := mustApply(t, r, o, testStart.Add(time.Hour))
	assert.Equal(t, batch.Rejected, next.State)
	assert.Equal(t, o.Error, next.Error)
	assert.Equal(t, testStart.Add(time.Hour), next.FinalAt)
	assert.Equal(t, r.ClaimExpires, next.LastPost)
}

func TestUndecidable(t *testing.T) {
	r := rowsByStanding(t)["doubt"]
	o := monitorOutcome(r, store.Undecidable)
	assert.NotEmpty(t, mustApply(t, r, o, testStart).Decision)
	o.Error, o.Check = &batch.SubmissionError{Kind: batch.KindDoubt, Message: "no evidence"}, time.Minute
	next := mustApply(t, r, o, testStart)
	assert.Equal(t, "doubt: no evidence", next.Decision)
	assert.Equal(t, testStart.Add(time.Minute), next.NextCheck)
	assert.True(t, next.InFlight(store.Ref{}, batch.Budget{}, testStart).Undecided)
}

func TestCommitIsNeverFenced(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		if r.Live(testStart) {
			continue
		}
		for _, version := range []int64{0, r.Version - 1, r.Version + 1} {
			o := monitorOutcome(r, store.IsCommitted)
			o.Version = version
			next, a := r.Apply(o, testStart)
			assert.Equal(t, store.Written, a.Result, name)
			assert.Equal(t, batch.Committed, next.State, name)
			assert.Equal(t, name == "invalid" || name == "rejected" || name == "requeued", a.Breach, name)
			if name == "committed" {
				assert.Equal(t, r, next, "once is enough")
			}
		}
	}
}

func TestEverythingElseIsFenced(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		for _, f := range monitorAndSubmitterFindings {
			for _, version := range []int64{r.Version - 1, r.Version + 1} {
				o := monitorOutcome(r, f)
				o.Version = version
				if next, a := r.Apply(o, testStart); f != store.IsCommitted {
					assert.Equal(t, store.Fenced, a.Result, "%s, %s", name, f)
					assert.Equal(t, r, next)
				}
			}
		}
	}
}

func TestUnknownFindings(t *testing.T) {
	r := rowsByStanding(t)["pending"]
	for _, f := range []store.Finding{0, store.HasReceipts + 1, 255} {
		_, a := r.Apply(monitorOutcome(r, f), testStart)
		assert.Equal(t, store.Bad, a.Result)
		assert.ErrorIs(t, a.Err, batch.ErrNotAllowed)
		assert.Contains(t, f.String(), "finding(")
	}
	seen := map[string]bool{}
	for _, f := range monitorAndSubmitterFindings {
		assert.NotEmpty(t, f.String())
		assert.False(t, seen[f.String()], f)
		seen[f.String()] = true
	}
}
