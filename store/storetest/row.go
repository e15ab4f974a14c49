package storetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func rowTests() []test {
	all := store.CanKeepPrepared | store.CanOperate | store.CanControl | store.CanInspect // each of these writes fields of its own
	return []test{
		{name: "every field, where the caller hands back the row", needs: all, run: func(f *fixture) { testRowFields(f, true) }},
		{name: "every field, where the store reads the row", needs: all, run: func(f *fixture) { testRowFields(f, false) }},
	}
}

// rowScenario takes batches through everything that writes a row. After each step it reads the row
// in every way.
type rowScenario struct {
	*fixture
	id            batch.ID // the present batch of the scenario
	rules         *rowRules
	passesRow     bool  // true if outcomes come with the row that the store returned
	passedVersion int64 // the version of that row
	resendable    bool  // true if the claimed batches may be sent again for ever
	observations  fieldObservations
}

// testRowFields shows each field of a row with a value other than zero, and shows each field
// change, in each way that the rules allow. So a statement that forgets a column fails, and so
// does a new field of store.Row that no step of the scenario sets.
func testRowFields(f *fixture, known bool) {
	w := &rowScenario{fixture: f, rules: testNewRowRules(f), passesRow: known, observations: fieldObservations{}}
	f.add(newBatch("z", "z")) // a write to a wrong row shows in this batch
	f.claimExactly("z")
	w.stepThroughAttempts()
	w.stepAfterCall()
	w.stepThroughEnds()
	w.stepThroughCommits()
	w.resendable = true
	w.stepThroughWithdrawn()
	w.rules.requireComplete(w.observations, known)
}

// stepThroughAttempts takes batches through everything that can happen before their end.
func (w *rowScenario) stepThroughAttempts() {
	w.beginWithBatch("attempts")
	w.cancelBatch()
	w.requeueBatch()
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Failed, nil)
	w.passUnits(3)
	w.claim(wayLaterClaim)
	w.passUnits(3) // no outcome is recorded before the claim has expired
	w.takeStep(wayPendingOf, func() { w.pendingOf(9, w.units(0.75), w.lane()) })
	w.recordAsMonitor(store.Doubtful, nil)
	w.recordAsMonitor(store.IsPending, setEndpoint("node 1"))
	w.recordAsMonitor(store.IsPending, setEndpoint("node 2"))
	w.recordAsMonitor(store.IsPending, setSpend)
	w.recordAsMonitor(store.PutOff, func(o *store.Outcome) { o.StuckAfter = w.units(0.01) })
	w.recordAsMonitor(store.NotCommitted, setRolledBack)

	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, setError)
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.passUnits(1)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsPending, setEndpoint("node 2"))
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.passUnits(1)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Unposted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, func(o *store.Outcome) { o.ForgottenFor = w.units(20_000) })
	w.recordAsMonitor(store.NotCommitted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, setLast)
	w.recordAsMonitor(store.Undecidable, setError)
	w.keepPrepared()
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.Undecidable, setError)
	w.decideBatch(batch.NotExecutedSendAgain)
	w.claim(wayLaterClaim)
	w.passUnits(3)
	w.recordAsMonitor(store.IsVoid, nil)
	w.claim(wayLaterClaim)
	w.keepPrepared()
	w.recordAsSubmitter(store.Unposted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Unposted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, nil)
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Unposted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, nil)
	w.recordAsMonitor(store.NoTrace, nil)
	w.claimBy(wayLaterClaim, 2.5)
	w.recordAsSubmitter(store.Failed, setError)
	w.passUnits(3)
	w.claim(wayHandBack)
	w.recordAsMonitor(store.IsInvalid, nil)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.IsInvalid, setErrorAndReceipts)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.IsInvalid, nil)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.IsValid, nil)
	w.recordAsMonitor(store.NotCommitted, func(o *store.Outcome) { o.Halt = "why" })
	w.release(w.lane())
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsPending, setEndpoint("node 2"))
	w.recordAsMonitor(store.IsValid, setRolledBack)
	w.recordAsMonitor(store.NotCommitted, setRolledBack)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Failed, setError)
	w.cancelBatch()
}

