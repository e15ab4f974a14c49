package monitor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// waitingCases has verdicts of all kinds that leave a batch as it is, or send it again.
var waitingCases = map[string]struct {
	inFlight store.InFlight
	known    monitor.Known
	change   func(*dlt.Traits, *monitor.Rules)
}{
	"no answer":                    {inFlight: store.InFlight{State: batch.Pending}},
	"no answer, in doubt":          {inFlight: store.InFlight{State: batch.Submitting}},
	"goes on pending":              {inFlight: store.InFlight{State: batch.Pending}, known: monitor.Known{Status: status(batch.ReportedPending)}},
	"goes on valid":                {inFlight: store.InFlight{State: batch.Valid}, known: monitor.Known{Status: status(batch.ReportedValid)}},
	"taken back":                   {inFlight: store.InFlight{State: batch.Valid}, known: monitor.Known{Status: status(batch.ReportedPending)}},
	"a word of its own":            {inFlight: store.InFlight{State: batch.Pending}, known: monitor.Known{Status: status(unknownWord)}},
	"of another attempt":           {inFlight: store.InFlight{State: batch.Pending, Attempt: 1}, known: monitor.Known{Status: &batch.Status{Reported: batch.ReportedFailed, Attempt: 9}}},
	"lost, and may arrive":         {inFlight: store.InFlight{State: batch.Submitting, PostedAgo: lateArrival - 1}, known: monitor.Known{Status: status(batch.ReportedUnknown)}},
	"lost, and within the grace":   {inFlight: store.InFlight{State: batch.Pending, PostedAgo: grace - 1}, known: monitor.Known{Status: status(batch.ReportedUnknown), Seen: stuckAfter}},
	"lost, and sent again":         {inFlight: store.InFlight{State: batch.Submitting, PostedAgo: grace, ResendLeft: dlt.Forever}, known: monitor.Known{Status: status(batch.ReportedUnknown), Seen: stuckAfter}},
	"lost, and the resend waits":   {inFlight: store.InFlight{State: batch.Submitting, PostedAgo: grace, Resends: 1, ResendLeft: dlt.Forever}, known: monitor.Known{Status: status(batch.ReportedUnknown), Seen: stuckAfter}},
	"still in flight":              {inFlight: store.InFlight{State: batch.Submitting}, known: monitor.Known{Status: status(batch.ReportedUnknown), Evidence: evidence(dlt.InFlight)}},
	"not committed, again":         {inFlight: store.InFlight{State: batch.Submitting}, known: monitor.Known{Status: status(batch.ReportedUnknown), Evidence: evidence(dlt.NotCommitted)}},
	"void, again":                  {inFlight: store.InFlight{State: batch.Submitting}, known: monitor.Known{Status: status(batch.ReportedVoid)}},
	"failed, again":                {inFlight: store.InFlight{State: batch.Pending, Attempt: 3, DoubtAttempt: 3}, known: monitor.Known{Status: status(batch.ReportedFailed)}},
	"stalled":                      {inFlight: store.InFlight{State: batch.Pending}, known: monitor.Known{Status: status(batch.ReportedStalled)}},
	"stalled, and sent again":      {inFlight: store.InFlight{State: batch.Pending, PostedAgo: resendQuiet, ResendLeft: dlt.Forever}, known: monitor.Known{Status: status(batch.ReportedStalled), Seen: stuckAfter}},
	"invalid, and executed again":  {inFlight: store.InFlight{State: batch.Invalid}, known: monitor.Known{Status: status(batch.ReportedValid)}},
	"invalid, and not settled":     {inFlight: store.InFlight{State: batch.Invalid, SettleLeft: time.Minute}, known: monitor.Known{Status: status(batch.ReportedInvalid)}},
	"invalid of before a requeue":  {inFlight: store.InFlight{State: batch.Pending, Requeued: true}, known: monitor.Known{Status: status(batch.ReportedInvalid)}},
	"invalid of an earlier one":    {inFlight: store.InFlight{State: batch.Submitting, Attempt: 2, DoubtAttempt: 1}, known: monitor.Known{Status: status(batch.ReportedInvalid)}},
	"shown by a node once more":    {inFlight: store.InFlight{State: batch.Pending, Resends: 1, Attempt: 2}, known: monitor.Known{Status: &batch.Status{Reported: batch.ReportedPending, Endpoint: "node"}}},
	"waits for its whole claim":    {inFlight: store.InFlight{State: batch.Submitting, PostedAgo: grace}, known: monitor.Known{Status: status(batch.ReportedUnknown), Seen: grace}},
	"decided beforehand to resend": {inFlight: store.InFlight{State: batch.Submitting}, known: monitor.Known{Status: status(batch.ReportedUnknown), Evidence: evidence(dlt.CannotTell)}, change: func(_ *dlt.Traits, r *monitor.Rules) { r.AssumeNotCommitted = true }},
}

