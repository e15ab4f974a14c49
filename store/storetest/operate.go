package storetest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func operateTests() []test {
	return []test{
		{name: "a batch that was requeued before its first attempt", run: testRequeueUnattempted},
		{name: "who may be cancelled", run: testOperateCancel},
		{name: "who may be requeued", run: testOperateRequeue},
		{name: "who may be decided", run: testOperateDecide},
		{name: "who may be acquitted", run: testOperateAcquit},
		{name: "nobody is no operator", run: testOperateNobody, needs: store.CanControl},
		{name: "a cancelled batch leaves its lane", run: testOperateCancelled},
		{name: "a requeued batch takes its old place", run: testOperateOldPlace},
		{name: "a requeued batch waits for quiet", run: testOperateQuiet},
		{name: "what is decided", run: testOperateDecided},
		{name: "who may be withdrawn", run: testOperateWithdraw, needs: store.CanKeepPrepared},
		{name: "a withdrawn batch ends once nothing of it can take effect", run: testOperateWithdrawn, needs: store.CanKeepPrepared | store.CanControl},
		{name: "there is no such batch", run: testOperateNone},
	}
}

// requireAllowedFrom checks that an operation is allowed in the standings of allowed only. In
// those of inDoubt it is refused with ErrInDoubt, and in others with ErrNotAllowed.
func (f *fixture) requireAllowedFrom(do func(batch.ID) error, allowed []string, inDoubt []string) {
	f.Helper()
	want := map[string]error{}
	for _, s := range standings() {
		want[s.name] = batch.ErrNotAllowed
	}
	for _, name := range inDoubt {
		want[name] = batch.ErrInDoubt
	}
	for _, name := range allowed {
		want[name] = nil
	}
	for name, id := range f.makeOneOfEach() {
		before := f.get(id)
		err := do(id) // compared with the pure rule
		if want[name] == nil {
			assert.NoError(f, err, name)
			assert.Equal(f, before.Version+1, f.get(id).Version, name)
			continue
		}
		assert.ErrorIs(f, err, want[name], name)
		assert.Equal(f, before, f.get(id), name)
	}
}

func testOperateCancel(f *fixture) {
	f.requireAllowedFrom(func(id batch.ID) error { return f.cancel(id, "not wanted") },
		[]string{"queued", "delayed", "requeued", "requeued to the end"},
		[]string{
			"submitting", "submitting and expired", "in doubt", "needing a decision", "unknown", "pending", "valid",
			"submitting again, an earlier attempt in doubt", "pending, an earlier attempt in doubt",
			"delayed, an earlier attempt in doubt", "refused, an earlier attempt in doubt", "requeued and submitting",
			"invalid, not settled", "invalid, about to settle",
		})
}

func testOperateRequeue(f *fixture) {
	f.requireAllowedFrom(func(id batch.ID) error { return f.requeue(id, f.units(0.5)) }, []string{"invalid", "rejected", "cancelled", "quarantined"}, nil)
}

func testOperateAcquit(f *fixture) {
	f.requireAllowedFrom(f.acquit, []string{"quarantined"}, nil)
}

func testOperateDecide(f *fixture) {
	f.requireAllowedFrom(func(id batch.ID) error { return f.decide(id, batch.NotExecutedSendAgain, "looked it up") },
		[]string{ // all claims but the last have expired by the time when every batch is in its standing
			"submitting and expired", "in doubt", "needing a decision", "refused, an earlier attempt in doubt",
			"submitting", "submitting again, an earlier attempt in doubt",
			"unknown", "delayed, an earlier attempt in doubt", // they wait, and nobody may cancel them
		},
		[]string{"requeued and submitting"})
}

func testOperateCancelled(f *fixture) {
	f.add(newBatches("s", "b", 3)...)
	require.NoError(f, f.cancel("b00002", "not wanted"))
	r := f.get("b00002")
	assert.Equal(f, batch.Rejected, r.State)
	assert.Equal(f, &batch.SubmissionError{Kind: batch.KindCancelled, Message: "not wanted"}, r.Error)
	assert.Equal(f, []batch.ID{"b00003", "b00001"}, laneIDs(f.viewLane("s", 9)))
	require.NoError(f, f.requeue("b00002", f.units(9)))
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001"}, laneIDs(f.viewLane("s", 9)))
	f.claimExactly("b00002") // it was never posted, so it need not wait for the quiet time
}

