package main

// monitorList is the ways of breaking what is made of a ledger's answers that the
// decisions' own tests, the simulations and runs on simulated nodes are known to catch.
var monitorList = []mutant{
	{
		name: "answers: receipts of a commit that was asked for are dropped", file: "monitor/decide.go", pkg: "dlt/sawtooth", test: "TestReceiptsAreKept",
		old: "\t\tv.Outcome.Receipts = st.Receipts\n",
		new: "",
	},
	{
		name: "answers: an invalid of an earlier attempt ends the present one", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideInvalidThatNamesAnotherAttempt",
		old: "case !d.f.Settles(d.k.Status.Attempt):",
		new: "case false:",
	},
	{
		name: "answers: an invalid of an earlier attempt is decided upon", file: "monitor/decide.go", pkg: "internal/sim", test: "TestParallelDecisions",
		old: "case !d.f.Settles(d.k.Status.Attempt):",
		new: "case false:",
	},
	{
		name: "answers: a row takes an invalid of an earlier attempt", file: "store/outcome.go", pkg: "store", test: "TestInvalidOfAnotherAttempt",
		old: "if !r.InFlight(o.Ref, o.Budget, now).Settles(o.Attempt) {",
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
}
