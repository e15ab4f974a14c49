package storetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func rowTests() []test {
	all := store.CanKeepPrepared | store.CanOperate | store.CanControl | store.CanInspect // each writes fields of its own
	return []test{
		{name: "every field, where the caller hands back the row", needs: all, run: func(f *fixture) { rowFields(f, true) }},
		{name: "every field, where the store reads the row", needs: all, run: func(f *fixture) { rowFields(f, false) }},
	}
}

// rowWalk takes batches through everything that writes a row, and reads the row in every
// way after each step.
type rowWalk struct {
	*fixture
	id     batch.ID // the batch in hand
	rules  *rowRules
	known  bool  // outcomes come with the row that the store handed out
	passed int64 // the version of that row
	again  bool  // what is claimed may be sent again for ever
	shown  cells
}

// rowFields shows each field of a row other than zero, and shows it change, on each way by
// which the rules allow it. So a statement that forgets a column fails, and so does a field
// of store.Row which no step of the walk sets yet.
func rowFields(f *fixture, known bool) {
	w := &rowWalk{fixture: f, rules: newRowRules(f), known: known, shown: cells{}}
	f.add(bt("z", "z")) // a write to another row than was meant shows here
	f.take("z")
	w.attempts()
	w.called()
	w.ends()
	w.commits()
	w.again = true
	w.withdrawn()
	w.rules.complete(w.shown, known)
}

// attempts is everything that a batch can go through before its end.
func (w *rowWalk) attempts() {
	w.begin("attempts")
	w.cancelled()
	w.requeued()
	w.claim(byFirstClaim)
	w.submitter(store.Failed, nil)
	w.pass(3)
	w.claim(byLaterClaim)
	w.pass(3) // nothing is recorded before the claim is over
	w.step(byPendingOf, func() { w.pendingOf(9, w.u(0.75), w.lane()) })
	w.monitor(store.Doubtful, nil)
	w.monitor(store.IsPending, seenBy("node 1"))
	w.monitor(store.IsPending, seenBy("node 2"))
	w.monitor(store.IsPending, spends)
	w.monitor(store.PutOff, func(o *store.Outcome) { o.StuckAfter = w.u(0.01) })
	w.monitor(store.NotCommitted, rolledBack)

	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, because)
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.pass(1)
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsPending, seenBy("node 2"))
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.pass(1)
	w.submitter(store.Accepted, nil)
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Unposted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, func(o *store.Outcome) { o.ForgottenFor = w.u(20_000) })
	w.monitor(store.NotCommitted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, last)
	w.monitor(store.Undecidable, because)
	w.keepPrepared()
	w.monitor(store.Undecidable, because)
	w.monitor(store.Undecidable, because)
	w.decided(batch.NotExecutedSendAgain)
	w.claim(byLaterClaim)
	w.pass(3)
	w.monitor(store.IsVoid, nil)
	w.claim(byLaterClaim)
	w.keepPrepared()
	w.submitter(store.Unposted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Unposted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, nil)
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Unposted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, nil)
	w.monitor(store.NoTrace, nil)
	w.claimBy(byLaterClaim, 2.5)
	w.submitter(store.Failed, because)
	w.pass(3)
	w.claim(byHandBack)
	w.monitor(store.IsInvalid, nil)
	w.monitor(store.IsPending, nil)
	w.monitor(store.IsInvalid, invalid)
	w.monitor(store.IsPending, nil)
	w.monitor(store.IsInvalid, nil)
	w.monitor(store.IsPending, nil)
	w.monitor(store.IsValid, nil)
	w.monitor(store.NotCommitted, func(o *store.Outcome) { o.Halt = "why" })
	w.release(w.lane())
	w.claim(byLaterClaim)
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsPending, seenBy("node 2"))
	w.monitor(store.IsValid, rolledBack)
	w.monitor(store.NotCommitted, rolledBack)
	w.claim(byLaterClaim)
	w.submitter(store.Failed, because)
	w.cancelled()
}

