package operator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/operator"
)

// timelineLines writes the steps of a timeline in short: seconds since the batch was added, tone
// and title.
func timelineLines(steps []operator.Step) (lines []string) {
	for _, s := range steps {
		at := "?"
		if !s.At.IsZero() {
			at = fmt.Sprint(s.At.Sub(time.Unix(1000, 0)).Seconds())
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", at, s.Tone, s.Title))
	}
	return lines
}

func TestTimeline(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0).UTC() }
	added := batch.Record{Key: batch.Key{Service: "s", ID: "a"}, State: batch.Queued, CreatedAt: at(0)}
	with := func(change func(*batch.Record)) batch.Record {
		r := added
		change(&r)
		return r
	}
	for _, c := range []struct {
		name    string
		rec     batch.Record
		reports []batch.Report
		acts    []batch.Act
		want    []string
	}{
		{name: "just added", rec: added, want: []string{"0 plain: Added"}},
		{
			name: "under way for the first time",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.ClaimExpires, r.ResendUntil = batch.Submitting, 1, at(90), at(130), at(90)
			}),
			want: []string{"0 plain: Added", "90 plain: Claimed for attempt 1, which is under way", "130 plain: The claim ends, and anybody may ask the ledger"},
		},
		{
			name: "the ledger has it",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.LastPost = batch.Pending, 1, at(10), at(11)
			}),
			want: []string{"0 plain: Added", "10 plain: Claimed for an attempt", "11 plain: Attempt 1 was sent"},
		},
		{
			name: "the ledger has executed it",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.LastPost = batch.Valid, 1, at(10), at(11)
			}),
			want: []string{"0 plain: Added", "10 plain: Claimed for an attempt", "11 plain: Attempt 1 was sent"},
		},
		{
			name: "refused, and reported a moment later",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.FinalAt = batch.Rejected, 1, at(11)
			}),
			reports: []batch.Report{{Attempt: 1, At: at(11).Add(250 * time.Millisecond), Kind: batch.KindRejected}},
			want:    []string{"0 plain: Added", "11.25 bad: Attempt 1: refused for good", "11.25 bad: Rejected"},
		},
		{
			name: "committed at once",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.LastPost, r.FinalAt = batch.Committed, 1, at(11), at(12)
			}),
			want: []string{"0 plain: Added", "11 plain: Attempt 1 was sent", "12 good: Committed"},
		},
		{
			name: "in doubt, sent again, and a person is called",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.LastPost, r.Decision = batch.Unknown, 9, at(10), at(60), "nobody knows"
				r.NotBefore, r.ResendUntil = at(160), at(170)
			}),
			reports: []batch.Report{
				{Attempt: 1, At: at(9), Kind: batch.KindBusy}, {Attempt: 2, At: at(20), Kind: batch.KindDoubt},
				{Attempt: 2, At: at(25), Kind: batch.KindDoubt},
				{Attempt: 3, At: at(30), Kind: batch.KindUnavailable}, {Attempt: 9, At: at(61), Kind: batch.KindDoubt},
			},
			want: []string{
				"0 plain: Added", "9 wait: Attempt 1: the ledger is busy", "10 doubt: Claimed for the attempt that is in doubt",
				"20 doubt: Attempt 2: the outcome is not known",
				"25 doubt: The ledger was asked about attempt 2: the outcome is not known", "30 wait: Sent again, attempt 3: the ledger was not reached",
				"? plain: Attempts 4 to 8: no report is kept", "61 doubt: Attempt 9: the outcome is not known", "100 person: A person has to decide",
				"160 plain: It may be sent again", "170 plain: Until then a resend is harmless",
			},
		},
		{
			name: "a resend is harmless for ever, so that no end of that is due",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.NotBefore, r.ResendUntil = batch.Delayed, 1, at(160), at(10).Add(dlt.Forever)
			}),
			want: []string{"0 plain: Added", "160 plain: It may be sent again"},
		},
		{
			name: "nobody knows whether the second attempt was sent",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.LastPost = batch.Unknown, 2, at(30), at(20)
			}),
			reports: []batch.Report{{Attempt: 1, At: at(20), Kind: batch.KindBusy}},
			want: []string{
				"0 plain: Added", "20 wait: Attempt 1: the ledger is busy", "30 doubt: Claimed for the attempt that is in doubt",
				"? doubt: Attempt 2 may have been sent",
			},
		},
		{
			name: "the first attempt was cut off",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.DoubtSince, r.LastPost = batch.Unknown, 1, at(30), at(40)
			}),
			want: []string{"0 plain: Added", "30 doubt: Claimed for the attempt that is in doubt", "40 doubt: Attempt 1 may have been sent"},
		},
		{
			name: "the time of the last POST is that of an attempt that was reported",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.LastPost = batch.Queued, 2, at(20)
			}),
			reports: []batch.Report{{Attempt: 1, At: at(20), Kind: batch.KindFailed}},
			want:    []string{"0 plain: Added", "20 wait: Attempt 1: it had no effect"},
		},
		{
			name: "refused, put back, and cancelled",
			rec: with(func(r *batch.Record) {
				r.State, r.Attempt, r.LastPost, r.FinalAt = batch.Rejected, 1, at(10), at(40)
				r.Error = &batch.SubmissionError{Kind: batch.KindCancelled, Message: "wrong"}
			}),
			reports: []batch.Report{{Attempt: 1, At: at(11), Kind: batch.KindRejected}},
			acts: []batch.Act{
				{By: batch.By{Actor: "maria"}, Action: batch.ActionRequeue, At: at(30), From: batch.Rejected, To: batch.Queued},
				{By: batch.By{Actor: "maria"}, Action: batch.ActionCancel, At: at(40), From: batch.Queued, To: batch.Rejected},
			},
			want: []string{
				"0 plain: Added", "11 bad: Attempt 1: refused for good", "30 person: Put back into its lane: rejected to queued",
				"40 person: Cancelled: queued to rejected",
			},
		},
		{
			name: "set aside, acquitted, removed",
			rec: with(func(r *batch.Record) {
				r.State, r.FinalAt, r.PrunedAt, r.Quarantined = batch.Invalid, at(40), at(90), true
			}),
			acts: []batch.Act{{By: batch.By{Actor: "maria"}, Action: batch.ActionAcquit, At: at(50), From: batch.Invalid, To: batch.Invalid}},
			want: []string{
				"0 plain: Added", "40 bad: Invalid: the ledger decided against it, and set aside by the policy of its lane",
				"50 person: Quarantine ended", "90 plain: Removed by retention",
			},
		},
	} {
		assert.Equal(t, c.want, timelineLines(operator.Timeline(c.rec, c.reports, c.acts, at(100))), c.name)
	}
	s := operator.Step{By: "i1", Endpoint: "http://node1", StatusCode: 503, Code: -5, Took: 1234567}
	assert.Equal(t, "by i1, at http://node1, HTTP 503, code -5, in 1 ms", s.Origin())
}