func testOperateOldPlace(f *fixture) {
	f.add(newBatches("s", "b", 4)...)
	f.claimExactly("b00004", "b00003", "b00002")
	o := f.submitterOutcome("b00003", store.Refused)
	o.Spend = true
	f.recordAll(o)
	before := f.get("b00003")
	f.recordEach(f.submitterOutcome, store.Accepted, "b00004")
	assert.Equal(f, []batch.ID{"b00004", "b00002", "b00001"}, laneIDs(f.viewLane("s", 9)))
	require.NoError(f, f.requeue("b00003", 0))
	assert.Equal(f, []batch.ID{"b00004", "b00003", "b00002", "b00001"}, laneIDs(f.viewLane("s", 9)))
	r := f.get("b00003")
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, before.CreatedAt, r.CreatedAt)
	assert.Equal(f, 1, r.Attempt)
	assert.Equal(f, 1, r.Spent)
	assert.Equal(f, before.Version+1, r.Version)
	assert.Nil(f, r.Error)
	assert.False(f, r.Final())
	assert.Equal(f, []batch.ServiceID{"s"}, must(f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 9}))(f))
	late := f.submitterOutcome("b00003", store.Accepted)
	late.Version = 2
	assert.Equal(f, store.Fenced, f.record(late)[0].Result, "what was under way before")
	assert.Equal(f, 2, f.claimExactly("b00003")[0].Attempt)
}

func testOperateQuiet(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	o := f.monitorOutcome("a", store.IsInvalid)
	o.Settle = 0
	f.recordAll(o)
	f.passUnits(1)
	require.NoError(f, f.requeue("a", f.units(3.5)))
	q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.units(1.5)}
	got := f.claim(q, chooseEveryReady)
	assert.Empty(f, got.Runs)
	assert.True(f, f.areNear(f.units(1.5), got.NextReady), "quiet counts from the last POST: %s", got.NextReady)
	f.passUnits(2)
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	p := f.pending(1, f.units(0.5))
	require.Len(f, p, 1)
	assert.True(f, p[0].Requeued, "a verdict may be from before")
}

func testOperateDecided(f *fixture) {
	for i, ruling := range []batch.Ruling{batch.WasCommitted, batch.NotExecutedSendAgain, batch.NotExecutedReject} {
		to := ruling.State()
		service, id := batch.ServiceID([]string{"s", "t", "u"}[i]), batch.ID([]string{"a", "b", "c"}[i])
		f.add(newBatch(service, id))
		f.claimExactly(id)
		require.ErrorIs(f, f.decide(id, ruling, "too early"), batch.ErrInDoubt, "the claim is live")
		f.passUnits(2)
		for _, not := range []batch.Ruling{"", "unknown", "pending", "Committed"} {
			require.ErrorIs(f, f.decide(id, not, ""), batch.ErrInvalidInput)
		}
		require.NoError(f, f.decide(id, ruling, "looked it up"))
		r := f.get(id)
		assert.Equal(f, to, r.State)
		assert.Equal(f, to != batch.Unknown, r.Final())
		late := f.submitterOutcome(id, store.Accepted)
		late.Version = 2
		assert.Equal(f, store.Fenced, f.record(late)[0].Result)
		if to == batch.Rejected {
			assert.Equal(f, "cancelled: looked it up", r.Error.Error())
		}
	}
	c := f.claimExactlyBy(nil, "b")[0]
	assert.False(f, c.Doubt, "declared not committed, it is sent again under any rule")
}

// makeUnderWay makes a batch of which bytes are kept that may be sent again for ever, and which
// the ledger has.
func (f *fixture) makeUnderWay(id batch.ID) {
	f.Helper()
	f.add(newBatch(batch.ServiceID("lane of "+id), id))
	f.claimExactlyBy(resendRule(forEver, 0), id)
	require.Equal(f, []bool{true}, f.keepBytes(f.prepared(id, "nonce 7")))
	f.recordEach(f.submitterOutcome, store.Accepted, id)
}

func testOperateWithdraw(f *fixture) {
	f.requireAllowedFrom(f.withdraw, nil, nil) // no bytes are kept of these batches
	f.makeUnderWay("pending")
	before := f.get("pending")
	require.NoError(f, f.withdraw("pending"))
	r := f.get("pending")
	assert.True(f, r.Withdrawn)
	assert.Equal(f, before.State, r.State)
	assert.Equal(f, before.Version+1, r.Version)
	late := f.submitterOutcome("pending", store.Accepted)
	late.Version--
	assert.Equal(f, store.Fenced, f.record(late)[0].Result, "what was under way before")
	require.ErrorIs(f, f.withdraw("pending"), batch.ErrNotAllowed, "once is enough")
	p := f.pending(9, f.units(0.5))
	require.NotEmpty(f, p, "the monitor asks about it at once")
	f.recordEach(f.monitorOutcome, store.NoTrace, "pending")
	c := f.claimExactlyBy(resendRule(forEver, 0), "pending")[0]
	assert.True(f, c.Withdrawn)
	require.ErrorIs(f, f.withdraw("pending"), batch.ErrNotAllowed)

	f.makeUnderWay("claimed")
	f.recordEach(f.monitorOutcome, store.NoTrace, "claimed")
	f.claimExactlyBy(resendRule(forEver, 0), "claimed")
	require.ErrorIs(f, f.withdraw("claimed"), batch.ErrInDoubt, "it may be posted just now")
	f.passUnits(2)
	require.NoError(f, f.withdraw("claimed"))
}

