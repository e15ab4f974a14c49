package main

// notYetList breaks the meaning of a ledger's "not yet" about one batch (dlt.ErrNotYet).
var notYetList = []mutant{
	{
		name: "not yet: it pauses the whole ledger", file: "submitter/gates.go", pkg: ".", test: "TestNotYetHoldsItsLaneOnly",
		old: "case \"\", batch.KindRejected, batch.KindNotYet:\n\t\tres = fine\n\tcase batch.KindBusy, batch.KindUnavailable:",
		new: "case \"\", batch.KindRejected:\n\t\tres = fine\n\tcase batch.KindBusy, batch.KindUnavailable, batch.KindNotYet:",
	},
	{
		name: "not yet: it is doubt", file: "dlt/errors.go", pkg: ".", test: "TestNotYetHoldsItsLaneOnly",
		old: "\t\t{ErrNotYet, batch.KindNotYet},\n", new: "",
	},
	{
		name: "not yet: it spends a try", file: "submitter/judge.go", pkg: "submitter", test: "TestJudge",
		old: "case batch.KindNotYet:\n\t\to.Finding = store.Failed\n\t\to.Refund = c.Budget.EveryTry\n", new: "case batch.KindNotYet:\n\t\to.Finding = store.Failed\n",
	},
	{
		name: "not yet: nobody hears of it", file: "store/deadline.go", pkg: "store", test: "TestWhatIsNotTakenForLongNeedsADecision",
		old: "case unseen > LookGap:\n\t\treturn Unwatched\n\t}\n\treturn Late", new: "case unseen > LookGap:\n\t\treturn Unwatched\n\t}\n\treturn InTime",
	},
	{
		name: "not yet: no event", file: "notify.go", pkg: ".", test: "TestNotYetHoldsItsLaneOnly",
		old: "case w.Applied.Stuck:", new: "case w.Applied.Stuck && w.Finding == store.Undecidable:",
	},
	{
		name: "not yet: its decision outlives the wait", file: "store/deadline.go", pkg: "store", test: "TestWhatIsNotTakenForLongNeedsADecision",
		old: "r.MovedAt, r.Decision = now, \"\"", new: "r.MovedAt = now",
	},
	{
		name: "not yet: a list's is its first batch's", file: "submitter/submitter.go", pkg: ".", test: "TestANotYetInAListHoldsNothingBeforeIt",
		old: "(kind == batch.KindRejected || kind == batch.KindNotYet)", new: "kind == batch.KindRejected",
	},
	{
		name: "not yet: a person decides about a batch that is under way", file: "operator/bulk.go", pkg: "operator", test: "TestABatchUnderWayNeedsNoDecisionForWhatItWaitedFor",
		old: "!undecided(rec):", new: "rec.Decision == \"\":",
	},
	{
		name: "not yet: a batch that is under way is said to need a person", file: "internal/explain/explain.go", pkg: "operator", test: "TestABatchUnderWayNeedsNoDecisionForWhatItWaitedFor",
		old: "case row.Undecided():", new: "case row.Decision != \"\":",
	},
	{
		name: "not yet: what waits with a doubt cannot be ended by anybody", file: "store/operate.go", pkg: "store", test: "TestWhatWaitsWithADoubtCanBeDecided",
		old: "\t\topen = r.DoubtAttempt != 0\n", new: "",
	},
	{
		name: "not yet: a person decides about a batch that nothing is open about", file: "store/operate.go", pkg: "store", test: "TestDecide$",
		old: "\t\topen = r.DoubtAttempt != 0\n", new: "\t\topen = true\n",
	},
	{
		name: "not yet: nobody is asked, if the reply is lost", file: "lostreply.go", pkg: ".", test: "TestADecisionIsReportedAlthoughTheReplyIsLost",
		old: "a.Stuck = a.Stuck || mayCall", new: "_ = a.Stuck || mayCall",
	},
}