// stepAfterCall goes on with a batch after a person was called about it.
func (w *rowScenario) stepAfterCall() {
	w.beginWithBatch("called while it settles")
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsInvalid, nil)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.Undecidable, setError)

	w.beginWithBatch("called")
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Failed, nil)
	w.passUnits(3)
	w.claim(wayLaterClaim)
	w.passUnits(3)
	w.recordAsMonitor(store.Undecidable, setError)
	w.passUnits(1)
	w.takeStep(wayPendingOf, func() { w.pendingOf(9, w.units(0.75), w.lane()) })
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.Doubtful, nil)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.NotCommitted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsInvalid, nil)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.IsInvalid, setErrorAndReceipts)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.IsValid, nil)
	w.recordAsMonitor(store.NotCommitted, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Failed, setError)
	w.cancelBatch()
}

// stepThroughEnds takes batches through all ends after which they can be requeued, and through
// commits that are reported after the end.
func (w *rowScenario) stepThroughEnds() {
	w.beginWithBatch("ends")
	w.claim(wayFirstClaim)
	w.failThenRefuse()
	w.acquitBatch()
	w.requeueBatch()
	w.claim(wayLaterClaim)
	w.settleAsInvalid()
	w.acquitBatch()
	w.requeueBatch()
	w.claim(wayLaterClaim)
	w.failThenRefuse()
	w.requeueBatch()
	w.claim(wayLaterClaim)
	w.settleAsInvalid()
	w.requeueBatch()
	w.cancelBatch()
	w.requeueBatch()
	w.claim(wayLaterClaim)
	w.failThenRefuse()
	w.recordAsMonitor(store.IsCommitted, setReceipts)

	w.beginWithBatch("settled")
	w.claim(wayFirstClaim)
	w.settleAsInvalid()
	w.requeueBatch()
	w.recordAsMonitor(store.IsCommitted, nil) // while the batch waits

	w.beginWithBatch("late")
	w.claim(wayFirstClaim)
	w.settleAsInvalid()
	w.recordAsMonitor(store.IsCommitted, nil)
}

// stepThroughCommits commits batches in whose rows a commit has to clear many fields and keep
// many.
func (w *rowScenario) stepThroughCommits() {
	w.beginWithBatch("live")
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.IsCommitted, nil)
	w.makeBatchWithHistory("expired", nil)
	w.passUnits(3)
	w.recordAsMonitor(store.IsCommitted, nil)
	w.makeBatchWithHistory("undecided", nil)
	w.recordAsSubmitter(store.Doubtful, setLast)
	w.recordAsMonitor(store.Undecidable, setError)
	w.recordAsMonitor(store.IsCommitted, nil)
	w.makeBatchWithHistory("refused", setError)
	w.recordAsSubmitter(store.Doubtful, setLast)
	w.recordAsMonitor(store.IsCommitted, setErrorAndReceipts)
	w.makeBatchWithHistory("to be decided", setError)
	w.passUnits(3)
	w.decideBatch(batch.NotExecutedSendAgain)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, func(o *store.Outcome) {
		setLast(o)
		setError(o)
	})
	w.decideBatch(batch.WasCommitted)
	w.makeBatchWithHistory("decided", setError)
	w.passUnits(3)
	w.recordAsMonitor(store.Undecidable, setError)
	w.decideBatch(batch.NotExecutedReject)
	w.makeBatchWithHistory("invalid", nil)
	w.passUnits(3)
	w.recordAsMonitor(store.IsInvalid, func(o *store.Outcome) {
		setErrorAndReceipts(o)
		o.Settle = 0
	})

	w.makeAccepted("with receipts")
	w.recordAsMonitor(store.IsCommitted, setReceipts)
	w.makeAccepted("with a cost")
	w.recordAsMonitor(store.IsCommitted, setSpend)
	w.makeAccepted("not settled")
	w.recordAsMonitor(store.IsInvalid, nil)
	w.recordAsMonitor(store.IsCommitted, nil)
	w.makeAccepted("with a verdict")
	w.recordAsMonitor(store.IsInvalid, setReceipts)
	w.recordAsMonitor(store.IsCommitted, nil)
	w.makeDoubtful("with an error")
	w.recordAsMonitor(store.IsCommitted, nil)
	w.makeDoubtful("and without")
	w.recordAsMonitor(store.IsPending, nil)
}

