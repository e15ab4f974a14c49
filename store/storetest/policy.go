package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func policyTests() []test {
	return []test{
		{name: "a lane whose ledger takes back what it executed is halted, with the reason", run: testPolicyRolledBack},
		{name: "a lane goes on", run: testPolicyContinue},
		{name: "a lane is halted until it is released", run: testPolicyHalt},
		{name: "what is set for the lane wins", run: testPolicySet},
		{name: "an invalid batch halts once it is settled", run: testPolicyInvalid},
		{name: "what an operator decides halts nothing", run: testPolicyOperator},
		{name: "who halted a lane first stays", run: testPolicyFirst},
		{name: "what is not written halts nothing", run: testPolicyFenced},
		{name: "a late commit does not release", run: testPolicyLate},
		{name: "two outcomes about one batch in one call", run: testPolicyTwo},
		{name: "no claim slips between an end and its halt", run: testPolicyRace},
	}
}

// testPolicyRolledBack: a batch that the ledger executes and takes back repeatedly halts its lane
// with the reason, although the batch is not final, and under any policy.
func testPolicyRolledBack(f *fixture) {
	const reason = "its nodes disagree"
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	f.setPolicy("s", batch.PolicyQuarantine)
	rolledBack := func(halt string) store.Applied {
		f.claimExactly("a")
		f.recordEach(f.submitterOutcome, store.Accepted, "a")
		f.recordEach(f.monitorOutcome, store.IsValid, "a")
		o := f.monitorOutcome("a", store.NotCommitted)
		o.RolledBack, o.Halt = true, halt
		return f.recordAll(o)[0]
	}
	for n := 1; n <= 2; n++ {
		a := rolledBack("")
		assert.Equal(f, n, a.Row.Rollbacks)
		assert.False(f, a.Halted)
	}
	a := rolledBack(reason)
	assert.True(f, a.Halted)
	assert.Equal(f, reason, a.Halt)
	assert.Equal(f, batch.Unknown, a.Row.State)
	assert.Zero(f, a.Row.Rollbacks, "the count begins anew")
	assert.False(f, a.Row.Quarantined)
	c := f.control(batch.Only("s"))
	assert.Equal(f, batch.ID("a"), c.HaltedBy)
	assert.Equal(f, reason, c.HaltReason)
	f.requireSameControl(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"t"}, f.openLanes())
	assert.Empty(f, f.claimAll("s").Runs)
	f.release("s")
	f.requireSameControl(batch.Only("s"))
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.claimAll("s")))
}

func testPolicyContinue(f *fixture) {
	for _, p := range []batch.Policy{batch.PolicyDefault, batch.PolicyContinue, 99} {
		bad, next := batch.ID(fmt.Sprint("a", p)), batch.ID(fmt.Sprint("b", p))
		f.add(newBatch("s", bad), newBatch("s", next))
		f.claimExactly(bad)
		a := f.refuseClaimed(bad, p)
		assert.False(f, a.Halted)
		assert.False(f, a.Row.Quarantined)
		assert.Equal(f, []batch.ID{next}, claimedIDs(f.claimAll("s")))
		f.recordEach(f.submitterOutcome, store.Refused, next)
	}
}

func testPolicyHalt(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	f.claimExactly("a")
	assert.True(f, f.refuseClaimed("a", batch.PolicyHalt).Halted)
	c := f.control(batch.Only("s"))
	assert.Equal(f, batch.ID("a"), c.HaltedBy)
	assert.Equal(f, []batch.ServiceID{"t"}, f.openLanes())
	assert.Equal(f, []batch.ID{"c"}, claimedIDs(f.claimAll("s", "t")))
	require.NoError(f, f.requeue("a", 0))
	assert.Empty(f, f.claimAll("s").Runs, "a requeue is no release")
	f.release("s")
	assert.Equal(f, []batch.ServiceID{"s", "t"}, f.openLanes())
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.claimAll("s")))
	acts := must(f.store.LaneHistory(f.ctx, batch.Only("s")))(f)
	require.Len(f, acts, 1)
	assert.Equal(f, batch.ID("a"), acts[0].Batch, "it says what it released")
}

func testPolicySet(f *fixture) {
	f.setPolicy("s", batch.PolicyHalt)
	f.setPolicy("t", batch.PolicyContinue)
	f.setPolicy("u", batch.PolicyQuarantine)
	for _, s := range []batch.ServiceID{"s", "t", "u"} {
		id := batch.ID("id of " + s)
		f.add(newBatch(s, id))
		f.claimExactly(id)
		a := f.refuseClaimed(id, map[batch.ServiceID]batch.Policy{"s": batch.PolicyContinue, "t": batch.PolicyHalt, "u": batch.PolicyHalt}[s])
		assert.Equal(f, s == "s", a.Halted, s)
		assert.Equal(f, s == "u", a.Row.Quarantined, s)
		assert.Equal(f, s == "s", f.isClosed(s), s)
		f.requireSameControl(batch.Only(s))
	}
	f.setPolicy("s", batch.PolicyDefault)
	f.release("s")
	f.add(newBatch("s", "another"))
	f.claimExactly("another")
	assert.False(f, f.refuseClaimed("another", batch.PolicyDefault).Halted)
}