// Promise 6: whatever the ledger answers, and whatever else is decided, a batch that has not moved
// for StuckAfter calls a person once, with a cause.
func TestDecideCallsAPersonAfterTheDeadline(t *testing.T) {
	for name, c := range waitingCases {
		t.Run(name, func(t *testing.T) {
			tr, r := ledgerTraits, rules
			if c.change != nil {
				c.change(&tr, &r)
			}
			now := time.Unix(1_000_000, 0)
			row := store.Row{
				State: c.inFlight.State, Version: 8, Attempt: max(c.inFlight.Attempt, 1), DoubtAttempt: max(c.inFlight.DoubtAttempt, 1), Resends: c.inFlight.Resends,
				DoubtSince: now.Add(-c.inFlight.PostedAgo - claimTTL), ResendUntil: now.Add(c.inFlight.ResendLeft), LastPost: now.Add(-c.inFlight.PostedAgo),
				SettlesAt: now.Add(c.inFlight.SettleLeft), Requeued: c.inFlight.Requeued,
			}
			if c.inFlight.State == batch.Submitting {
				row.ClaimExpires = row.LastPost
			}
			if name == "waits for its whole claim" { // the end of the claim was not recorded
				row.LastPost = time.Time{}
			}
			say := func(moved time.Duration, asked time.Duration) (store.Row, store.Applied, monitor.Verdict) {
				row.MovedAt = now.Add(-moved)
				f := row.InFlight(store.Ref{Key: batch.Key{ID: "b"}}, batch.Budget{}, now)
				f.AskedAgo = asked
				v := monitor.Decide(f, c.known, tr, r)
				if v.Outcome == nil {
					return row, store.Applied{Row: row}, v
				}
				next, a := row.Apply(*v.Outcome, now)
				require.Equal(t, store.Written, a.Result, "%v", a.Err)
				return next, a, v
			}
			_, a, before := say(stuckAfter, 0)
			assert.False(t, a.Stuck, "in time")
			called, a, v := say(stuckAfter+1, 0)
			require.True(t, a.Stuck, "late")
			assert.NotEmpty(t, called.Decision)
			if before.Outcome == nil {
				assert.Equal(t, store.Undecidable, v.Outcome.Finding)
			} else {
				assert.Equal(t, before.Outcome.Finding, v.Outcome.Finding, "and is done all the same")
				assert.Equal(t, before.Outcome.Finding != store.IsInvalid, !called.Undecided() || called.State == batch.Invalid)
			}
			_, a, v = say(stuckAfter+1, store.LookGap+1)
			assert.False(t, a.Stuck, "nobody could look at it for long")
			require.NotNil(t, v.Outcome)
			assert.Equal(t, store.PutOff, v.Outcome.Finding)
			row.Decision = called.Decision
			for _, moved := range []time.Duration{stuckAfter + 1, 1000 * stuckAfter} {
				_, a, _ = say(moved, 0)
				assert.False(t, a.Stuck, "once")
			}
		})
	}
}

// After a stop that lasted longer than StuckAfter, a ledger that does not answer gets ten minutes,
// because it may start a little later than the service. The row keeps that time, so a process that
// is started again and again calls a person, too.
func TestTheDeadlineAfterALongStop(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	row := store.Row{State: batch.Pending, Version: 8, Attempt: 1, DoubtAttempt: 1, MovedAt: now.Add(-100 * stuckAfter), LastPost: now.Add(-100 * stuckAfter), AskedAt: now.Add(-99 * stuckAfter)}
	look := func() (stuck bool) {
		asked := row.AskedAt
		row = row.Leased(now, time.Second)
		f := row.InFlight(store.Ref{}, batch.Budget{}, now)
		f.AskedAgo = row.AskedAgo(asked, now)
		v := monitor.Decide(f, monitor.Known{}, ledgerTraits, rules) // the first look of a new process each time
		if v.Outcome == nil {
			return false
		}
		next, a := row.Apply(*v.Outcome, now)
		require.Equal(t, store.Written, a.Result)
		row = next
		return a.Stuck
	}
	begin := now
	for !look() {
		now = now.Add(time.Second)
		require.Less(t, now.Sub(begin), time.Hour)
	}
	assert.Equal(t, 10*time.Minute+time.Second, now.Sub(begin))
	for range 1000 {
		now = now.Add(time.Minute)
		require.False(t, look(), "once")
	}
}

// If a clock was ahead when the batch moved, the deadline does not come later by that much.
func TestTheDeadlineAfterAClockThatWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, 7 * 24 * time.Hour, 365 * 24 * time.Hour} {
		now := time.Unix(1_000_000, 0)
		row := store.Row{State: batch.Pending, Version: 8, Attempt: 1, DoubtAttempt: 1, MovedAt: now.Add(ahead), LastPost: now.Add(ahead), AskedAt: now.Add(ahead)}
		begin := now
		for !row.Called() {
			row = row.Leased(now, time.Second)
			f := row.InFlight(store.Ref{}, batch.Budget{}, now)
			if v := monitor.Decide(f, monitor.Known{Status: status(batch.ReportedPending)}, ledgerTraits, rules); v.Outcome != nil {
				row, _ = row.Apply(*v.Outcome, now)
			}
			now = now.Add(time.Second)
			require.Less(t, now.Sub(begin), 3*time.Hour, "%s ahead", ahead)
		}
		assert.LessOrEqual(t, now.Sub(begin), stuckAfter+ahead%(20*time.Minute)+2*time.Second, "%s ahead", ahead)
	}
}
