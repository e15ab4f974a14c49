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
		{name: "a lane whose ledger takes back what it executed is halted, with the reason", run: policyRolledBack},
		{name: "a lane goes on", run: policyContinue},
		{name: "a lane is halted until it is released", run: policyHalt},
		{name: "what is set for the lane wins", run: policySet},
		{name: "an invalid batch halts once it is settled", run: policyInvalid},
		{name: "what an operator decides halts nothing", run: policyOperator},
		{name: "who halted a lane first stays", run: policyFirst},
		{name: "what is not written halts nothing", run: policyFenced},
		{name: "a late commit does not release", run: policyLate},
		{name: "two outcomes about one batch in one call", run: policyTwo},
		{name: "no claim slips between an end and its halt", run: policyRace},
	}
}

// policyRolledBack: a batch that the ledger executes and takes back, again and again, halts
// its lane with the reason, though the batch is not final, and under any policy.
func policyRolledBack(f *fixture) {
	const reason = "its nodes disagree"
	f.add(bt("s", "a"), bt("s", "b"), bt("t", "c"))
	f.setPolicy("s", batch.PolicyQuarantine)
	rolledBack := func(halt string) store.Applied {
		f.take("a")
		f.each(f.submitted, store.Accepted, "a")
		f.each(f.monitored, store.IsValid, "a")
		o := f.monitored("a", store.NotCommitted)
		o.RolledBack, o.Halt = true, halt
		return f.written(o)[0]
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
	f.sameControl(batch.Only("s"))
	assert.Equal(f, []batch.ServiceID{"t"}, f.open())
	assert.Empty(f, f.leaves("s").Runs)
	f.release("s")
	f.sameControl(batch.Only("s"))
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.leaves("s")))
}

func policyContinue(f *fixture) {
	for _, p := range []batch.Policy{batch.PolicyDefault, batch.PolicyContinue, 99} {
		bad, next := batch.ID(fmt.Sprint("a", p)), batch.ID(fmt.Sprint("b", p))
		f.add(bt("s", bad), bt("s", next))
		f.take(bad)
		a := f.ends(bad, p)
		assert.False(f, a.Halted)
		assert.False(f, a.Row.Quarantined)
		assert.Equal(f, []batch.ID{next}, claimedIDs(f.leaves("s")))
		f.each(f.submitted, store.Refused, next)
	}
}

func policyHalt(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("t", "c"))
	f.take("a")
	assert.True(f, f.ends("a", batch.PolicyHalt).Halted)
	c := f.control(batch.Only("s"))
	assert.Equal(f, batch.ID("a"), c.HaltedBy)
	assert.Equal(f, []batch.ServiceID{"t"}, f.open())
	assert.Equal(f, []batch.ID{"c"}, claimedIDs(f.leaves("s", "t")))
	require.NoError(f, f.requeue("a", 0))
	assert.Empty(f, f.leaves("s").Runs, "a requeue is no release")
	f.release("s")
	assert.Equal(f, []batch.ServiceID{"s", "t"}, f.open())
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.leaves("s")))
	acts := must(f.st.LaneHistory(f.ctx, batch.Only("s")))(f)
	require.Len(f, acts, 1)
	assert.Equal(f, batch.ID("a"), acts[0].Batch, "it says what it released")
}

func policySet(f *fixture) {
	f.setPolicy("s", batch.PolicyHalt)
	f.setPolicy("t", batch.PolicyContinue)
	f.setPolicy("u", batch.PolicyQuarantine)
	for _, s := range []batch.ServiceID{"s", "t", "u"} {
		id := batch.ID("id of " + s)
		f.add(bt(s, id))
		f.take(id)
		a := f.ends(id, map[batch.ServiceID]batch.Policy{"s": batch.PolicyContinue, "t": batch.PolicyHalt, "u": batch.PolicyHalt}[s])
		assert.Equal(f, s == "s", a.Halted, s)
		assert.Equal(f, s == "u", a.Row.Quarantined, s)
		assert.Equal(f, s == "s", f.closed(s), s)
		f.sameControl(batch.Only(s))
	}
	f.setPolicy("s", batch.PolicyDefault)
	f.release("s")
	f.add(bt("s", "another"))
	f.take("another")
	assert.False(f, f.ends("another", batch.PolicyDefault).Halted)
}

func policyInvalid(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	f.setPolicy("s", batch.PolicyHalt)
	f.each(f.monitored, store.IsInvalid, "a")
	assert.False(f, f.closed("s"), "it may yet be committed")
	f.sameControl(batch.Only("s"))
	f.pass(6)
	assert.True(f, f.written(f.monitored("a", store.Settled))[0].Halted)
	assert.Empty(f, f.leaves("s").Runs)
	f.sameControl(batch.Only("s"))
}