// called is a batch about which a person was called, and which goes on.
func (w *rowWalk) called() {
	w.begin("called while it settles")
	w.claim(byFirstClaim)
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsInvalid, nil)
	w.monitor(store.Undecidable, because)
	w.monitor(store.Undecidable, because)

	w.begin("called")
	w.claim(byFirstClaim)
	w.submitter(store.Failed, nil)
	w.pass(3)
	w.claim(byLaterClaim)
	w.pass(3)
	w.monitor(store.Undecidable, because)
	w.pass(1)
	w.step(byPendingOf, func() { w.pendingOf(9, w.u(0.75), w.lane()) })
	w.monitor(store.Undecidable, because)
	w.monitor(store.Doubtful, nil)
	w.monitor(store.IsPending, nil)
	w.monitor(store.NotCommitted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsInvalid, nil)
	w.monitor(store.Undecidable, because)
	w.monitor(store.Undecidable, because)
	w.monitor(store.IsPending, nil)
	w.monitor(store.IsInvalid, invalid)
	w.monitor(store.Undecidable, because)
	w.monitor(store.IsPending, nil)
	w.monitor(store.Undecidable, because)
	w.monitor(store.IsValid, nil)
	w.monitor(store.NotCommitted, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Failed, because)
	w.cancelled()
}

// ends is everything that can be requeued, and commits that are reported later.
func (w *rowWalk) ends() {
	w.begin("ends")
	w.claim(byFirstClaim)
	w.refused()
	w.acquitted()
	w.requeued()
	w.claim(byLaterClaim)
	w.settled()
	w.acquitted()
	w.requeued()
	w.claim(byLaterClaim)
	w.refused()
	w.requeued()
	w.claim(byLaterClaim)
	w.settled()
	w.requeued()
	w.cancelled()
	w.requeued()
	w.claim(byLaterClaim)
	w.refused()
	w.monitor(store.IsCommitted, receipts)

	w.begin("settled")
	w.claim(byFirstClaim)
	w.settled()
	w.requeued()
	w.monitor(store.IsCommitted, nil) // while it waits

	w.begin("late")
	w.claim(byFirstClaim)
	w.settled()
	w.monitor(store.IsCommitted, nil)
}

// commits is the ends of rows that have much to clear and much to carry.
func (w *rowWalk) commits() {
	w.begin("live")
	w.claim(byFirstClaim)
	w.submitter(store.IsCommitted, nil)
	w.veteran("expired", nil)
	w.pass(3)
	w.monitor(store.IsCommitted, nil)
	w.veteran("undecided", nil)
	w.submitter(store.Doubtful, last)
	w.monitor(store.Undecidable, because)
	w.monitor(store.IsCommitted, nil)
	w.veteran("refused", because)
	w.submitter(store.Doubtful, last)
	w.monitor(store.IsCommitted, invalid)
	w.veteran("to be decided", because)
	w.pass(3)
	w.decided(batch.NotExecutedSendAgain)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, func(o *store.Outcome) {
		last(o)
		because(o)
	})
	w.decided(batch.WasCommitted)
	w.veteran("decided", because)
	w.pass(3)
	w.monitor(store.Undecidable, because)
	w.decided(batch.NotExecutedReject)
	w.veteran("invalid", nil)
	w.pass(3)
	w.monitor(store.IsInvalid, func(o *store.Outcome) {
		invalid(o)
		o.Settle = 0
	})

	w.accepted("with receipts")
	w.monitor(store.IsCommitted, receipts)
	w.accepted("with a cost")
	w.monitor(store.IsCommitted, spends)
	w.accepted("not settled")
	w.monitor(store.IsInvalid, nil)
	w.monitor(store.IsCommitted, nil)
	w.accepted("with a verdict")
	w.monitor(store.IsInvalid, receipts)
	w.monitor(store.IsCommitted, nil)
	w.doubtful("with an error")
	w.monitor(store.IsCommitted, nil)
	w.doubtful("and without")
	w.monitor(store.IsPending, nil)
}