// testOperateWithdrawn: the ledger's answer ends a withdrawn batch, whatever the answer is, and no
// policy follows.
func testOperateWithdrawn(f *fixture) {
	for finding, want := range map[store.Finding]batch.State{
		store.IsVoid: batch.Rejected, store.NotCommitted: batch.Rejected, store.IsCommitted: batch.Committed, store.IsInvalid: batch.Invalid,
	} {
		id := batch.ID(finding.String())
		f.makeUnderWay(id)
		require.NoError(f, f.withdraw(id))
		o := f.monitorOutcome(id, finding)
		o.Settle, o.Policy = 0, batch.PolicyQuarantine
		o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "nonce 7 is used"}
		a := f.recordAll(o)[0]
		r := f.get(id)
		assert.Equal(f, want, r.State, id)
		assert.False(f, r.Withdrawn, "it is final")
		assert.Equal(f, want == batch.Invalid, a.Row.Quarantined, id)
		if want == batch.Rejected {
			assert.Equal(f, &batch.SubmissionError{Kind: batch.KindCancelled, Message: "withdrawn: nonce 7 is used"}, r.Error)
			require.NoError(f, f.requeue(id, 0))
			assert.False(f, f.get(id).Withdrawn)
		}
	}
}

func testOperateNobody(f *fixture) {
	named := f.makeOneOfEach()
	for _, who := range []string{"", "a\x00", "a\nb", "\xff", strings.Repeat("x", batch.MaxActorLen+1)} {
		nobody := batch.By{Actor: who, Reason: "because"}
		for name, do := range map[string]func(batch.Record) (batch.Record, error){
			"queued": func(seen batch.Record) (batch.Record, error) { return f.store.Cancel(f.ctx, seen, nobody) },
			"rejected": func(seen batch.Record) (batch.Record, error) {
				return f.store.Requeue(f.ctx, seen, store.Requeue{}, nobody)
			},
			"in doubt": func(seen batch.Record) (batch.Record, error) {
				return f.store.Decide(f.ctx, seen, batch.NotExecutedReject, nobody)
			},
			"pending":     func(seen batch.Record) (batch.Record, error) { return f.store.Withdraw(f.ctx, seen, nobody) },
			"quarantined": func(seen batch.Record) (batch.Record, error) { return f.store.Acquit(f.ctx, seen, nobody) },
		} {
			_, err := do(f.readRecord(named[name]))
			require.ErrorIs(f, err, batch.ErrInvalidInput, "%q, %s", batch.Excerpt(who, 9), name)
			f.get(named[name])
			f.history(named[name])
		}
		_, _, err := f.store.Steer(f.ctx, store.Steering{Scope: batch.Only("s"), Action: batch.ActionPause, By: nobody})
		require.ErrorIs(f, err, batch.ErrInvalidInput)
		f.requireSameControl(batch.Only("s"))
	}
}

func testOperateNone(f *fixture) {
	f.add(newBatch("s", "a"))
	for _, k := range []batch.Key{{Service: "s", ID: "none"}, {Service: "t", ID: "a"}, {ID: "a"}} {
		seen := batch.Record{Key: k, Version: 1}
		_, err := f.store.Cancel(f.ctx, seen, byWithReason(""))
		assert.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Requeue(f.ctx, seen, store.Requeue{}, byWithReason(""))
		assert.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Decide(f.ctx, seen, batch.NotExecutedReject, byWithReason(""))
		assert.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Withdraw(f.ctx, seen, byWithReason(""))
		assert.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Acquit(f.ctx, seen, byWithReason(""))
		assert.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.store.Get(f.ctx, k)
		assert.ErrorIs(f, err, batch.ErrNotFound)
	}
	f.get("a")
}

// testRequeueUnattempted: the mark of a requeue stays through the first claim, because an answer
// from before the requeue may still be about the batch.
func testRequeueUnattempted(f *fixture) {
	f.add(newBatch("s", "a"))
	require.NoError(f, f.cancel("a", "by mistake"))
	require.NoError(f, f.requeue("a", 0))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	got := f.pending(9, f.units(0.5))
	require.Len(f, got, 1)
	assert.True(f, got[0].Requeued)
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
}