func testPolicyInvalid(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.setPolicy("s", batch.PolicyHalt)
	f.recordEach(f.monitorOutcome, store.IsInvalid, "a")
	assert.False(f, f.isClosed("s"), "it may yet be committed")
	f.requireSameControl(batch.Only("s"))
	f.passUnits(6)
	assert.True(f, f.recordAll(f.monitorOutcome("a", store.Settled))[0].Halted)
	assert.Empty(f, f.claimAll("s").Runs)
	f.requireSameControl(batch.Only("s"))
}

func testPolicyOperator(f *fixture) {
	for i, p := range []batch.Policy{batch.PolicyHalt, batch.PolicyQuarantine} {
		cancelled, decided := batch.ID(fmt.Sprint("a", i)), batch.ID(fmt.Sprint("b", i))
		f.setPolicy("s", p)
		f.add(newBatch("s", cancelled), newBatch("s", decided))
		require.NoError(f, f.cancel(cancelled, "not wanted"))
		f.claimExactly(decided)
		f.recordEach(f.submitterOutcome, store.Doubtful, decided)
		require.NoError(f, f.decide(decided, batch.NotExecutedReject, "looked it up"))
		f.requireSameControl(batch.Only("s"))
		assert.False(f, f.isClosed("s"))
		assert.False(f, f.get(cancelled).Quarantined)
		assert.False(f, f.get(decided).Quarantined)
	}
}

func testPolicyFirst(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a", "b", "c")
	a, b := f.submitterOutcome("a", store.Refused), f.submitterOutcome("b", store.Refused)
	a.Policy, b.Policy = batch.PolicyHalt, batch.PolicyHalt
	got := f.recordAll(b, a) // both outcomes are in one group
	assert.True(f, got[0].Halted && got[1].Halted)
	f.passUnits(1)
	f.refuseClaimed("c", batch.PolicyHalt)
	assert.Equal(f, batch.ID("b"), f.control(batch.Only("s")).HaltedBy)
	f.requireSameControl(batch.Only("s"))
	f.release("s")
	assert.Equal(f, []batch.ServiceID(nil), f.openLanes(), "all three are final")
}

func testPolicyFenced(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	late := f.submitterOutcome("a", store.Refused)
	late.Policy = batch.PolicyHalt
	f.recordEach(f.submitterOutcome, store.Failed, "a")
	assert.False(f, f.record(late)[0].Halted)
	f.requireSameControl(batch.Only("s"))
	f.passUnits(3)
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	f.release("s")
	late.Version = 4
	assert.False(f, f.record(late)[0].Halted, "a second time, after the release")
	f.requireSameControl(batch.Only("s"))
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(f.claimAll("s")))
}

func testPolicyLate(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	got := f.recordAll(f.monitorOutcome("a", store.IsCommitted))
	assert.True(f, got[0].Breach)
	assert.False(f, got[0].Halted)
	assert.Empty(f, f.claimAll("s").Runs)
	f.requireSameControl(batch.Only("s"))
}

// testPolicyTwo: one call has the end of a batch and its commit after all, and another has an end
// twice.
func testPolicyTwo(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a", "b")
	end := func(id batch.ID) store.Outcome {
		o := f.submitterOutcome(id, store.Refused)
		o.Policy = batch.PolicyQuarantine
		return o
	}
	got := f.record(end("a"), f.monitorOutcome("a", store.IsCommitted), end("b"), end("b"))
	assert.Equal(f, store.Written, got[1].Result)
	assert.True(f, got[2].Row.Quarantined)
	assert.Equal(f, store.Fenced, got[3].Result)
	assert.True(f, got[3].Row.Quarantined, "it reports the present row")
	a, b := f.get("a"), f.get("b")
	assert.Equal(f, batch.Committed, a.State)
	assert.False(f, a.Quarantined)
	assert.True(f, b.Quarantined)
}

// chooseSerially takes the first batch of a lane if it is ready.
func chooseSerially(l batch.Lane) []batch.Run {
	if len(l.Batches) > 0 && l.Batches[0].Ready {
		return []batch.Run{{0}}
	}
	return nil
}

// testPolicyRace: claims go on while the end of a batch is recorded. No claim finds the lane
// without the batch and also without its halt.
func testPolicyRace(f *fixture) {
	for round := range 25 {
		service := batch.ServiceID(fmt.Sprint("s", round))
		bad, next := batch.ID(fmt.Sprint("a", round)), batch.ID(fmt.Sprint("b", round))
		f.add(newBatch(service, bad), newBatch(service, next))
		f.claimExactly(bad)
		o := f.submitterOutcome(bad, store.Refused)
		o.Policy = batch.PolicyHalt
		var recorded atomic.Bool
		claims := func() error {
			for last := false; !last; {
				last = recorded.Load() // one more claim follows after the end is recorded
				got, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 2, TTL: f.units(1.5)}, chooseSerially)
				if err != nil {
					return err
				}
				if len(got.Runs) > 0 {
					return fmt.Errorf("%v left a lane that is halted", claimedIDs(got))
				}
			}
			return nil
		}
		record := func() error {
			defer recorded.Store(true)
			return f.allWritten([]store.Outcome{o})
		}
		for _, err := range runAtOnce(claims, record, claims) {
			require.NoError(f, err, "round %d", round)
		}
		c := must(f.store.Control(f.ctx, batch.Only(service)))(f)
		require.True(f, c.Closed())
	}
}
