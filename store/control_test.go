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

var byAnn = batch.By{Actor: "ann", Reason: "because"}

func TestSteer(t *testing.T) {
	now := testStart.Add(time.Hour)
	lane := batch.Only("s")
	all := batch.Control{
		Scope: lane, PausedAt: testStart, PausedBy: batch.By{Actor: "bob"}, Policy: batch.PolicyHalt, HaltedAt: testStart, HaltedBy: "bad",
	}
	for _, c := range []struct {
		action    batch.Action
		policy    batch.Policy
		before    batch.Control
		want      func(c *batch.Control, a *batch.Act)
		isChanged bool
	}{
		{batch.ActionPause, 0, batch.Control{}, func(c *batch.Control, _ *batch.Act) { c.PausedAt, c.PausedBy = now, byAnn }, true},
		{batch.ActionPause, 0, all, func(*batch.Control, *batch.Act) {}, false},
		{batch.ActionResume, 0, batch.Control{}, func(*batch.Control, *batch.Act) {}, false},
		{batch.ActionResume, 0, all, func(c *batch.Control, _ *batch.Act) { c.PausedAt, c.PausedBy = time.Time{}, batch.By{} }, true},
		{batch.ActionSetPolicy, batch.PolicyQuarantine, all, func(c *batch.Control, a *batch.Act) {
			c.Policy, a.Policy = batch.PolicyQuarantine, batch.PolicyQuarantine
		}, true},
		{batch.ActionSetPolicy, batch.PolicyDefault, all, func(c *batch.Control, _ *batch.Act) { c.Policy = 0 }, true},
		{batch.ActionSetPolicy, batch.PolicyHalt, all, func(_ *batch.Control, a *batch.Act) { a.Policy = batch.PolicyHalt }, false},
		{batch.ActionRelease, 0, batch.Control{}, func(*batch.Control, *batch.Act) {}, false},
		{batch.ActionRelease, 0, all, func(c *batch.Control, a *batch.Act) {
			c.HaltedAt, c.HaltedBy, a.Batch = time.Time{}, "", "bad"
		}, true},
	} {
		s := store.Steering{Scope: lane, Action: c.action, Policy: c.policy, By: byAnn, Seen: c.before.Version}
		require.NoError(t, s.Validate())
		next, act, changed, err := s.Apply(c.before, now)
		require.NoError(t, err)
		want, wantAct := c.before, batch.Act{Action: c.action, By: byAnn, At: now, Scope: lane}
		want.Scope = lane
		if c.isChanged {
			want.Version = now.UnixMicro()
		}
		c.want(&want, &wantAct)
		assert.Equal(t, want, next, c.action)
		assert.Equal(t, wantAct, act, c.action)
		assert.Equal(t, c.isChanged, changed, c.action)
	}
	// A move resumes only its own pause. So a pause by anybody else replaces the pause of the
	// move.
	mover := batch.By{Actor: store.MoveActor, Reason: "move m"}
	for _, c := range []struct {
		was, by   batch.By
		isChanged bool
	}{{mover, byAnn, true}, {mover, mover, false}, {byAnn, mover, false}} {
		before := batch.Control{Scope: batch.Everything(), PausedAt: testStart, PausedBy: c.was, Version: testStart.UnixMicro()}
		next, _, changed, err := store.Steering{Scope: before.Scope, Action: batch.ActionPause, By: c.by}.Apply(before, now)
		require.NoError(t, err)
		assert.Equal(t, c.isChanged, changed)
		assert.Equal(t, c.isChanged, next.PausedBy != c.was)
		assert.Equal(t, c.isChanged, next.Version > before.Version, "the move does not resume what it has not seen")
	}
	for _, step := range []time.Duration{0, time.Microsecond, -time.Hour} {
		c := batch.Control{Scope: lane, Version: now.UnixMicro()}
		next, _, _, err := store.Steering{Scope: lane, Action: batch.ActionPause, By: byAnn}.Apply(c, now.Add(step))
		require.NoError(t, err)
		assert.Equal(t, now.UnixMicro()+1, next.Version, "whatever the clock does")
	}
	_, act, _, err := store.Steering{Action: batch.ActionPause, By: batch.By{Actor: "ann", Reason: "a\x00" + strings.Repeat("x", 9999)}}.Apply(batch.Control{}, now)
	require.NoError(t, err)
	assert.Equal(t, "a\ufffdxx", act.Reason[:len("a\ufffdxx")])
	assert.Len(t, act.Reason, batch.MaxErrorText)
}

// Every action other than a pause applies only to the version that the operator saw.
func TestSteerIsFenced(t *testing.T) {
	lane, now := batch.Only("s"), testStart.Add(time.Hour)
	c := batch.Control{Scope: lane, PausedAt: testStart, PausedBy: byAnn, Policy: batch.PolicyHalt, HaltedAt: testStart, HaltedBy: "bad", Version: 7}
	for action, fenced := range map[batch.Action]bool{
		batch.ActionPause: false, batch.ActionResume: true, batch.ActionSetPolicy: true, batch.ActionRelease: true,
	} {
		for _, seen := range []int64{0, 6, 7, 8} {
			next, _, changed, err := store.Steering{Scope: lane, Action: action, By: byAnn, Seen: seen}.Apply(c, now)
			if !fenced || seen == c.Version {
				require.NoError(t, err, "%s, %d", action, seen)
				continue
			}
			var movedOnErr *batch.MovedOnError
			require.ErrorAs(t, err, &movedOnErr, "%s, %d", action, seen)
			require.ErrorIs(t, err, batch.ErrMovedOn)
			assert.Equal(t, batch.MovedOnError{Seen: seen, Control: c}, *movedOnErr)
			assert.Contains(t, err.Error(), `service "s" is at version 7`)
			assert.False(t, changed)
			assert.Equal(t, c, next)
		}
	}
}

