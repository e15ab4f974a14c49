package main

// sim returns the arguments for enough seeds of layer one to catch the mutant.
func sim(n string) []string { return []string{"-sim.seeds=" + n} }

// list is every way of breaking the code that a test is known to catch. Each names the
// promise or rule of docs/design.md that it breaks.
var list = []mutant{
	// Order (promise 2).
	{
		name: "serial admits two", file: "queuer/strategy.go", pkg: "queuer", test: "TestSerial.*",
		old: "return []batch.Run{{0}}", new: "return []batch.Run{{0}, {len(lane.Batches) - 1}}",
	},
	{
		name: "the lane moves on while one is Submitting", file: "batch/state.go", pkg: "internal/sim", test: "TestDecisions", args: sim("300"),
		old: "func (s State) Claimable() bool { return ", new: "func (s State) Claimable() bool { return s == Submitting || ",
	},
	{
		name: "the lane moves on while one is Pending, Valid or unsettled", file: "queuer/strategy.go", pkg: "queuer", test: "TestSerial.*",
		old: "if !b.State.Claimable() {", new: "if b.State == batch.Submitting {",
	},
	{
		name: "parallel: what is being submitted is not in the way", file: "queuer/parallel.go", pkg: "internal/sim", test: "TestParallelDecisions", args: sim("400"),
		old: "if !b.State.Claimable() {\n\t\t\tbefore.Add",
		new: "if !b.State.Claimable() && b.State != batch.Submitting {\n\t\t\tbefore.Add",
	},
	{
		name: "parallel: a write may pass a read (decisions)", file: "batch/footprints.go", pkg: "internal/sim", test: "TestParallelDecisions", args: sim("400"),
		old: "\tmeets = meets || n.writings.other(who) || write && n.reads.other(who)\n",
		new: "\tmeets = meets || n.writings.other(who)\n",
	},
	{
		name: "parallel: a write may pass a read (Runner)", file: "batch/footprints.go", pkg: "internal/sim", test: "TestParallelRunner", args: []string{"-sim.runner.seeds=200"},
		old: "\tmeets = meets || n.writings.other(who) || write && n.reads.other(who)\n",
		new: "\tmeets = meets || n.writings.other(who)\n",
	},
	{
		name: "parallel: what lies below is not in the way", file: "batch/footprints.go", pkg: "internal/sim", test: "TestParallelRunner", args: []string{"-sim.runner.seeds=200"},
		old: "\tmeets = meets || n.writings.other(who) || write && n.reads.other(who)\n",
		new: "\tmeets = meets || n.written.other(who) || write && n.read.other(who)\n",
	},
	{
		name: "parallel: what must wait holds up nothing", file: "queuer/parallel.go", pkg: "queuer", test: "TestParallelSelect",
		old: "if !before.Add(b.Footprint) && b.Ready {",
		new: "if b.Ready && !before.Add(b.Footprint) {",
	},
	{
		name: "what a lane that hangs has claimed keeps others from being claimed", file: "submitter/submitter.go", pkg: "internal/sim", test: "TestAParallelLaneHangs",
		old: "if !crowded || !s.pool.Hangs(",
		new: "if !crowded || crowded || !s.pool.Hangs(",
	},
	{
		name: "a full pool closes an open gate", file: "submitter/gate.go", pkg: "submitter", test: "TestPressureHalvesAndSuccessAddsOne",
		old: "case g.openAt.IsZero() && g.limit == g.size:",
		new: "case false:",
	},
	{
		name: "a request that hangs keeps the place of others under pressure", file: "submitter/gate.go", pkg: ".", test: "TestHangingServicesDoNotKeepTheOnlyPlace",
		old: "if now.Sub(began) < g.patience {",
		new: "if !began.After(now) {",
	},
	{
		name: "a probe that hangs is the only one", file: "submitter/gate.go", pkg: "submitter", test: "TestAHangingRequestKeepsNoPlace",
		old: "!g.probeAt.IsZero() && now.Sub(g.probeAt) < g.patience",
		new: "!g.probeAt.IsZero()",
	},
	{
		name: "a late answer closes a gate that was opened since", file: "submitter/gate.go", pkg: "submitter", test: "TestALateAnswerIsNoNews",
		old: "if wasClosed && !t.probe || t.began.Before(g.openedAt) {",
		new: "if wasClosed && !t.probe {",
	},
	{
		name: "a probe that hung delays the next one", file: "submitter/gate.go", pkg: "submitter", test: "TestAHangingRequestKeepsNoPlace",
		old: "if last && wasClosed {",
		new: "if t.probe && wasClosed {",
	},
	{
		name: "a deep lane is read at every hint", file: "queuer/claim.go", pkg: "queuer", test: "TestADeepLaneRests",
		old: "\t\tc.lanes.Rest(l.service, now.Add(time.Duration(l.read)*restPerBatch))\n",
		new: "",
	},
	{
		name: "a deep lane rests though nothing was read", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestADeepLaneRests",
		old: "\tif at.Before(now) {\n",
		new: "\tif !e.out && !e.until.IsZero() && e.until.Before(now) {\n\t\te.until = now.Add(time.Millisecond)\n\t}\n\tif at.Before(now) {\n",
	},
	{
		name: "the lane moves on while one is unsettled", file: "queuer/strategy.go", pkg: "queuer", test: "TestSerial.*",
		old: "if !b.State.Claimable() {", new: "if !b.State.Claimable() && b.State != batch.Invalid {",
	},
	{
		name: "fence by nothing", file: "store/outcome.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "case o.Version != r.Version || r.Final():", new: "case r.Final():",
	},
	{
		name: "the monitor's version is read after asking", file: "store/outcome.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "case o.Version != r.Version || r.Final():", new: "case (o.By != batch.ByMonitor && o.Version != r.Version) || r.Final():",
	},
	{
		name: "fence by attempt only", file: "store/outcome.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "case o.Version != r.Version || r.Final():", new: "case (o.Attempt != 0 && o.Attempt != r.Attempt) || r.Final():",
	},
	{
		name: "claim expiry ignored: the monitor takes a live claim", file: "store/row.go", pkg: "store", test: "Test.*",
		old: "r.ClaimExpires.After(now) && !r.ended()", new: "r.ClaimExpires.After(now.Add(time.Hour)) && !r.ended()",
	},
	{
		name: "a fenced Committed is lost", file: "store/outcome.go", pkg: "internal/sim", test: "TestDecisions", args: sim("900"),
		old: "case o.Finding == IsCommitted:\n\t\tres.Breach = r.Final()", new: "case o.Finding == IsCommitted && o.Version == r.Version:\n\t\tres.Breach = r.Final()",
	},

	// At most once in effect (promise 3).
	{
		name: "what is minded gets no older", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAsksWithoutTheStore",
		old: "\tf.PostedAgo += d\n", new: "",
	},
	{
		name: "what is minded is the store's to give as well", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAsksWithoutTheStore",
		old: "\tcase asks, f.Live &&", new: "\tcase f.Live &&",
	},
	{
		name: "Grace ignored", file: "monitor/decide.go", pkg: "monitor", test: "TestDecide.*",
		old: "if age < t.Grace {", new: "if age < 0 {",
	},
	{
		name: "ResendQuiet ignored", file: "monitor/decide.go", pkg: "monitor", test: "TestDecide.*",
		old: "if f.Resends > 0 && f.PostedAgo < t.ResendQuiet && !d.forgotten() {", new: "if f.Resends > 1000 {",
	},
	{
		name: "LateArrival ignored", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "if late > 0 {", new: "if late > 1<<62 {",
	},
	{
		name: "resend_until ignored", file: "store/resend.go", pkg: "store/memory", test: "TestStore/claim/what_cannot_be_resent_goes_back_in_doubt",
		old: "return r.DoubtAttempt == 0 || rule.Allows(r.ResendUntil.Sub(now), ttl)", new: "return true",
	},
	{
		name: "doubt resent at once", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("300"),
		old: "again := d.spendable() && (store.Resend{LateArrival: t.LateArrival}).Allows(d.resendLeft(), d.r.TTL)", new: "again := d.spendable()",
	},
	{
		name: "a doubt counts as a failure", file: "submitter/judge.go", pkg: "internal/sim", test: "TestDecisions", args: sim("300"),
		old: "\tdefault:\n\t\to.Finding = store.Doubtful", new: "\tdefault:\n\t\to.Finding = store.Failed",
	},
	{
		name: "a doubt counts as a failure, under kill -9", file: "submitter/judge.go", pkg: "internal/crash", test: "TestKillUnforgiving",
		old: "\tdefault:\n\t\to.Finding = store.Doubtful", new: "\tdefault:\n\t\to.Finding = store.Failed",
	},
	{
		name: "an earlier doubt forgotten after a later certain failure", file: "store/outcome.go", pkg: "store", test: "Test.*",
		old: "if r.DoubtAttempt == r.Attempt {", new: "if r.DoubtAttempt != 0 {",
	},
	{
		name: "an INVALID from before a requeue believed", file: "monitor/decide.go", pkg: "monitor", test: "TestDecide.*",
		old: "case d.f.Requeued && d.ended() < d.t.Settle:", new: "case d.f.Requeued && d.ended() < 0:",
	},
	{
		name: "an INVALID is final at once", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "v.Outcome.Settle = d.t.Settle\n\tv.Outcome.Receipts", new: "v.Outcome.Settle = 0\n\tv.Outcome.Receipts",
	},
	{
		name: "a settled INVALID without asking again", file: "store/outcome.go", pkg: "store", test: "Test.*",
		old: "if r.State != batch.Invalid || wait > 0 && (o.Settle <= 0 || wait <= o.Settle) {", new: "if r.State != batch.Invalid || wait > 0 && false {",
	},

	// Claims and requests (promise 4).
	{
		name: "a request outlives its claim", file: "submitter/attempt.go", pkg: "submitter", test: "Test.*",
		old: "return wall.Until(until) >= s.o.RequestTimeout", new: "return wall.Until(until) >= -1<<62",
	},
	{
		name: "quick retry after doubt", file: "submitter/attempt.go", pkg: "submitter", test: "Test.*",
		old: "if kind := dlt.Kind(err); kind != batch.KindBusy && (kind != batch.KindUnavailable || s.o.Reliant) {", new: "if kind := dlt.Kind(err); kind == \"\" || kind == batch.KindRejected {",
	},
	{
		name: "attempt not counted by the claim", file: "store/row.go", pkg: "store", test: "Test.*",
		old: "\tr.Attempt++\n", new: "",
	},
	{
		name: "backoff ignored", file: "store/row.go", pkg: "store", test: "Test.*",
		old: "return r.State.Claimable() && !r.NotBefore.After(now)", new: "return r.State.Claimable()",
	},
	{
		name: "drain skipped", file: "submitter/submitter.go", pkg: "submitter", test: "Test.*",
		old: "\tfor _, r := range queue {\n\t\ts.over(r)\n\t\ts.Return(r.Batches)\n\t}\n", new: "\t_ = queue\n",
	},
	{
		name: "claimed but unposted not put back", file: "submitter/submitter.go", pkg: "submitter", test: "Test.*",
		old: "\t\tif err != nil {\n\t\t\ts.Return(r.Batches[i+known:])\n", new: "\t\tif err != nil {\n",
	},

	// Budgets and misconfiguration (promise 10).
	{
		name: "busy spends the budget", file: "submitter/judge.go", pkg: "submitter", test: "TestJudge.*",
		old: "case batch.KindBusy, batch.KindUnavailable:\n\t\to.Finding = store.Failed\n", new: "case batch.KindBusy, batch.KindUnavailable:\n\t\to.Finding = store.Failed\n\t\to.Spend = true\n",
	},
	{
		name: "misconfiguration rejects", file: "submitter/judge.go", pkg: "submitter", test: "TestJudge.*",
		old: "case batch.KindMisconfigured:\n\t\to.Finding = store.Failed", new: "case batch.KindMisconfigured:\n\t\to.Finding = store.Refused",
	},
	{
		name: "statuses matched by position", file: "monitor/ledger.go", pkg: "monitor", test: "Test.*",
		old: "byID[statuses[i].ID] = &statuses[i]", new: "byID[g.rows[min(i, len(g.rows)-1)].Key.ID] = &statuses[i]",
	},
	{
		name: "one bad row blocks its group", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "Test.*",
		old: "if len(group) == 1 || splits == 0 || late {", new: "if len(group) >= 1 || splits == 0 || late {",
	},
	{
		name: "a hanging service delays others", file: "internal/pool/pool.go", pkg: "internal/pool", test: "Test.*",
		old: "if slow && p.slow >= p.slowSize() ||", new: "if slow && p.brisk >= p.size ||",
	},
	{
		name: "a request that hangs keeps its place", file: "internal/pool/pool.go", pkg: "internal/pool", test: "Test.*",
		old: "if h.done || h.slow || p.slow >= p.size {", new: "if p.size > 0 {",
	},
	// Mutants of an adversarial review, which the simulation now catches.
	{
		name: "Grace ignored (simulated)", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "if age < t.Grace {", new: "if age < 0 {",
	},
	{
		name: "ResendQuiet ignored (simulated)", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("900"),
		old: "if f.Resends > 0 && f.PostedAgo < t.ResendQuiet && !d.forgotten() {", new: "if f.Resends > 1000 {",
	},
	{
		name: "resends are not counted", file: "store/row.go", pkg: "internal/sim", test: "TestDecisions", args: sim("900"),
		old: "\t\tr.Resends++\n", new: "",
	},
	{
		name: "an exhausted budget is sent again after a doubt", file: "monitor/data.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "return !d.f.Refused && !d.f.Budget.Exhausted(d.f.Spent)", new: "return !d.f.Refused",
	},
	{
		name: "a refusal forgotten when the doubt is resolved", file: "monitor/data.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "return !d.f.Refused && !d.f.Budget.Exhausted(d.f.Spent)", new: "return !d.f.Budget.Exhausted(d.f.Spent)",
	},
	{
		name: "a failure of another attempt counts", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideFailedThatNamesAnEarlierAttempt",
		old: "if st.Attempt != 0 && st.Attempt < d.f.Attempt {", new: "if false {",
	},
	{
		name: "a failure of an earlier attempt leaves the one in hand to a person", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideFailedThatNamesAnEarlierAttempt",
		old: "if st.Attempt != 0 && st.Attempt < d.f.Attempt {\n\t\treturn d.noTrace()", new: "if st.Attempt != 0 && st.Attempt < d.f.Attempt {\n\t\treturn d.undecidable(\"\")",
	},
	{
		name: "a recorded failure is recorded again and again", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "if d.earlierOnly() && (d.f.Refused || (d.f.Ended && d.f.Failures > 0)) {", new: "if false {",
	},
	{
		name: "every try is not spent by the claim", file: "store/lane.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "\t\t\t\tr.Row.Spent++", new: "\t\t\t\t_ = r.Row.Spent",
	},
	{
		name: "claims do not know the budget", file: "store/lane.go", pkg: "internal/sim", test: "TestDecisions", args: sim("600"),
		old: "Failures: r.Row.Failures, Budget: q.budget(r.Key.Service, r.Budget),", new: "Failures: r.Row.Failures,",
	},
	{
		name: "the database's clock is trusted that a claim is over", file: "monitor/decide.go", pkg: "store/memory", test: "TestClockThatStepsForward",
		old: "if !f.Ended { //", new: "if false { //",
	},
	{
		name: "what was prepared is posted by, whether it was kept or not", file: "submitter/prepare.go", pkg: "submitter", test: "TestNothingIsPostedThatIsNotKept",
		old: "return kept, did, nil", new: "return kept, did || true, nil",
	},
	{
		name: "every attempt prepares anew", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsKeptIsNotPreparedAgain",
		old: "t.Prepares && (c.Prepared == nil || t.Renews)", new: "t.Prepares",
	},
	{
		name: "the monitor asks without what was prepared", file: "monitor/ledger.go", pkg: "dlt/canton/cantontest", test: "TestPreparedOutlivesItsProcess",
		old: "attempts[i] = batch.Attempt{Key: f.Key, Number: f.Attempt, Prepared: f.Prepared}", new: "attempts[i] = batch.Attempt{Key: f.Key, Number: f.Attempt}",
	},
}
