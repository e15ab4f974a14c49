package storetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func historyTests() []test {
	return []test{
		{name: "who did what to a batch, and why", run: testHistoryBatch},
		{name: "and to a lane", run: testHistoryLane},
		{name: "what was refused is not in it", run: testHistoryRefused},
		{name: "the newest are kept", run: testHistoryBound},
		{name: "a batch's goes with the batch", run: testHistoryPruned},
		{name: "a lane's goes with its age", run: testHistoryAge},
		{name: "reasons are stored clean and bounded", run: testHistoryText},
		{name: "of no batch there is none", run: testHistoryNone},
	}
}

func testHistoryBatch(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	assert.Empty(f, f.history("a"))
	require.NoError(f, f.cancel("a", "wrong amount"))
	f.passUnits(1)
	require.NoError(f, f.requeue("a", 0))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.passUnits(1)
	require.NoError(f, f.decide("a", batch.NotExecutedReject, "looked it up"))
	require.NoError(f, f.requeue("a", 0))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyQuarantine)
	require.NoError(f, f.acquit("a"))
	got := f.history("a")
	require.Len(f, got, 5)
	for i, want := range []batch.Act{
		{Action: batch.ActionCancel, By: byWithReason("wrong amount"), From: batch.Queued, To: batch.Rejected},
		{Action: batch.ActionRequeue, By: byWithReason("once more"), From: batch.Rejected, To: batch.Queued},
		{Action: batch.ActionDecide, By: byWithReason("looked it up"), From: batch.Submitting, To: batch.Rejected},
		{Action: batch.ActionRequeue, By: byWithReason("once more"), From: batch.Rejected, To: batch.Queued},
		{Action: batch.ActionAcquit, By: byWithReason("seen"), From: batch.Rejected, To: batch.Rejected},
	} {
		want.Scope, want.Batch, want.At = batch.Only("s"), "a", got[i].At
		assert.Equal(f, want, got[i])
	}
	assert.True(f, got[1].At.After(got[0].At))
	assert.Empty(f, f.history("b"))
	f.requireSameControl(batch.Only("s")) // the history of the lane has nothing either
}

func testHistoryLane(f *fixture) {
	f.pause(batch.Only("s"))
	f.passUnits(1)
	f.setPolicy("s", batch.PolicyHalt)
	f.resume(batch.Only("s"))
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyDefault)
	f.release("s")
	f.pause(batch.Everything())
	got := must(f.store.LaneHistory(f.ctx, batch.Only("s")))(f)
	require.Len(f, got, 4)
	for i, want := range []batch.Act{
		{Action: batch.ActionPause}, {Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt}, {Action: batch.ActionResume},
		{Action: batch.ActionRelease, Batch: "a"},
	} {
		want.Scope, want.At, want.By = batch.Only("s"), got[i].At, byWithReason("why "+string(want.Action))
		assert.Equal(f, want, got[i])
	}
	all := must(f.store.LaneHistory(f.ctx, batch.Everything()))(f)
	require.Len(f, all, 1)
	assert.Equal(f, batch.Everything(), all[0].Scope)
	assert.Empty(f, must(f.store.LaneHistory(f.ctx, batch.Only("")))(f), "of the service whose name is empty")
}

func testHistoryRefused(f *fixture) {
	f.makeCommitted(newBatch("s", "a"))
	require.ErrorIs(f, f.cancel("a", "too late"), batch.ErrNotAllowed)
	require.ErrorIs(f, f.requeue("a", 0), batch.ErrNotAllowed)
	require.ErrorIs(f, f.decide("a", batch.NotExecutedReject, ""), batch.ErrNotAllowed)
	require.ErrorIs(f, f.acquit("a"), batch.ErrNotAllowed)
	assert.Empty(f, f.history("a"))
}

func testHistoryBound(f *fixture) {
	f.add(newBatch("s", "a"))
	for i := range batch.MaxActs/2 + 3 {
		require.NoError(f, f.cancel("a", fmt.Sprint("number ", i)))
		require.NoError(f, f.requeue("a", 0))
		f.pause(batch.Everything())
		f.resume(batch.Everything())
	}
	got := f.history("a")
	require.Len(f, got, batch.MaxActs)
	assert.Equal(f, "number 3", got[0].Reason)
	assert.Len(f, must(f.store.LaneHistory(f.ctx, batch.Everything()))(f), batch.MaxActs)
}

func testHistoryPruned(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	for _, id := range []batch.ID{"a", "b"} {
		f.claimExactly(id)
		o := f.submitterOutcome(id, store.Refused)
		o.Report = &batch.Report{Attempt: 1, Kind: batch.KindRejected}
		f.recordAll(o)
		require.NoError(f, f.requeue(id, 0))
	}
	require.NoError(f, f.cancel("a", ""))
	f.passUnits(1)
	require.Equal(f, 1, f.prune(f.units(0.5), false))
	assert.Len(f, f.history("b"), 1)
	assert.Len(f, f.attempts("b"), 1)
	f.add(newBatch("s", "a"))
	assert.Empty(f, f.history("a"), "it is another")
	assert.Empty(f, f.attempts("a"))
}

func testHistoryAge(f *fixture) {
	f.pause(batch.Only("s"))
	f.pause(batch.Everything())
	f.passUnits(2)
	f.setPolicy("s", batch.PolicyHalt)
	f.prune(f.units(1.5), false)
	f.requireSameControl(batch.Only("s")) // the acts on the lane stay
	f.requireSameControl(batch.Everything())
	require.Len(f, must(f.store.LaneHistory(f.ctx, batch.Only("s")))(f), 1)
	assert.True(f, f.isClosed("s"))
	assert.Equal(f, store.Pruned{LaneActs: 1}, must(f.store.Prune(f.ctx, store.PruneQuery{}))(f))
}

func testHistoryText(f *fixture) {
	for name, text := range hostileTexts() {
		id := batch.ID("id of " + name)
		f.add(newBatch("s", id))
		require.NoError(f, f.cancel(id, text))
		f.requireClean(name, text, f.history(id)[0].Reason)
		service := batch.Only(batch.ServiceID("lane of " + name))
		c, _ := must2(f.store.Steer(f.ctx, store.Steering{Scope: service, Action: batch.ActionPause, By: byWithReason(text)}))(f)
		f.requireClean(name, text, c.PausedBy.Reason)
		acts := must(f.store.LaneHistory(f.ctx, service))(f)
		require.Len(f, acts, 1)
		f.requireClean(name, text, acts[0].Reason)
	}
	longest := batch.By{Actor: strings.Repeat("日", batch.MaxActorLen/3), Reason: "'"}
	c, _ := must2(f.store.Steer(f.ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: longest}))(f)
	assert.Equal(f, longest, c.PausedBy)
}

func testHistoryNone(f *fixture) {
	f.add(newBatch("s", "a"))
	for _, k := range []batch.Key{{Service: "s", ID: "none"}, {Service: "t", ID: "a"}, {ID: "a"}} {
		_, err := f.store.History(f.ctx, k)
		require.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Attempts(f.ctx, k)
		require.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Look(f.ctx, k, 1)
		require.ErrorIs(f, err, batch.ErrNotFound)
	}
}