// withdrawn is everything that a withdrawn batch can go through.
func (w *rowWalk) withdrawn() {
	w.accepted("withdrawn and committed")
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.keepPrepared()
	w.submitter(store.Accepted, nil)
	w.withdraw()
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.keepMore()
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsValid, nil)
	w.monitor(store.IsPending, nil)
	w.monitor(store.IsCommitted, nil)

	w.veteran("withdrawn and void", because)
	w.pass(3)
	w.withdraw()
	w.monitor(store.IsVoid, because)

	w.veteran("withdrawn and decided", because)
	w.submitter(store.Doubtful, last)
	w.monitor(store.Undecidable, because)
	w.withdraw()
	w.decided(batch.NotExecutedSendAgain)
	w.claim(byLaterClaim)
	w.pass(3)
	w.decided(batch.NotExecutedReject)
}

func (w *rowWalk) withdraw() {
	w.Helper()
	w.step(byWithdraw, func() { require.NoError(w, w.fixture.withdraw(w.id)) })
}

func (w *rowWalk) accepted(id batch.ID) {
	w.Helper()
	w.begin(id)
	w.claim(byFirstClaim)
	w.submitter(store.Accepted, nil)
}

func (w *rowWalk) doubtful(id batch.ID) {
	w.Helper()
	w.begin(id)
	w.claim(byFirstClaim)
	w.submitter(store.Doubtful, because)
}

// veteran is a batch with a live claim, whose row has everything that such a row can have.
func (w *rowWalk) veteran(id batch.ID, failure func(*store.Outcome)) {
	w.Helper()
	w.begin(id)
	w.cancelled()
	w.requeued()
	w.claim(byFirstClaim)
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsPending, seenBy("node 3"))
	w.monitor(store.NotCommitted, rolledBack)
	w.claim(byLaterClaim)
	w.submitter(store.Doubtful, nil)
	w.monitor(store.NoTrace, nil)
	w.claim(byLaterClaim)
	w.submitter(store.Failed, failure)
	w.pass(3)
	w.claim(byLaterClaim)
	w.keepPrepared()
	w.pass(1)
}

// refused has the ledger refuse the batch, after an attempt that failed.
func (w *rowWalk) refused() {
	w.Helper()
	w.submitter(store.Failed, func(o *store.Outcome) {
		because(o)
		o.Delay = w.u(0.5)
	})
	w.pass(1)
	w.claim(byLaterClaim)
	w.submitter(store.Refused, func(o *store.Outcome) {
		because(o)
		o.Policy = batch.PolicyQuarantine
	})
}

// settled has the ledger decide against the batch.
func (w *rowWalk) settled() {
	w.Helper()
	w.submitter(store.Accepted, nil)
	w.monitor(store.IsInvalid, func(o *store.Outcome) {
		invalid(o)
		o.Settle = w.u(0.5)
	})
	w.pass(1)
	w.monitor(store.Settled, func(o *store.Outcome) { o.Policy = batch.PolicyQuarantine })
}

func (w *rowWalk) keepPrepared() {
	w.Helper()
	w.step(byKeep, func() { require.Equal(w, []bool{true}, w.keep(w.prepared(w.id, "prepared"))) })
	w.passed = 0 // the row has changed since
}

// keepMore adds to the bytes that are kept.
func (w *rowWalk) keepMore() {
	w.Helper()
	p := w.prepared(w.id, "prepared, and more")
	p.Was = []byte("prepared")
	w.step(byKeep, func() { require.Equal(w, []bool{true}, w.keep(p)) })
	w.passed = 0
}

func because(o *store.Outcome) {
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "why"}
}

func invalid(o *store.Outcome) {
	because(o)
	receipts(o)
}

func receipts(o *store.Outcome) {
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "no"}}
}

func spends(o *store.Outcome) { o.Spend = true }

func rolledBack(o *store.Outcome) { o.RolledBack = true }

func last(o *store.Outcome) { o.Last = true }

func seenBy(endpoint string) func(*store.Outcome) {
	return func(o *store.Outcome) { o.Endpoint = endpoint }
}

