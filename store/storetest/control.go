package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func controlTests() []test {
	return []test{
		{name: "nothing leaves a paused lane", run: controlPause},
		{name: "nothing leaves at all", run: controlEverything},
		{name: "a lane that was paused alone stays so", run: controlAlone},
		{name: "a lane is paused before it has anything", run: controlEmpty},
		{name: "what is on its way is followed", run: controlFollowed},
		{name: "paused lanes are not in the way of others", run: controlMany},
		{name: "once is as good as twice", run: controlTwice},
		{name: "what is set is listed", run: controlList},
		{name: "what makes no sense", run: controlSense},
	}
}

// open lists the services that a scan finds.
func (f *fixture) open() []batch.ServiceID {
	f.Helper()
	lanes := must(f.st.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 1000}))(f)
	return lanes
}

// leaves claims all that it can from these lanes.
func (f *fixture) leaves(services ...batch.ServiceID) store.Claimed {
	f.Helper()
	return f.claim(store.ClaimQuery{Lanes: services, Limit: 9, Window: 9, TTL: f.u(1.5), Resend: resend(f.u(1000.5), 0), Instance: "one"}, everyReady)
}

func controlPause(f *fixture) {
	f.add(bt("s", "a"), bt("t", "b"), bt("s", "c"))
	f.take("a")
	f.each(f.submitted, store.Failed, "a") // so that there is a time to wait for
	f.pause(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"t"}, f.open())
	got := f.leaves("s", "t", "s2")
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(got))
	assert.Empty(f, got.Left)
	assert.Zero(f, got.NextReady, "it waits for a person, not for a time")
	f.pass(3)
	assert.Empty(f, f.leaves("s").Runs)
	f.resume(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"s", "t"}, f.open())
	assert.Equal(f, []batch.ID{"a", "c"}, claimedIDs(f.leaves("s")))
}

func controlEverything(f *fixture) {
	f.add(bt("s", "a"), bt("", "b"))
	f.pause(batch.Everything())
	f.add(bt("new", "c"))
	assert.Empty(f, f.open())
	assert.Empty(f, f.leaves("", "s", "new").Runs)
	assert.Len(f, f.counts(store.CountsQuery{Start: true}), 3, "it is there all the same")
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ServiceID{"", "new", "s"}, f.open())
	assert.Equal(f, []batch.ID{"b", "a", "c"}, claimedIDs(f.leaves("", "s", "new")))
}

func controlAlone(f *fixture) {
	f.add(bt("", "a"), bt("s", "b"))
	f.pause(batch.Only("")) // a service like any other
	f.pause(batch.Everything())
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ServiceID{"s"}, f.open())
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(f.leaves("", "s")))
	f.pause(batch.Everything())
	f.resume(batch.Only(""))
	assert.Empty(f, f.open())
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(f.leaves("", "s")))
}

func controlEmpty(f *fixture) {
	f.pause(batch.Only("s"))
	f.committed(bt("t", "other"))
	f.add(bt("s", "a"))
	assert.Empty(f, f.open())
	assert.Empty(f, f.leaves("s").Runs)
	f.resume(batch.Only("s"))
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(f.leaves("s")))
}

func controlFollowed(f *fixture) {
	f.add(many("s", "b", 4)...)
	is := []batch.ID{"b00004", "b00003", "b00002"}
	f.take(is...)
	f.pause(batch.Only("s"))
	f.pause(batch.Everything())
	f.each(f.submitted, store.Accepted, is[:2]...)
	f.each(f.submitted, store.Doubtful, is[2])
	f.pass(1)
	assert.Len(f, f.pending(9, f.u(0.5)), 3)
	assert.Len(f, f.pendingOf(9, f.u(0.5), "s"), 3)
	f.each(f.monitored, store.IsCommitted, is[0])
	f.each(f.monitored, store.NoTrace, is[2])
	require.NoError(f, f.cancel("b00001", "not wanted"))
	assert.Empty(f, f.leaves("s").Runs)
}