// stepThroughWithdrawn takes withdrawn batches through everything that can happen to them.
func (w *rowScenario) stepThroughWithdrawn() {
	w.makeAccepted("withdrawn and committed")
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.keepPrepared()
	w.recordAsSubmitter(store.Accepted, nil)
	w.withdraw()
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.keepGrownPrepared()
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsValid, nil)
	w.recordAsMonitor(store.IsPending, nil)
	w.recordAsMonitor(store.IsCommitted, nil)

	w.makeBatchWithHistory("withdrawn and void", setError)
	w.passUnits(3)
	w.withdraw()
	w.recordAsMonitor(store.IsVoid, setError)

	w.makeBatchWithHistory("withdrawn and decided", setError)
	w.recordAsSubmitter(store.Doubtful, setLast)
	w.recordAsMonitor(store.Undecidable, setError)
	w.withdraw()
	w.decideBatch(batch.NotExecutedSendAgain)
	w.claim(wayLaterClaim)
	w.passUnits(3)
	w.decideBatch(batch.NotExecutedReject)
}

func (w *rowScenario) withdraw() {
	w.Helper()
	w.takeStep(wayWithdraw, func() { require.NoError(w, w.fixture.withdraw(w.id)) })
}

func (w *rowScenario) makeAccepted(id batch.ID) {
	w.Helper()
	w.beginWithBatch(id)
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Accepted, nil)
}

func (w *rowScenario) makeDoubtful(id batch.ID) {
	w.Helper()
	w.beginWithBatch(id)
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Doubtful, setError)
}

// makeBatchWithHistory adds a batch and claims it often, so that its row has every field that the
// row of a batch with a live claim can have.
func (w *rowScenario) makeBatchWithHistory(id batch.ID, failure func(*store.Outcome)) {
	w.Helper()
	w.beginWithBatch(id)
	w.cancelBatch()
	w.requeueBatch()
	w.claim(wayFirstClaim)
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsPending, setEndpoint("node 3"))
	w.recordAsMonitor(store.NotCommitted, setRolledBack)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Doubtful, nil)
	w.recordAsMonitor(store.NoTrace, nil)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Failed, failure)
	w.passUnits(3)
	w.claim(wayLaterClaim)
	w.keepPrepared()
	w.passUnits(1)
}

// failThenRefuse records an attempt that failed, and then a second attempt that the ledger
// refused.
func (w *rowScenario) failThenRefuse() {
	w.Helper()
	w.recordAsSubmitter(store.Failed, func(o *store.Outcome) {
		setError(o)
		o.Delay = w.units(0.5)
	})
	w.passUnits(1)
	w.claim(wayLaterClaim)
	w.recordAsSubmitter(store.Refused, func(o *store.Outcome) {
		setError(o)
		o.Policy = batch.PolicyQuarantine
	})
}

// settleAsInvalid records that the ledger found the batch invalid, and that this is settled. The
// batch then ends in quarantine.
func (w *rowScenario) settleAsInvalid() {
	w.Helper()
	w.recordAsSubmitter(store.Accepted, nil)
	w.recordAsMonitor(store.IsInvalid, func(o *store.Outcome) {
		setErrorAndReceipts(o)
		o.Settle = w.units(0.5)
	})
	w.passUnits(1)
	w.recordAsMonitor(store.Settled, func(o *store.Outcome) { o.Policy = batch.PolicyQuarantine })
}

func (w *rowScenario) keepPrepared() {
	w.Helper()
	w.takeStep(wayKeepPrepared, func() { require.Equal(w, []bool{true}, w.keepBytes(w.prepared(w.id, "prepared"))) })
	w.passedVersion = 0 // the row has changed since
}

// keepGrownPrepared appends to the kept bytes.
func (w *rowScenario) keepGrownPrepared() {
	w.Helper()
	p := w.prepared(w.id, "prepared, and more")
	p.Was = []byte("prepared")
	w.takeStep(wayKeepPrepared, func() { require.Equal(w, []bool{true}, w.keepBytes(p)) })
	w.passedVersion = 0
}

func setError(o *store.Outcome) {
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "why"}
}

func setErrorAndReceipts(o *store.Outcome) {
	setError(o)
	setReceipts(o)
}

func setReceipts(o *store.Outcome) {
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "no"}}
}

func setSpend(o *store.Outcome) { o.Spend = true }

func setRolledBack(o *store.Outcome) { o.RolledBack = true }

func setLast(o *store.Outcome) { o.Last = true }

func setEndpoint(endpoint string) func(*store.Outcome) {
	return func(o *store.Outcome) { o.Endpoint = endpoint }
}

// beginWithBatch adds a batch. All steps of the scenario are about this batch until the next
// begin.
func (w *rowScenario) beginWithBatch(id batch.ID) {
	w.Helper()
	b := newBatch(batch.ServiceID(id), id)
	b.Budget = batch.Budget{Attempts: 99, EveryTry: true}
	w.add(b)
	w.id = id
}

