package storetest

import (
	"reflect"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func rowTests() []test {
	return []test{
		{name: "every field, where the caller hands back the row", run: func(f *fixture) { rowFields(f, true) }},
		{name: "every field, where the store reads the row", run: func(f *fixture) { rowFields(f, false) }},
	}
}

// rowWalk takes one batch through everything that writes a row, and looks at all of it after
// each step.
type rowWalk struct {
	*fixture
	known bool            // outcomes come with the row that the store handed out
	set   map[string]bool // fields that were not zero when a store was asked
}

// rowFields lets each field of a row be other than zero, and the fields that last through
// attempts be so at each step: a statement that forgets a column shows.
func rowFields(f *fixture, known bool) {
	w := rowWalk{f, known, map[string]bool{}}
	a, z := bt("s", "a"), bt("s", "z")
	a.Budget = batch.Budget{Attempts: 99, EveryTry: true}
	f.add(a, z) // z shows a write to the wrong row
	f.take("z")
	w.look()

	w.claim(resend(f.u(1000.5), 0))
	require.Equal(f, []bool{true}, f.keep(f.prepared("a", "prepared")))
	w.look()
	w.submitter(store.Accepted, nil)
	f.pass(1)
	f.pending(9, f.u(0.5))
	w.look()
	w.monitor(store.IsPending, func(o *store.Outcome) { o.Endpoint = "node 1" })
	w.monitor(store.NotCommitted, func(o *store.Outcome) { o.RolledBack = true })

	w.lasts(func() { w.claim(resend(f.u(1000.5), 0)) })
	w.lasts(func() { w.submitter(store.Doubtful, nil) })
	w.lasts(func() { w.monitor(store.NoTrace, nil) })
	w.lasts(func() { w.claim(resend(f.u(2.5), 0)) })
	w.lasts(func() { w.submitter(store.Accepted, nil) })
	w.lasts(func() { w.monitor(store.Failed, because) })
	f.pass(3)
	w.lasts(func() {
		f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.u(1.5), Resend: resend(f.u(1000.5), 0)}, everyReady)
		require.Equal(f, batch.Submitting, f.rows["a"].row.State, "it goes back to the monitor")
		w.look()
	})
	w.lasts(func() { w.monitor(store.IsPending, func(o *store.Outcome) { o.Endpoint = "node 2" }) })
	w.lasts(func() {
		w.monitor(store.IsInvalid, func(o *store.Outcome) {
			because(o)
			o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "no"}}
		})
	})
	w.lasts(func() { w.monitor(store.IsPending, nil) })
	w.lasts(func() { w.monitor(store.IsValid, nil) })
	w.lasts(func() { w.monitor(store.Undecidable, because) })
	w.lasts(func() {
		f.checked(f.u(0.5), "a", "z")
		w.look()
	})
	w.lasts(func() {
		require.NoError(f, f.decide("a", batch.Unknown, "a person knows"))
		w.look()
	})
	w.lasts(func() { w.claim(resend(f.u(1000.5), 0)) })
	w.lasts(func() { w.submitter(store.Unposted, func(o *store.Outcome) { o.Back, o.Refund = batch.Unknown, true }) })
	w.lasts(func() { w.claim(resend(f.u(1000.5), 0)) })
	w.lasts(func() { w.submitter(store.Doubtful, nil) })
	w.lasts(func() { w.monitor(store.NoTrace, nil) })
	w.lasts(func() { w.claim(resend(f.u(1000.5), 0)) })
	w.lasts(func() { w.submitter(store.Refused, because) })
	w.monitor(store.NotCommitted, func(o *store.Outcome) { o.Policy = batch.PolicyQuarantine })
	require.True(f, f.rows["a"].row.Quarantined)

	require.NoError(f, f.requeueTo("a", store.Requeue{AtEnd: true}))
	w.look()
	w.rolledBack("node 3", "")
	w.rolledBack("", "")
	require.Equal(f, 2, f.rows["a"].row.Rollbacks)
	w.rolledBack("node 4", "the nodes disagree")
	require.Zero(f, f.rows["a"].row.Rollbacks, "the lane is halted, and the count begins anew")
	f.release("s")
	w.rolledBack("node 5", "")
	w.claim(resend(f.u(1000.5), 0))
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsCommitted, nil)

	for field := range reflect.TypeFor[store.Row]().Fields() {
		// Only a store that keeps orders, too, settles them; its own suite has that.
		if field.Name != "OrdersSettled" {
			assert.True(f, w.set[field.Name], "%s was zero all along: let a step set it", field.Name)
		}
	}
}

func because(o *store.Outcome) {
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "why"}
}

// look compares the whole rows of the lane.
func (w rowWalk) look() {
	w.Helper()
	w.fixture.look("a", 9)
	w.fixture.look("z", 9)
	for field, value := range reflect.ValueOf(w.rows["a"].row).Fields() {
		if !value.IsZero() {
			w.set[field.Name] = true
		}
	}
}

// lasts takes a step that these fields survive: they are not zero before it and after it.
func (w rowWalk) lasts(step func()) {
	w.Helper()
	full := func() {
		w.Helper()
		r := w.rows["a"].row
		assert.NotZero(w, r.Rollbacks)
		assert.NotZero(w, r.SeenAttempt)
		assert.NotEmpty(w, r.SeenEndpoint)
		assert.NotZero(w, r.ClaimTTL)
		assert.NotZero(w, r.FirstClaimed)
		assert.NotZero(w, r.Prepared)
		assert.NotZero(w, r.Spent)
	}
	full()
	step()
	full()
}

func (w rowWalk) claim(rule func(batch.ServiceID) store.Resend) {
	w.Helper()
	got := w.fixture.claim(store.ClaimQuery{
		Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: w.u(1.5), Resend: rule, Instance: "host",
	}, the("a"))
	require.Equal(w, []batch.ID{"a"}, claimedIDs(got))
	w.look()
}

func (w rowWalk) submitter(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	w.record(w.submitted("a", finding), change)
}

// monitor asks for its rows, which hands out the row, and records.
func (w rowWalk) monitor(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	w.pendingOf(9, 0, "s")
	w.pendingOf(9, w.u(0.5), "s")
	w.look()
	w.record(w.monitored("a", finding), change)
}

func (w rowWalk) record(o store.Outcome, change func(*store.Outcome)) {
	w.Helper()
	if o.Was = nil; w.known {
		o.Was = w.rows["a"].was
	}
	if change != nil {
		change(&o)
	}
	w.written(o)
	w.look()
}

// rolledBack records that the ledger executed an attempt and took it back.
func (w rowWalk) rolledBack(endpoint, halt string) {
	w.Helper()
	w.claim(resend(w.u(1000.5), 0))
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsPending, func(o *store.Outcome) { o.Endpoint = endpoint })
	w.monitor(store.NotCommitted, func(o *store.Outcome) { o.RolledBack, o.Halt = true, halt })
}