// controlMany: scans and claims of few lanes reach the open lanes among many closed ones.
func controlMany(f *fixture) {
	var all, closed, lanes []batch.ServiceID
	for i := range 60 {
		s := batch.ServiceID(fmt.Sprintf("%02d", i))
		f.add(bt(s, batch.ID("id of "+s)))
		all = append(all, s)
		if i%20 == 19 {
			lanes = append(lanes, s)
			continue
		}
		closed = append(closed, s)
		f.pause(batch.Only(s))
	}
	got := must(f.st.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 2}))(f)
	assert.Equal(f, lanes[:2], got)
	got = must(f.st.Lanes(f.ctx, store.LanesQuery{After: lanes[1], Limit: 2}))(f)
	assert.Equal(f, lanes[2:], got)
	claimed := f.claim(store.ClaimQuery{Lanes: all, Limit: 3, Window: 9, TTL: f.u(1.5)}, everyReady)
	assert.Len(f, claimedIDs(claimed), 3)
	assert.Empty(f, claimed.Left)
	assert.Len(f, f.counts(store.CountsQuery{Start: true}), 60)
	cs := must(f.st.ControlsOf(f.ctx, store.ControlsQuery{Start: true}))(f)
	assert.Len(f, cs, len(closed))
}

func controlTwice(f *fixture) {
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		f.resume(scope)
		assert.False(f, f.control(scope).Closed())
		f.pause(scope)
		f.pass(1)
		st := store.Steering{Scope: scope, Action: batch.ActionPause, By: batch.By{Actor: "another"}}
		c, changed := must2(f.st.Steer(f.ctx, st))(f)
		assert.False(f, changed)
		assert.Equal(f, "somebody", c.PausedBy.Actor, "who was first")
		f.sameControl(scope)
		f.resume(scope)
		f.resume(scope)
		assert.Len(f, must(f.st.LaneHistory(f.ctx, scope))(f), 2)
	}
}

func controlList(f *fixture) {
	want := []batch.ServiceID{"", "a", "b", "c"}
	f.pause(batch.Only(""))
	f.setPolicy("a", batch.PolicyContinue)
	f.setPolicy("b", batch.PolicyHalt)
	f.pause(batch.Only("b"))
	f.add(bt("c", "x"))
	f.take("x")
	f.ends("x", batch.PolicyHalt)
	f.pause(batch.Only("d"))
	f.resume(batch.Only("d"))
	f.pause(batch.Everything())
	var got []batch.ServiceID
	q := store.ControlsQuery{Start: true, Limit: 3}
	for {
		cs := must(f.st.ControlsOf(f.ctx, q))(f)
		for _, c := range cs {
			w := f.control(c.Scope)
			f.likeControl(w, c)
			got = append(got, c.Service)
		}
		if len(cs) < q.Limit {
			break
		}
		q.Start, q.After = false, cs[len(cs)-1].Service
	}
	assert.Equal(f, want, got)
	f.resume(batch.Only(""))
	f.setPolicy("a", batch.PolicyDefault)
	f.release("c")
	cs := must(f.st.ControlsOf(f.ctx, store.ControlsQuery{Start: true}))(f)
	require.Len(f, cs, 1)
	assert.Equal(f, batch.ServiceID("b"), cs[0].Service)
}

func controlSense(f *fixture) {
	for _, st := range []store.Steering{
		{},
		{Action: batch.ActionCancel},
		{Action: "\x00"},
		{Action: batch.ActionPause, Scope: batch.Scope{All: true, Service: "s"}},
		{Action: batch.ActionPause, Scope: batch.Only("a\x00")},
		{Action: batch.ActionPause, Scope: batch.Only(batch.ServiceID(strings.Repeat("x", batch.MaxServiceLen+1)))},
		{Action: batch.ActionSetPolicy, Scope: batch.Everything(), Policy: batch.PolicyHalt},
		{Action: batch.ActionSetPolicy, Scope: batch.Only("s"), Policy: 99},
		{Action: batch.ActionRelease, Scope: batch.Everything()},
	} {
		st.By = by("")
		_, changed, err := f.st.Steer(f.ctx, st)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", st)
		assert.False(f, changed)
	}
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		f.sameControl(scope)
	}
	bad := batch.Only("a\x00")
	_, err := f.st.Control(f.ctx, bad)
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	_, err = f.st.LaneHistory(f.ctx, bad)
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	assert.False(f, slices.Contains(f.open(), "s"))
}
