package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// DeadlineOf follows the rule of docs/design.md#deadlines.
func TestDeadlineOf(t *testing.T) {
	const gap = store.LookGap
	for name, c := range map[string]struct {
		sinceMoved, sinceLooked, after time.Duration
		want                           store.Deadline
	}{
		"young":                     {time.Hour, 0, time.Hour, store.DeadlineNotReached},
		"late":                      {time.Hour + 1, 0, time.Hour, store.DeadlineReached},
		"never":                     {1000 * time.Hour, 0, 0, store.DeadlineNotReached},
		"nobody looked, and young":  {time.Hour, time.Hour, time.Hour, store.DeadlineNotReached},
		"nobody looked for a while": {time.Hour + 1, gap, time.Hour, store.DeadlineReached},
		"nobody looked for long":    {time.Hour + 1, gap + 1, time.Hour, store.DeadlinePutOff},
		"a short deadline, and nobody looked for it": {5 * time.Second, 5 * time.Second, 4 * time.Second, store.DeadlineReached},
		"the clock stepped back a little":            {-gap, 0, time.Hour, store.DeadlineNotReached},
		"the clock stepped back":                     {-gap - 1, 0, time.Hour, store.DeadlinePutOff},
		"the clock stepped back, and nobody is ever": {-gap - 1, 0, 0, store.DeadlineNotReached},
	} {
		assert.Equal(t, c.want, store.DeadlineOf(c.sinceMoved, c.sinceLooked, c.after), name)
	}
}

// stuckAfter is the deadline of these tests.
const stuckAfter = time.Hour

// A loop of attempts that never succeed calls a person exactly once, StuckAfter after the first
// claim, whatever outcomes the loop consists of. Only the first acceptance and a person's act
// begin the count anew.
func TestALoopOfAttemptsCallsOnce(t *testing.T) {
	kinds := map[string]func(r store.Row) []store.Outcome{
		"busy":        func(r store.Row) []store.Outcome { return []store.Outcome{failedOutcome(r, batch.KindBusy)} },
		"unavailable": func(r store.Row) []store.Outcome { return []store.Outcome{failedOutcome(r, batch.KindUnavailable)} },
		"refused this client": func(r store.Row) []store.Outcome {
			return []store.Outcome{failedOutcome(r, batch.KindMisconfigured)}
		},
		"not yet":              func(r store.Row) []store.Outcome { return []store.Outcome{failedOutcome(r, batch.KindNotYet)} },
		"in doubt, no trace":   func(r store.Row) []store.Outcome { return outcomes(r, store.Doubtful, store.NoTrace) },
		"in doubt, proved":     func(r store.Row) []store.Outcome { return outcomes(r, store.Doubtful, store.NotCommitted) },
		"in doubt, void":       func(r store.Row) []store.Outcome { return outcomes(r, store.Doubtful, store.IsVoid) },
		"taken, and forgotten": func(r store.Row) []store.Outcome { return outcomes(r, store.Accepted, store.NoTrace) },
		"executed, and taken back": func(r store.Row) []store.Outcome {
			return outcomes(r, store.Accepted, store.IsValid, store.IsPending, store.NotCommitted)
		},
		"taken, and failed": func(r store.Row) []store.Outcome { return outcomes(r, store.Accepted, store.Failed) },
		"decided against, and executed again": func(r store.Row) []store.Outcome {
			return outcomes(r, store.Accepted, store.IsInvalid, store.IsValid, store.IsInvalid, store.IsPending, store.NotCommitted)
		},
	}
	for name, loop := range kinds {
		t.Run(name, func(t *testing.T) {
			now, row := testStart, store.NewRow()
			var calls []time.Duration
			ever := store.Resend{HarmlessFor: 1000 * time.Hour}
			for now.Sub(testStart) < 5*time.Hour {
				row = row.WithWaitPutOff(now, stuckAfter).Claim(now, ttl, ever)
				for i, o := range loop(row) {
					now = now.Add(time.Second)
					o.Version, o.StuckAfter, o.Settle = row.Version, stuckAfter, time.Minute
					if i == 0 && o.By == batch.BySubmitter && o.Finding != store.Failed {
						o.StuckAfter = 0 // submitter.Judge sets StuckAfter only with a Failed
					}
					next, a := row.Apply(o, now)
					require.Equal(t, store.Written, a.Result, "%s: %v", o.Finding, a.Err)
					if row = next; a.Stuck {
						calls = append(calls, now.Sub(testStart))
						assert.NotEmpty(t, row.Decision)
					}
				}
				now = now.Add(20 * time.Second)
			}
			require.Len(t, calls, 1)
			assert.Greater(t, calls[0], stuckAfter)
			assert.LessOrEqual(t, calls[0], stuckAfter+30*time.Second)
			require.True(t, row.Called(), "and shows it as long as that lasts")
			assert.LessOrEqual(t, len(row.Decision), 2*batch.MaxErrorText)
		})
	}
}

