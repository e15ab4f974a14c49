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
		{name: "nothing leaves a paused lane", run: testControlPause},
		{name: "nothing leaves at all", run: testControlEverything},
		{name: "a lane that was paused alone stays so", run: testControlAlone},
		{name: "a lane is paused before it has anything", run: testControlEmpty},
		{name: "what is on its way is followed", run: testControlFollowed},
		{name: "paused lanes are not in the way of others", run: testControlMany},
		{name: "once is as good as twice", run: testControlTwice},
		{name: "what is set is listed", run: testControlList},
		{name: "what makes no sense", run: testControlSense},
	}
}

// openLanes returns the services that a scan finds.
func (f *fixture) openLanes() []batch.ServiceID {
	f.Helper()
	lanes := must(f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 1000}))(f)
	return lanes
}

// claimAll claims all batches of these lanes that it can.
func (f *fixture) claimAll(services ...batch.ServiceID) store.Claimed {
	f.Helper()
	return f.claim(store.ClaimQuery{Lanes: services, Limit: 9, Window: 9, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0), Instance: "one"}, chooseEveryReady)
}

func testControlPause(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"), newBatch("s", "c"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Failed, "a") // so that the batch has a NotBefore
	f.pause(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"t"}, f.openLanes())
	got := f.claimAll("s", "t", "s2")
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(got))
	assert.Empty(f, got.Left)
	assert.Zero(f, got.NextReady, "it waits for a person, not for a time")
	f.passUnits(3)
	assert.Empty(f, f.claimAll("s").Runs)
	f.resume(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"s", "t"}, f.openLanes())
	assert.Equal(f, []batch.ID{"a", "c"}, claimedIDs(f.claimAll("s")))
}

func testControlEverything(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("", "b"))
	f.pause(batch.Everything())
	f.add(newBatch("new", "c"))
	assert.Empty(f, f.openLanes())
	assert.Empty(f, f.claimAll("", "s", "new").Runs)
	assert.Len(f, f.counts(store.CountsQuery{Start: true}), 3, "it is there all the same")
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ServiceID{"", "new", "s"}, f.openLanes())
	assert.Equal(f, []batch.ID{"b", "a", "c"}, claimedIDs(f.claimAll("", "s", "new")))
}

func testControlAlone(f *fixture) {
	f.add(newBatch("", "a"), newBatch("s", "b"))
	f.pause(batch.Only("")) // "" is a service like any other
	f.pause(batch.Everything())
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ServiceID{"s"}, f.openLanes())
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(f.claimAll("", "s")))
	f.pause(batch.Everything())
	f.resume(batch.Only(""))
	assert.Empty(f, f.openLanes())
	f.resume(batch.Everything())
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(f.claimAll("", "s")))
}

func testControlEmpty(f *fixture) {
	f.pause(batch.Only("s"))
	f.makeCommitted(newBatch("t", "other"))
	f.add(newBatch("s", "a"))
	assert.Empty(f, f.openLanes())
	assert.Empty(f, f.claimAll("s").Runs)
	f.resume(batch.Only("s"))
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(f.claimAll("s")))
}

func testControlFollowed(f *fixture) {
	f.add(newBatches("s", "b", 4)...)
	is := []batch.ID{"b00004", "b00003", "b00002"}
	f.claimExactly(is...)
	f.pause(batch.Only("s"))
	f.pause(batch.Everything())
	f.recordEach(f.submitterOutcome, store.Accepted, is[:2]...)
	f.recordEach(f.submitterOutcome, store.Doubtful, is[2])
	f.passUnits(1)
	assert.Len(f, f.pending(9, f.units(0.5)), 3)
	assert.Len(f, f.pendingOf(9, f.units(0.5), "s"), 3)
	f.recordEach(f.monitorOutcome, store.IsCommitted, is[0])
	f.recordEach(f.monitorOutcome, store.NoTrace, is[2])
	require.NoError(f, f.cancel("b00001", "not wanted"))
	assert.Empty(f, f.claimAll("s").Runs)
}

// testControlMany: scans and claims of few lanes reach the open lanes among many closed ones.
func testControlMany(f *fixture) {
	var all, closed, lanes []batch.ServiceID
	for i := range 60 {
		s := batch.ServiceID(fmt.Sprintf("%02d", i))
		f.add(newBatch(s, batch.ID("id of "+s)))
		all = append(all, s)
		if i%20 == 19 {
			lanes = append(lanes, s)
			continue
		}
		closed = append(closed, s)
		f.pause(batch.Only(s))
	}
	got := must(f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 2}))(f)
	assert.Equal(f, lanes[:2], got)
	got = must(f.store.Lanes(f.ctx, store.LanesQuery{After: lanes[1], Limit: 2}))(f)
	assert.Equal(f, lanes[2:], got)
	claimed := f.claim(store.ClaimQuery{Lanes: all, Limit: 3, Window: 9, TTL: f.units(1.5)}, chooseEveryReady)
	assert.Len(f, claimedIDs(claimed), 3)
	assert.Empty(f, claimed.Left)
	assert.Len(f, f.counts(store.CountsQuery{Start: true}), 60)
	cs := must(f.store.ControlsOf(f.ctx, store.ControlsQuery{Start: true}))(f)
	assert.Len(f, cs, len(closed))
}

func testControlTwice(f *fixture) {
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		f.resume(scope)
		assert.False(f, f.control(scope).Closed())
		f.pause(scope)
		f.passUnits(1)
		st := store.Steering{Scope: scope, Action: batch.ActionPause, By: batch.By{Actor: "another"}}
		c, changed := must2(f.store.Steer(f.ctx, st))(f)
		assert.False(f, changed)
		assert.Equal(f, "somebody", c.PausedBy.Actor, "who was first")
		f.requireSameControl(scope)
		f.resume(scope)
		f.resume(scope)
		assert.Len(f, must(f.store.LaneHistory(f.ctx, scope))(f), 2)
	}
}

func testControlList(f *fixture) {
	want := []batch.ServiceID{"", "a", "b", "c"}
	f.pause(batch.Only(""))
	f.setPolicy("a", batch.PolicyContinue)
	f.setPolicy("b", batch.PolicyHalt)
	f.pause(batch.Only("b"))
	f.add(newBatch("c", "x"))
	f.claimExactly("x")
	f.refuseClaimed("x", batch.PolicyHalt)
	f.pause(batch.Only("d"))
	f.resume(batch.Only("d"))
	f.pause(batch.Everything())
	var got []batch.ServiceID
	q := store.ControlsQuery{Start: true, Limit: 3}
	for {
		cs := must(f.store.ControlsOf(f.ctx, q))(f)
		for _, c := range cs {
			w := f.control(c.Scope)
			f.requireSameControlAs(w, c)
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
	cs := must(f.store.ControlsOf(f.ctx, store.ControlsQuery{Start: true}))(f)
	require.Len(f, cs, 1)
	assert.Equal(f, batch.ServiceID("b"), cs[0].Service)
}

func testControlSense(f *fixture) {
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
		st.By = byWithReason("")
		_, changed, err := f.store.Steer(f.ctx, st)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", st)
		assert.False(f, changed)
	}
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		f.requireSameControl(scope)
	}
	bad := batch.Only("a\x00")
	_, err := f.store.Control(f.ctx, bad)
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	_, err = f.store.LaneHistory(f.ctx, bad)
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	assert.False(f, slices.Contains(f.openLanes(), "s"))
}
