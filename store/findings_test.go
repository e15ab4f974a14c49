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

var findings = []store.Finding{
	store.Accepted, store.Doubtful, store.Unposted, store.Failed, store.Refused,
	store.IsPending, store.IsValid, store.IsInvalid, store.IsCommitted, store.Settled, store.NoTrace, store.NotCommitted, store.IsVoid, store.Undecidable,
}

// byMonitor has the state after each finding of a monitor (columns), for each row of standings. p
// is pending, v valid, i invalid, c committed, d delayed, u unknown, r rejected, s submitting; -
// is the result Bad, f Fenced and h Held.
const byMonitor = `
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

var letters = map[string]batch.State{
	"p": batch.Pending, "v": batch.Valid, "i": batch.Invalid, "c": batch.Committed, "d": batch.Delayed,
	"u": batch.Unknown, "r": batch.Rejected, "s": batch.Submitting,
}

func TestMonitorsFindings(t *testing.T) {
	columns := []store.Finding{
		store.Failed, store.Refused, store.IsPending, store.IsValid, store.IsInvalid, store.IsCommitted, store.Settled,
		store.NoTrace, store.NotCommitted, store.IsVoid, store.Undecidable,
	}
	rows := standings(t)
	lines := strings.Split(strings.TrimSpace(byMonitor), "\n")[1:]
	require.Len(t, lines, len(rows))
	for _, line := range lines {
		cells := strings.Fields(line)
		name := strings.ReplaceAll(cells[0], "_", " ")
		r, ok := rows[name]
		require.True(t, ok, name)
		for i, want := range cells[1:] {
			f := columns[i]
			next, a := r.Apply(monitored(r, f), start.Add(time.Second))
			switch want {
			case "-", "f", "h":
				result := map[string]store.Result{"-": store.Bad, "f": store.Fenced, "h": store.Held}[want]
				assert.Equal(t, result, a.Result, "%s, %s: %v", name, f, a.Err)
				assert.Equal(t, want == "-", a.Err != nil, "%s, %s", name, f)
				assert.Equal(t, r, next, "%s, %s", name, f)
				continue
			}
			assert.Equal(t, store.Written, a.Result, "%s, %s: %v", name, f, a.Err)
			assert.Equal(t, letters[want], next.State, "%s, %s", name, f)
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
	rows := standings(t)
	for f, state := range want {
		for _, name := range []string{"live", "expired"} { // while the row still has the claim's version
			r := rows[name]
			o := submitted(r, f)
			o.Back = batch.Queued
			assert.Equal(t, state, must(t, r, o, start).State, f)
		}
		for name, r := range rows {
			if r.State == batch.Submitting {
				continue
			}
			_, a := r.Apply(submitted(r, f), start)
			assert.NotEqual(t, store.Written, a.Result, "%s, %s", name, f)
		}
	}
}

func TestUnposted(t *testing.T) {
	rows := standings(t)
	for _, back := range batch.States() {
		r := rows["live again"]
		o := submitted(r, store.Unposted)
		o.Back = back
		next, a := r.Apply(o, start)
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
		assert.True(t, next.Ready(start))
	}
	r := rows["live"]
	o := submitted(r, store.Unposted)
	o.Back = batch.Queued
	next := must(t, r, o, start)
	assert.Equal(t, store.Row{
		State: batch.Queued, Version: 3, Attempt: 1, NextCheck: next.NextCheck, ClaimTTL: r.ClaimTTL, MovedAt: r.MovedAt,
	}, next)
}

func TestFailed(t *testing.T) {
	r := standings(t)["live"]
	o := submitted(r, store.Failed)
	o.Delay, o.Spend, o.Error = time.Minute, true, &batch.SubmissionError{Kind: batch.KindBusy}
	next := must(t, r, o, start)
	assert.Equal(t, start.Add(time.Minute), next.NotBefore)
	assert.Equal(t, 1, next.Spent)
	assert.Equal(t, 1, next.Failures)
	assert.Equal(t, o.Error, next.Error)
	assert.Zero(t, next.DoubtAttempt, "a certain failure resolves its own attempt")
	again := standings(t)["delayed again"]
	assert.Equal(t, 1, again.DoubtAttempt, "and not an earlier one")
	assert.Zero(t, again.Resends)
	assert.Equal(t, start, again.DoubtSince)
	accepted := next.Claim(start, ttl, hour)
	assert.Zero(t, must(t, accepted, submitted(accepted, store.Accepted), start).Failures, "acceptance ends the row of failures")
}

// An Invalid of a later attempt says nothing about the earlier attempt that is in doubt.
func TestInvalidOfALaterAttempt(t *testing.T) {
	r := standings(t)["pending again"]
	o := monitored(r, store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid}
	o.Attempt = 2
	next := must(t, r, o, start.Add(time.Second))
	assert.Equal(t, batch.Submitting, next.State)
	assert.True(t, next.Refused)
	assert.Equal(t, o.Error, next.Error)
	assert.True(t, next.Monitored(start.Add(time.Second)))
	o.Attempt = 0
	assert.Equal(t, batch.Invalid, must(t, r, o, start).State, "it is about the batch as a whole")
	last := must(t, next, monitored(next, store.NotCommitted), start.Add(time.Minute))
	assert.Equal(t, batch.Rejected, last.State, "once the doubt is resolved, the verdict stands")
	assert.Equal(t, o.Error, last.Error)
}

// A verdict that names another attempt does not end the present one, in any row. The exception is
// a row whose POSTs since the named attempt are known to have had no effect.
func TestInvalidOfAnotherAttempt(t *testing.T) {
	written := 0
	for name, r := range standings(t) {
		for attempt := range 5 {
			o := monitored(r, store.IsInvalid)
			o.Attempt = attempt
			next, a := r.Apply(o, start.Add(time.Second))
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
	r := standings(t)["pending again"]
	ref, none := store.Ref{}, batch.Budget{}
	assert.Empty(t, r.InFlight(ref, none, start).Seen)
	o := monitored(r, store.IsPending)
	o.Endpoint, o.Check = "node", time.Minute
	r.Decision = "needs one"
	next := must(t, r, o, start.Add(time.Hour))
	assert.Equal(t, "node", next.InFlight(ref, none, start).Seen)
	assert.Equal(t, r.LastPost, next.LastPost, "nothing was posted")
	assert.Equal(t, "needs one", next.Decision, "and nothing happened")
	assert.Equal(t, start.Add(time.Hour+time.Minute), next.NextCheck)
	lost := must(t, next, monitored(next, store.NoTrace), start.Add(2*time.Hour))
	again := lost.Claim(start.Add(2*time.Hour), ttl, hour)
	assert.Empty(t, again.InFlight(ref, none, start).Seen, "that was another attempt")
	doubt := must(t, again, submitted(again, store.Doubtful), start.Add(2*time.Hour))
	o = monitored(doubt, store.IsPending)
	o.Endpoint = "other"
	assert.Equal(t, "other", must(t, doubt, o, start.Add(3*time.Hour)).InFlight(ref, none, start).Seen)
}

func TestSettling(t *testing.T) {
	r := standings(t)["unsettled"]
	for _, c := range []struct {
		at   time.Time
		want store.Result
	}{{r.SettlesAt.Add(-1), store.Bad}, {r.SettlesAt, store.Written}} {
		next, a := r.Apply(monitored(r, store.Settled), c.at)
		assert.Equal(t, c.want, a.Result)
		assert.Equal(t, c.want == store.Written, next.Final())
	}
	assert.False(t, must(t, r, monitored(r, store.IsPending), start).Final())
	assert.Zero(t, must(t, r, monitored(r, store.IsPending), start).SettlesAt)
}

func TestNotCommittedForTheLastTime(t *testing.T) {
	r := standings(t)["doubt"]
	o := monitored(r, store.NotCommitted)
	o.Last, o.Error = true, &batch.SubmissionError{Kind: batch.KindExhausted}
	next := must(t, r, o, start.Add(time.Hour))
	assert.Equal(t, batch.Rejected, next.State)
	assert.Equal(t, o.Error, next.Error)
	assert.Equal(t, start.Add(time.Hour), next.FinalAt)
	assert.Equal(t, r.ClaimExpires, next.LastPost)
}

func TestUndecidable(t *testing.T) {
	r := standings(t)["doubt"]
	o := monitored(r, store.Undecidable)
	assert.NotEmpty(t, must(t, r, o, start).Decision)
	o.Error, o.Check = &batch.SubmissionError{Kind: batch.KindDoubt, Message: "no evidence"}, time.Minute
	next := must(t, r, o, start)
	assert.Equal(t, "doubt: no evidence", next.Decision)
	assert.Equal(t, start.Add(time.Minute), next.NextCheck)
	assert.True(t, next.InFlight(store.Ref{}, batch.Budget{}, start).Undecided)
}

func TestCommitIsNeverFenced(t *testing.T) {
	for name, r := range standings(t) {
		if r.Live(start) {
			continue
		}
		for _, version := range []int64{0, r.Version - 1, r.Version + 1} {
			o := monitored(r, store.IsCommitted)
			o.Version = version
			next, a := r.Apply(o, start)
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
	for name, r := range standings(t) {
		for _, f := range findings {
			for _, version := range []int64{r.Version - 1, r.Version + 1} {
				o := monitored(r, f)
				o.Version = version
				if next, a := r.Apply(o, start); f != store.IsCommitted {
					assert.Equal(t, store.Fenced, a.Result, "%s, %s", name, f)
					assert.Equal(t, r, next)
				}
			}
		}
	}
}

func TestUnknownFindings(t *testing.T) {
	r := standings(t)["pending"]
	for _, f := range []store.Finding{0, store.HasReceipts + 1, 255} {
		_, a := r.Apply(monitored(r, f), start)
		assert.Equal(t, store.Bad, a.Result)
		assert.ErrorIs(t, a.Err, batch.ErrNotAllowed)
		assert.Contains(t, f.String(), "finding(")
	}
	seen := map[string]bool{}
	for _, f := range findings {
		assert.NotEmpty(t, f.String())
		assert.False(t, seen[f.String()], f)
		seen[f.String()] = true
	}
}