// begin takes another batch in hand.
func (w *rowWalk) begin(id batch.ID) {
	w.Helper()
	b := bt(batch.ServiceID(id), id)
	b.Budget = batch.Budget{Attempts: 99, EveryTry: true}
	w.add(b)
	w.id = id
}

// lane has only the batch in hand.
func (w *rowWalk) lane() batch.ServiceID { return batch.ServiceID(w.id) }

// step writes the row, and compares everything that can be read of it.
func (w *rowWalk) step(way string, step func()) {
	w.Helper()
	before := w.rows[w.id].row
	step()
	w.shown.add(w.fixture, way, before, w.rows[w.id].row)
	w.compare()
}

func (w *rowWalk) compare() {
	w.Helper()
	w.look(w.id, 9)
	w.look("z", 9)
	w.get(w.id)
	w.finals(w.rows[w.id].b.Key(), w.rows["z"].b.Key())
	w.list(store.ListQuery{Service: new(w.lane())})
}

func (w *rowWalk) cancelled() {
	w.Helper()
	w.step(byCancel, func() { require.NoError(w, w.cancel(w.id, "not wanted")) })
}

func (w *rowWalk) requeued() {
	w.Helper()
	w.step(byRequeue, func() { require.NoError(w, w.requeue(w.id, 0)) })
}

func (w *rowWalk) decided(ruling batch.Ruling) {
	w.Helper()
	way := byDecideEnd
	if ruling == batch.NotExecutedSendAgain {
		way = byDecide
	}
	w.step(way, func() { require.NoError(w, w.decide(w.id, ruling, "a person knows")) })
}

func (w *rowWalk) acquitted() {
	w.Helper()
	w.step(byAcquit, func() { require.NoError(w, w.acquit(w.id)) })
}

func (w *rowWalk) claim(way string) {
	w.Helper()
	w.claimBy(way, 1000.5)
}

// claimBy claims with another instance and TTL than the claim before.
func (w *rowWalk) claimBy(way string, harmless float64) {
	w.Helper()
	n, rule := w.rows[w.id].row.Attempt%2, resend(w.u(harmless), 0)
	if w.again {
		rule = resend(forEver, 0)
	}
	w.step(way, func() {
		got := w.fixture.claim(store.ClaimQuery{
			Lanes: []batch.ServiceID{w.lane()}, Limit: 9, Window: 9, TTL: w.u(1.5 + float64(n)), Resend: rule, Instance: fmt.Sprint("host ", n),
		}, the(w.id))
		require.Equal(w, way != byHandBack, len(claimedIDs(got)) == 1)
	})
	w.passed = w.rows[w.id].row.Version
}

func (w *rowWalk) submitter(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	w.outcome(w.submitted(w.id, finding), change)
}

// monitor asks about the batch, so that the store hands out the row, and records.
func (w *rowWalk) monitor(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	if w.rows[w.id].row.Monitored(w.now()) {
		w.step(byChecked, func() { w.checked(0, w.id, "z") })
		w.step(byPending, func() { w.pending(9, w.u(0.5)) })
		w.pendingOf(9, 0, w.lane())
		w.step(byPendingOf, func() { w.pendingOf(9, w.u(0.75), w.lane()) })
		w.passed = w.rows[w.id].row.Version
	}
	w.outcome(w.monitored(w.id, finding), change)
}

func (w *rowWalk) outcome(o store.Outcome, change func(*store.Outcome)) {
	w.Helper()
	if o.Was = nil; w.known {
		o.Was = w.rows[w.id].was
	}
	if change != nil {
		change(&o)
	}
	before := w.rows[w.id].row
	w.written(o)
	after := w.rows[w.id].row
	switch way, and, more := w.rules.byKnown(before, after); {
	case !w.known || w.passed != before.Version || way == "" || len(more) > 1 || trouble(before, after, more...):
		w.shown.add(w.fixture, byReading(before, after), before, after)
	case len(more) == 1:
		w.shown.change(and, more[0], after)
	default:
		w.shown.add(w.fixture, way, before, after)
	}
	w.compare()
}
