package main

// pipelinedList is about strategies that rely on the ledger's order.
var pipelinedList = []mutant{
	{
		name: "pipelined: claims while a run is unacknowledged", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "case b.State != batch.Pending && b.State != batch.Valid:", new: "case b.State == batch.Invalid:",
	},
	{
		name: "pipelined: an unacknowledged batch may be passed", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "if b.State == Submitting { // in the way wherever it stands", new: "if b.State == Submitting && !l.KeepsOrder {",
	},
	{
		name: "pipelined: two instances share a lane", file: "queuer/pipelined.go", pkg: ".", test: "TestTwoPipelinedInstancesNeverShareALane",
		old: "case b.State != batch.Pending && b.State != batch.Valid:", new: "case b.State == batch.Invalid:",
	},
	{
		name: "pipelined: a run goes on after a failure", file: "submitter/submitter.go", pkg: ".", test: "TestPipelinedStopsAtAFailure",
		old: "if err != nil {\n\t\t\ts.Return(r.Batches[i+1:])", new: "if err != nil && i == len(r.Batches)-1 {\n\t\t\ts.Return(r.Batches[i+1:])",
	},
	{
		name: "pipelined: what failed is overtaken", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "for end < len(lane.Batches) && end < int(n) && lane.Batches[end].Ready {", new: "for end < len(lane.Batches) && end < int(n) {",
	},
	{
		name: "pipelined: an unsettled Invalid is passed", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "l.KeepsOrder && (b.State == Pending || b.State == Valid)", new: "l.KeepsOrder && !b.State.Claimable()",
	},
	{
		name: "pipelined: what was lost does not wait for what left after it", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "case p > accepted:\n\t\t\treturn nil", new: "case p > len(lane.Batches):\n\t\t\treturn nil",
	},
	{
		name: "pipelined: a crash in the middle of a run", file: "queuer/pipelined.go", pkg: "internal/sim", test: "TestPipelinedDecisions", args: sim("400"),
		old: "case b.State != batch.Pending && b.State != batch.Valid:", new: "case b.State == batch.Invalid:",
	},
	{
		name: "check: sent again behind what is under way", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "return l.checkBehind(before, taken)", new: "return nil",
	},
	{
		name: "check: accepted ones are passed whatever the ledger says", file: "queuer/strategy.go", pkg: "queuer", test: "TestChooseLetsPassWhatWasAccepted",
		old: "reliant && keepsOrder != nil && keepsOrder(lane.Service)", new: "reliant",
	},
	{
		name: "check: accepted ones are passed whatever the strategy says", file: "queuer/strategy.go", pkg: "queuer", test: "TestChooseLetsPassWhatWasAccepted",
		old: "reliant && keepsOrder != nil", new: "(reliant || true) && keepsOrder != nil",
	},
	{
		name: "pipelined on a ledger that does not keep order", file: "runner.go", pkg: ".", test: "TestNewRefusesPipelined.*",
		old: "if !traits.KeepsOrder {", new: "if traits.Name == \"\" {",
	},
	{
		name: "pipelined: a resend behind others is not told of", file: "order.go", pkg: ".", test: "TestPipelinedReportsWhatIsSentAgainBehindOthers",
		old: "if e.order == nil || !c.Again {", new: "if e.order != nil || !c.Again {",
	},
	{
		name: "pipelined: an Invalid that commits behind others is not told of", file: "order.go", pkg: ".", test: "TestPipelinedReportsAnInvalidThatCommitsBehindOthers",
		old: "(a.From != batch.Invalid && !a.From.Claimable())", new: "!a.From.Claimable()",
	},
}