func policyOperator(f *fixture) {
	for i, p := range []batch.Policy{batch.PolicyHalt, batch.PolicyQuarantine} {
		cancelled, decided := batch.ID(fmt.Sprint("a", i)), batch.ID(fmt.Sprint("b", i))
		f.setPolicy("s", p)
		f.add(bt("s", cancelled), bt("s", decided))
		require.NoError(f, f.cancel(cancelled, "not wanted"))
		f.take(decided)
		f.each(f.submitted, store.Doubtful, decided)
		require.NoError(f, f.decide(decided, batch.NotExecutedReject, "looked it up"))
		f.sameControl(batch.Only("s"))
		assert.False(f, f.closed("s"))
		assert.False(f, f.get(cancelled).Quarantined)
		assert.False(f, f.get(decided).Quarantined)
	}
}

func policyFirst(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "c"))
	f.take("a", "b", "c")
	a, b := f.submitted("a", store.Refused), f.submitted("b", store.Refused)
	a.Policy, b.Policy = batch.PolicyHalt, batch.PolicyHalt
	got := f.written(b, a) // in one group
	assert.True(f, got[0].Halted && got[1].Halted)
	f.pass(1)
	f.ends("c", batch.PolicyHalt)
	assert.Equal(f, batch.ID("b"), f.control(batch.Only("s")).HaltedBy)
	f.sameControl(batch.Only("s"))
	f.release("s")
	assert.Equal(f, []batch.ServiceID(nil), f.open(), "all three are final")
}

func policyFenced(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a")
	late := f.submitted("a", store.Refused)
	late.Policy = batch.PolicyHalt
	f.each(f.submitted, store.Failed, "a")
	assert.False(f, f.record(late)[0].Halted)
	f.sameControl(batch.Only("s"))
	f.pass(3)
	f.take("a")
	f.ends("a", batch.PolicyHalt)
	f.release("s")
	late.Version = 4
	assert.False(f, f.record(late)[0].Halted, "a second time, after the release")
	f.sameControl(batch.Only("s"))
	assert.Equal(f, []batch.ID{"b"}, claimedIDs(f.leaves("s")))
}

func policyLate(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a")
	f.ends("a", batch.PolicyHalt)
	got := f.written(f.monitored("a", store.IsCommitted))
	assert.True(f, got[0].Breach)
	assert.False(f, got[0].Halted)
	assert.Empty(f, f.leaves("s").Runs)
	f.sameControl(batch.Only("s"))
}

// policyTwo: in one call the end of a batch and its commit after all, and an end twice.
func policyTwo(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a", "b")
	end := func(id batch.ID) store.Outcome {
		o := f.submitted(id, store.Refused)
		o.Policy = batch.PolicyQuarantine
		return o
	}
	got := f.record(end("a"), f.monitored("a", store.IsCommitted), end("b"), end("b"))
	assert.Equal(f, store.Written, got[1].Result)
	assert.True(f, got[2].Row.Quarantined)
	assert.Equal(f, store.Fenced, got[3].Result)
	assert.True(f, got[3].Row.Quarantined, "it reports the present row")
	a, b := f.get("a"), f.get("b")
	assert.Equal(f, batch.Committed, a.State)
	assert.False(f, a.Quarantined)
	assert.True(f, b.Quarantined)
}

// serially takes the first batch of a lane where it is ready.
func serially(l batch.Lane) []batch.Run {
	if len(l.Batches) > 0 && l.Batches[0].Ready {
		return []batch.Run{{0}}
	}
	return nil
}

// policyRace: claims go on while the end of a batch is recorded. No claim finds the lane with
// neither the batch nor its halt.
func policyRace(f *fixture) {
	for round := range 25 {
		service := batch.ServiceID(fmt.Sprint("s", round))
		bad, next := batch.ID(fmt.Sprint("a", round)), batch.ID(fmt.Sprint("b", round))
		f.add(bt(service, bad), bt(service, next))
		f.take(bad)
		o := f.submitted(bad, store.Refused)
		o.Policy = batch.PolicyHalt
		var recorded atomic.Bool
		claims := func() error {
			for last := false; !last; {
				last = recorded.Load() // one more claim after that
				got, err := f.st.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 2, TTL: f.u(1.5)}, serially)
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
		for _, err := range atOnce(claims, record, claims) {
			require.NoError(f, err, "round %d", round)
		}
		c := must(f.st.Control(f.ctx, batch.Only(service)))(f)
		require.True(f, c.Closed())
	}
}