func failedOutcome(r store.Row, kind batch.ErrorKind) store.Outcome {
	o := submitterOutcome(r, store.Failed)
	o.Error = &batch.SubmissionError{Kind: kind}
	return o
}

// outcomes returns the submitter's finding about an attempt, and the findings of the monitor after
// it.
func outcomes(r store.Row, submitter store.Finding, monitor ...store.Finding) []store.Outcome {
	all := []store.Outcome{submitterOutcome(r, submitter)}
	for _, f := range monitor {
		all = append(all, monitorOutcome(r, f))
	}
	return all
}

// The first acceptance and a person's act begin the deadline anew. A claim after a long time in
// which nobody could claim leaves ten minutes.
func TestWhatBeginsTheDeadlineAnew(t *testing.T) {
	ever := store.Resend{HarmlessFor: 1000 * time.Hour}
	at := func(m int) time.Time { return testStart.Add(time.Duration(m) * time.Minute) }
	late := func(r store.Row, o store.Outcome, m int) bool {
		o.Version, o.StuckAfter = r.Version, stuckAfter
		_, a := r.Apply(o, at(m))
		require.Equal(t, store.Written, a.Result)
		return a.Stuck
	}
	r := store.NewRow().Claim(testStart, ttl, ever)
	r = mustApply(t, r, failedOutcome(r, batch.KindUnavailable), at(0))
	r = r.Claim(at(55), ttl, ever)
	require.True(t, late(r, failedOutcome(r, batch.KindUnavailable), 61))
	accepted := mustApply(t, r, submitterOutcome(r, store.Accepted), at(56))
	assert.False(t, late(accepted, monitorOutcome(accepted, store.NoTrace), 116), "since its first acceptance")
	assert.True(t, late(accepted, monitorOutcome(accepted, store.NoTrace), 117))
	again := mustApply(t, accepted, monitorOutcome(accepted, store.NoTrace), at(57)).Claim(at(100), ttl, ever)
	again = mustApply(t, again, submitterOutcome(again, store.Accepted), at(101))
	assert.True(t, late(again, monitorOutcome(again, store.NoTrace), 117), "a second acceptance is no move")

	called := mustApply(t, again, monitorOutcome(again, store.Undecidable), at(120))
	decided, err := called.Decide(at(130), batch.NotExecutedSendAgain, "it is nowhere")
	require.NoError(t, err)
	assert.False(t, decided.Called())
	decided = decided.Claim(at(200), ttl, ever)
	decided = mustApply(t, decided, failedOutcome(decided, batch.KindBusy), at(200)).Claim(at(205), ttl, ever)
	assert.False(t, late(decided, failedOutcome(decided, batch.KindBusy), 260), "since the claim after the decision")
	assert.True(t, late(decided, failedOutcome(decided, batch.KindBusy), 261))

	paused := mustApply(t, r, failedOutcome(r, batch.KindUnavailable), at(56)).WithWaitPutOff(at(600), stuckAfter).Claim(at(600), ttl, ever)
	assert.False(t, late(paused, failedOutcome(paused, batch.KindUnavailable), 610), "its lane was paused")
	assert.True(t, late(paused, failedOutcome(paused, batch.KindUnavailable), 611))
}
