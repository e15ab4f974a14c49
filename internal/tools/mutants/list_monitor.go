package main

// monitorList breaks the decisions about a ledger's answers, where the decisions' own tests,
// the simulations and runs on simulated nodes are known to catch it.
var monitorList = []mutant{
	{
		name: "answers: receipts of a commit that was asked for are dropped", file: "monitor/decide.go", pkg: "dlt/sawtooth", test: "TestReceiptsAreKept",
		old: "\t\tv.Outcome.Receipts = st.Receipts\n",
		new: "",
	},
	{
		name: "answers: an invalid of an earlier attempt ends the present one", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideInvalidThatNamesAnotherAttempt",
		old: "case !d.f.AboutLast(d.k.Status.Attempt):",
		new: "case false:",
	},
	{
		name: "answers: an invalid of an earlier attempt is decided upon", file: "monitor/decide.go", pkg: "internal/sim", test: "TestDecisions$",
		old: "case !d.f.AboutLast(d.k.Status.Attempt):",
		new: "case false:",
	},
	{
		name: "answers: a row takes an invalid of an earlier attempt", file: "store/outcome.go", pkg: "store", test: "TestInvalidOfAnotherAttempt",
		old: "if !r.InFlight(o.Ref, o.Budget, now).AboutLast(o.Attempt) {",
		new: "if false {",
	},
	{
		name: "answers: an invalid of the first doubt ends those after it, too", file: "store/row.go", pkg: "monitor", test: "TestDecideInvalidThatNamesAnotherAttempt",
		old: "(named == f.DoubtAttempt && f.Resends == 0)",
		new: "named == f.DoubtAttempt",
	},
	{
		name: "answers: a doubt whose attempt was decided against stays open", file: "store/row.go", pkg: "monitor", test: "TestDecideInvalidThatNamesAnotherAttempt",
		old: "|| (named == f.DoubtAttempt && f.Resends == 0)",
		new: "",
	},
	{
		name: "shown: by another node", file: "monitor/data.go", pkg: "monitor", test: "TestDecideEverythingAboutWhatWasShown",
		old: "st.Reported == batch.ReportedUnknown && st.Endpoint == d.f.Seen",
		new: "st.Reported == batch.ReportedUnknown",
	},
	{
		name: "shown: an earlier attempt", file: "store/row.go", pkg: "monitor", test: "TestDecideEverythingAboutWhatWasShown",
		old: "if r.SeenAttempt != r.Attempt || ",
		new: "if false || ",
	},
	{
		name: "shown: nobody looks", file: "monitor/decide.go", pkg: "dlt/sawtooth", test: "TestTenCrashesDuringOneBatch",
		old: " && !d.forgotten() {",
		new: " {",
	},
	{
		name: "shown: it need not be", file: "monitor/decide.go", pkg: "dlt/sawtooth", test: "TestCrashesThatNobodySawThrough",
		old: " && !d.forgotten() {",
		new: " && false {",
	},
	{
		name: "shown: it need not be, by seed", file: "monitor/decide.go", pkg: "internal/sim", test: "TestParallelDecisions",
		old: " && !d.forgotten() {",
		new: " && false {",
	},
	{
		name: "shown: a fallback's word counts as that of the node which is submitted to", file: "dlt/sawtooth/status.go", pkg: "dlt/sawtooth", test: "TestAnswersNameTheNodeThatIsSubmittedTo",
		old: "if s.Endpoint != to {",
		new: "if to == \"\" {",
	},
	{
		name: "shown: an event's question does not look", file: "monitor/decide.go", pkg: "monitor", test: "TestWhoHasShownAResendIsKept",
		old: "\t\tseen = shownBy(d.f, d.k.Status, d.t)\n", new: "\t\tseen = \"\"\n",
	},
	{
		name: "shown: written with every answer", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideKeepsWhoHasShownAResend",
		old: ` || f.Seen != "" {`,
		new: " {",
	},
	{
		name: "divided: sent again for ever", file: "monitor/decide.go", pkg: ".", test: "TestADividedCircuitIsHalted",
		old: "n >= maxRollbacks {",
		new: "false {",
	},
	{
		name: "divided: what was forgotten counts as taken back", file: "monitor/data.go", pkg: "monitor", test: "TestDecideRollbacks",
		old: "st.Reported == batch.ReportedValid && d.t.Stale > 0",
		new: "d.t.Stale > 0",
	},
	{
		name: "divided: a release begins where it ended", file: "store/outcome.go", pkg: ".", test: "TestADividedCircuitIsHalted",
		old: "\t\tr.Rollbacks = 0\n",
		new: "\t\tr.Rollbacks--\n",
	},
	{
		name: "divided: only an end halts", file: "store/control.go", pkg: "store/memory", test: "TestStore/policy/a_lane_whose_ledger_takes_back_what_it_executed_is_halted,_with_the_reason",
		old: "a.Ended() || (a.Result == Written && a.Halt != \"\")",
		new: "a.Ended()",
	},
	{
		name: "divided: only an end halts (SQL)", file: "internal/sqlstore/record.go", pkg: "store/sqlite", test: "TestStore/policy/a_lane_whose_ledger_takes_back_what_it_executed_is_halted,_with_the_reason",
		old: "applied[i].Governs()",
		new: "applied[i].Ended()",
	},
	{
		name: "a batch that is committed after all stays in quarantine (SQL)", file: "internal/sqlstore/record.go", pkg: "store/sqlite", test: "TestStore/policy/two_outcomes_about_one_batch_in_one_call",
		old: "s.Now.Version == a.Row.Version {",
		new: "s.Now.Version != 0 || a.Row.Version != 0 {",
	},
	{
		name: "divided: nobody is told why", file: "notify.go", pkg: ".", test: "TestADividedCircuitIsHalted",
		old: "event.Err = errors.New(w.Applied.Halt)", new: "_ = errors.New",
	},
	{
		name: "divided: an execution that nobody can tell of waits for StuckAfter", file: "monitor/decide.go", pkg: ".", test: "TestAnExecutionWithoutATrace",
		old: "st.Reported == batch.ReportedPending || min(d.f.PostedAgo, d.k.Seen) <= d.t.Stale+evidenceTime",
		new: "true",
	},
	{
		name: "streams: a look is at all services ever", file: "monitor/streams.go", pkg: "monitor", test: "TestWhatNobodyFollowsAnyMoreIsForgotten",
		old: "\t\tst.sweep(a.looked)\n", new: "",
	},
	{
		name: "streams: without a look no service is ever forgotten", file: "monitor/streams.go", pkg: "monitor", test: "TestWhatNobodyFollowsAnyMoreIsForgotten",
		old: "} else if now.Sub(st.swept) > streamIdle {", new: "} else if false {",
	},
	{
		name: "hands: questions without one are made again and again", file: "monitor/memory.go", pkg: "monitor", test: "TestQuestionsWithoutAHandAreMadeSeldom",
		old: "m.unasked(g.rows, noHandPause, !m.hands.Hangs(g.key))", new: "m.unasked(g.rows, noHandPause/4, !m.hands.Hangs(g.key))",
	},
	{
		name: "hands: one that becomes free waits for the pause", file: "monitor/memory.go", pkg: "monitor", test: "TestAHandThatBecomesFreeTakesTheNextQuestions",
		old: "m.table.HandsFree(m.hands.Free())", new: "m.table.HandsFree(0)",
	},
	{
		name: "hands: one that becomes free asks again what was asked", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestAHandTakesNoQuestionTwice",
		old: "s != nil && s.Ask.Equal(at) {", new: "s != nil {",
	},
	{
		name: "hands: one that becomes free takes all requests", file: "internal/inhand/table.go", pkg: "monitor", test: "TestAHandThatBecomesFreeTakesTheNextQuestions",
		old: "t.entries.hasten(r.keys, r.ask, now) {", new: "t.entries.hasten(r.keys, r.ask, now) && false {",
	},
	{
		name: "rare questions: the first sight is forgotten between them", file: "internal/inhand/table.go", pkg: "internal/inhand", test: "TestTheFirstSightIsKeptWhereQuestionsAreRare",
		old: "4*o.TTL, 4*o.PollInterval)", new: "4*o.TTL)",
	},
	{
		name: "an accepted batch without a trace waits for a whole poll", file: "monitor/decide.go", pkg: "monitor", test: "TestAnAcceptedBatchWithoutATraceIsAskedAboutSoon",
		old: "left = min(left, d.next())", new: "left = max(left, 0)",
	},
	{
		name: "outage: the first \"not yet\" after it calls a person", file: "store/deadline.go", pkg: "store", test: "TestWhatWaitsWithADoubtCanBeDecided",
		old: "o.By == batch.BySubmitter && was.Error == nil:",
		new: "false:",
	},
	{
		name: "answers: a verdict without an attempt ends one that may yet arrive", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideVerdictOfAnEarlierAttempt",
		old: "\tif d.maybeEarlier() {\n\t\treturn d.wait(d.late(), \"the ledger says failed, and the last attempt may yet arrive\")\n\t}\n",
		new: "",
	},
	{
		name: "quiet: an answer about one row silences its ledger", file: "monitor/ledger.go", pkg: "monitor", test: "TestQuietOfOneRow",
		old: `if row := g.onlyRow(); row != "" && dlt.Kind(err) == batch.KindDoubt {`,
		new: `if row := g.onlyRow(); row != "" && false {`,
	},
	{
		name: "quiet: a small request to a ledger that is gone silences nothing", file: "monitor/ledger.go", pkg: "monitor", test: "TestQuietOfOneRow",
		old: `row != "" && dlt.Kind(err) == batch.KindDoubt {`,
		new: `row != "" && err != nil {`,
	},
	{
		name: "quiet: keys are remembered for ever", file: "monitor/quiet.go", pkg: "monitor", test: "TestQuietsAreForgotten",
		old: "\t\ts.shrink(time.Now())\n",
		new: "",
	},
	{
		name: "clock: what is due far ahead is never asked about", file: "monitor/monitor.go", pkg: ".", test: "TestAClockThatWasAheadSilencesNothing",
		old: ", Ahead: m.ahead()}",
		new: "}",
	},
	{
		name: "clock: a check far ahead is not due in PostgreSQL", file: "store/postgres/pending.go", pkg: "internal/integration", test: "TestStore$/^pq$/^clock",
		old: "ints(slow), sqlstore.Ahead(q), ",
		new: "ints(slow), sqlstore.Ahead(store.PendingQuery{}), ",
	},
	{
		name: "clock: a check far ahead is not due in SQLite", file: "store/sqlite/pending.go", pkg: "store/sqlite", test: "TestStore$/^clock",
		old: "sqlstore.ToMicro(now) + sqlstore.Ahead(q), ",
		new: "sqlstore.ToMicro(now) + sqlstore.Ahead(store.PendingQuery{}), ",
	},
	{
		name: "trace: a request has the time limit of its caller alone", file: "submitter/attempt.go", pkg: ".", test: "TestTraceRequest",
		old: "ctx, stop = s.bounded(ctx, until)",
		new: "_, stop = s.bounded(ctx, until)",
	},
	{
		name: "a decision after evidence lacks the ledger's words", file: "monitor/decide.go", pkg: "monitor", test: "TestADecisionHasTheLedgersWords",
		old: "d.waits(\"the ledger goes on saying in flight\" + d.words())", new: "d.waits(\"the ledger goes on saying in flight\")",
	},
}