// lane returns the lane of the scenario's present batch, which has no other batch.
func (w *rowScenario) lane() batch.ServiceID { return batch.ServiceID(w.id) }

// takeStep runs one step that writes the row, and compares everything that can be read of the row.
func (w *rowScenario) takeStep(way string, takeStep func()) {
	w.Helper()
	before := w.batches[w.id].row
	takeStep()
	w.observations.add(w.fixture, way, before, w.batches[w.id].row)
	w.compare()
}

func (w *rowScenario) compare() {
	w.Helper()
	w.look(w.id, 9)
	w.look("z", 9)
	w.get(w.id)
	w.finals(w.batches[w.id].batch.Key(), w.batches["z"].batch.Key())
	w.list(store.ListQuery{Service: new(w.lane())})
}

func (w *rowScenario) cancelBatch() {
	w.Helper()
	w.takeStep(wayCancel, func() { require.NoError(w, w.cancel(w.id, "not wanted")) })
}

func (w *rowScenario) requeueBatch() {
	w.Helper()
	w.takeStep(wayRequeue, func() { require.NoError(w, w.requeue(w.id, 0)) })
}

func (w *rowScenario) decideBatch(ruling batch.Ruling) {
	w.Helper()
	way := wayDecideEnd
	if ruling == batch.NotExecutedSendAgain {
		way = wayDecide
	}
	w.takeStep(way, func() { require.NoError(w, w.decide(w.id, ruling, "a person knows")) })
}

func (w *rowScenario) acquitBatch() {
	w.Helper()
	w.takeStep(wayAcquit, func() { require.NoError(w, w.acquit(w.id)) })
}

func (w *rowScenario) claim(way string) {
	w.Helper()
	w.claimBy(way, 1000.5)
}

// claimBy claims with another instance and another TTL than the claim before.
func (w *rowScenario) claimBy(way string, harmless float64) {
	w.Helper()
	n, rule := w.batches[w.id].row.Attempt%2, resendRule(w.units(harmless), 0)
	if w.resendable {
		rule = resendRule(forEver, 0)
	}
	w.takeStep(way, func() {
		got := w.fixture.claim(store.ClaimQuery{
			Lanes: []batch.ServiceID{w.lane()}, Limit: 9, Window: 9, TTL: w.units(1.5 + float64(n)), Resend: rule, Instance: fmt.Sprint("host ", n),
		}, chooseOnly(w.id))
		require.Equal(w, way != wayHandBack, len(claimedIDs(got)) == 1)
	})
	w.passedVersion = w.batches[w.id].row.Version
}

func (w *rowScenario) recordAsSubmitter(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	w.recordOutcome(w.submitterOutcome(w.id, finding), change)
}

// recordAsMonitor calls Pending, so that the store returns the row, and then records the finding.
func (w *rowScenario) recordAsMonitor(finding store.Finding, change func(*store.Outcome)) {
	w.Helper()
	if w.batches[w.id].row.Monitored(w.now()) {
		w.takeStep(wayChecked, func() { w.setNextCheck(0, w.id, "z") })
		w.takeStep(wayPending, func() { w.pending(9, w.units(0.5)) })
		w.pendingOf(9, 0, w.lane())
		w.takeStep(wayPendingOf, func() { w.pendingOf(9, w.units(0.75), w.lane()) })
		w.passedVersion = w.batches[w.id].row.Version
	}
	w.recordOutcome(w.monitorOutcome(w.id, finding), change)
}

func (w *rowScenario) recordOutcome(o store.Outcome, change func(*store.Outcome)) {
	w.Helper()
	if o.Was = nil; w.passesRow {
		o.Was = w.batches[w.id].lastReturned
	}
	if change != nil {
		change(&o)
	}
	before := w.batches[w.id].row
	w.recordAll(o)
	after := w.batches[w.id].row
	switch way, and, more := w.rules.wayOfKnownRow(before, after); {
	case !w.passesRow || w.passedVersion != before.Version || way == "" || len(more) > 1 || hasErrorOrReceipts(before, after, more...):
		w.observations.add(w.fixture, wayOfReadRow(before, after), before, after)
	case len(more) == 1:
		w.observations.change(and, more[0], after)
	default:
		w.observations.add(w.fixture, way, before, after)
	}
	w.compare()
}