// Only a finding that ends a batch as Invalid or Rejected has a consequence for the lane. The test
// applies every finding to every row under every policy.
func TestEnforce(t *testing.T) {
	now := testStart.Add(time.Second)
	ended := 0
	for name, r := range rowsByStanding(t) {
		for f := store.Accepted; f <= store.Undecidable; f++ {
			for _, o := range []store.Outcome{monitorOutcome(r, f), submitterOutcome(r, f)} {
				o.Back = batch.Queued
				_, a := r.Apply(o, now)
				bad := a.Result == store.Written && !r.Final() && a.Row.Final() && a.Row.State != batch.Committed
				require.Equal(t, bad, a.Ended(), "%s, %s", name, f)
				if bad {
					ended++
				}
				for set := batch.PolicyDefault; set <= batch.PolicyQuarantine; set++ {
					for by := batch.PolicyDefault; by <= batch.PolicyQuarantine; by++ {
						policy := set
						if set == batch.PolicyDefault {
							policy = by
						}
						lane := batch.Control{Scope: batch.Only(testKey.Service), Policy: set}
						got, c := a.Enforce(lane, by, now)
						want, wantLane := a, lane
						if bad && policy == batch.PolicyHalt {
							want.Halted, wantLane.HaltedAt, wantLane.HaltedBy = true, now, testKey.ID
							wantLane.Version = now.UnixMicro()
						}
						want.Row.Quarantined = bad && policy == batch.PolicyQuarantine
						require.Equal(t, want, got, "%s, %s, %s over %s", name, f, set, by)
						require.Equal(t, wantLane, c, "%s, %s, %s over %s", name, f, set, by)
						again, c := got.Enforce(batch.Control{HaltedAt: testStart, HaltedBy: "first"}, batch.PolicyHalt, now)
						require.Equal(t, bad, again.Halted)
						require.Equal(t, batch.ID("first"), c.HaltedBy)
					}
				}
			}
		}
	}
	assert.Greater(t, ended, 15)
}

func TestAcquit(t *testing.T) {
	requireAllowedFor(t, store.Row.Acquit, "", "")
	r := rowsByStanding(t)["rejected"]
	r.Quarantined = true
	next, err := r.Acquit()
	require.NoError(t, err)
	assert.Equal(t, r.Version+1, next.Version)
	next.Version, next.Quarantined = r.Version, true
	assert.Equal(t, r, next)

	back, err := r.Requeue(testStart, store.Requeue{})
	require.NoError(t, err)
	assert.False(t, back.Quarantined)
	late, a := r.Apply(monitorOutcome(r, store.IsCommitted), testStart)
	require.Equal(t, store.Written, a.Result)
	assert.False(t, late.Quarantined)
}

func TestBatchAct(t *testing.T) {
	was := rowsByStanding(t)["rejected"]
	next, err := was.Requeue(testStart, store.Requeue{})
	require.NoError(t, err)
	asked := batch.Act{Action: batch.ActionRequeue, By: batch.By{Actor: "ann", Reason: "a\x00"}}
	assert.Equal(t, batch.Act{
		Action: batch.ActionRequeue, By: batch.By{Actor: "ann", Reason: "a\ufffd"}, At: testStart, Scope: batch.Only(testKey.Service), Batch: testKey.ID,
		From: batch.Rejected, To: batch.Queued,
	}, store.BatchAct(asked, testKey, was, next, testStart))
}

func TestKeepAct(t *testing.T) {
	var kept []batch.Act
	for i := range batch.MaxActs + 3 {
		before := len(kept)
		next := store.KeepAct(kept, batch.Act{From: batch.State(i)})
		require.Len(t, kept, before)
		kept = next
	}
	require.Len(t, kept, batch.MaxActs)
	assert.Equal(t, batch.State(3), kept[0].From)
	assert.Equal(t, batch.State(batch.MaxActs+2), kept[batch.MaxActs-1].From)
}

func TestReports(t *testing.T) {
	var kept []batch.Report
	for i := range batch.MaxReports + 3 {
		before := len(kept)
		next := store.KeepReport(kept, batch.Report{Attempt: i})
		require.Len(t, kept, before)
		kept = next
	}
	require.Len(t, kept, batch.MaxReports)
	assert.Equal(t, []int{0, 4, batch.MaxReports + 2}, []int{kept[0].Attempt, kept[1].Attempt, kept[batch.MaxReports-1].Attempt})

	rows := rowsByStanding(t)
	o := submitterOutcome(rows["live"], store.Failed)
	now := testStart.Add(1234)
	_, a := rows["live"].Apply(o, now)
	_, ok := o.Reported(a, now)
	assert.False(t, ok, "there is none")
	o.Report = &batch.Report{Attempt: 1, Text: "a\x00"}
	r, ok := o.Reported(a, now)
	assert.True(t, ok)
	assert.Equal(t, batch.Report{Attempt: 1, Text: "a\ufffd", At: testStart.Add(time.Microsecond).UTC()}, r)
	_, fenced := rows["pending"].Apply(o, now)
	_, ok = o.Reported(fenced, now)
	assert.False(t, ok)
	done := monitorOutcome(rows["committed"], store.IsCommitted)
	done.Report = o.Report
	_, known := rows["committed"].Apply(done, now)
	require.Equal(t, store.Written, known.Result)
	_, ok = done.Reported(known, now)
	assert.False(t, ok, "it was known")
}
