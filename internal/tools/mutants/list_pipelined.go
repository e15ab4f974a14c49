package main

// pipelinedList is about strategies that rely on the ledger's order, and lists of a run.
var pipelinedList = []mutant{
	{
		name: "pipelined: claims while a run is unacknowledged", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "case b.State != batch.Pending && b.State != batch.Valid:", new: "case b.State == batch.Invalid:",
	},
	{
		name: "pipelined: an unacknowledged batch may be passed", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "if l.inTheWay(b) {", new: "if l.inTheWay(b) && !l.KeepsOrder {",
	},
	{
		name: "pipelined: two instances share a lane", file: "queuer/pipelined.go", pkg: ".", test: "TestTwoPipelinedInstancesNeverShareALane",
		old: "case b.State != batch.Pending && b.State != batch.Valid:", new: "case b.State == batch.Invalid:",
	},
	{
		name: "pipelined: a run goes on after a failure", file: "submitter/submitter.go", pkg: ".", test: "TestPipelinedStopsAtAFailure",
		old: "if err != nil {\n\t\t\ts.Return(r.Batches[i+known:])", new: "if err != nil && i == len(r.Batches)-1 {\n\t\t\ts.Return(r.Batches[i+known:])",
	},
	{
		name: "pipelined: what failed is overtaken", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "end < int(n) && lane.Batches[end].Ready; end++ {", new: "end < int(n); end++ {",
	},
	{
		name: "pipelined: an unsettled Invalid is passed", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "l.KeepsOrder && (b.State == Pending || b.State == Valid)", new: "l.KeepsOrder && !b.State.Claimable()",
	},
	{
		name: "pipelined: what was lost does not wait for what left after it", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "case p > accepted:", new: "case p > len(lane.Batches):",
	},
	{
		name: "pipelined: it wants less than it takes", file: "queuer/pipelined.go", pkg: "queuer", test: "TestWantsIsEnough",
		old: "return max(0, int(n)-accepted)", new: "return max(0, int(n)-accepted-1)",
	},
	{
		name: "pipelined: it wants what it cannot take", file: "queuer/pipelined.go", pkg: "queuer", test: "TestWantsNoMoreThanItCanTake",
		old: "if accepted, ok := inFront(attempted); ok {", new: "if accepted, ok := inFront(attempted); ok || !ok {",
	},
	{
		name: "serial: it wants nothing", file: "queuer/strategy.go", pkg: "queuer", test: "TestWantsIsEnough",
		old: "return 1 // it may stand", new: "return 0 // it may stand",
	},
	{
		name: "room counts runs", file: "submitter/submitter.go", pkg: "submitter", test: "TestRoomCountsBatchesOfRuns",
		old: "\t\thand.Posted(n)\n", new: "",
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
		old: "reliant && keepsOrder != nil && keepsOrder(service)", new: "reliant",
	},
	{
		name: "check: accepted ones are passed whatever the strategy says", file: "queuer/strategy.go", pkg: "queuer", test: "TestChooseLetsPassWhatWasAccepted",
		old: "reliant && keepsOrder != nil", new: "(reliant || true) && keepsOrder != nil",
	},
	{
		name: "pipelined on a ledger that does not keep order", file: "gate.go", pkg: ".", test: "TestNewRefusesPipelined.*",
		old: "ReliesOnOrder(o.Strategy) && !traits.KeepsOrder {", new: "ReliesOnOrder(o.Strategy) && traits.Name == \"\" {",
	},
	{
		name: "pipelined: a resend behind others is not told of", file: "order.go", pkg: ".", test: "TestPipelinedReportsWhatIsSentAgainBehindOthers",
		old: "if !c.Again {", new: "if c.Again {",
	},
	{
		name: "pipelined: what goes again with a batch in doubt is not told of", file: "store/claim.go", pkg: ".", test: "TestPipelinedReportsWhatGoesAgainWithABatchInDoubt",
		old: "if c.Doubt {\n\t\t\treturn c.Key.ID", new: "if c.Doubt && i < 0 {\n\t\t\treturn c.Key.ID",
	},
	{
		name: "pipelined: an Invalid that commits behind others is not told of", file: "order.go", pkg: ".", test: "TestPipelinedReportsAnInvalidThatCommitsBehindOthers",
		old: "(a.From != batch.Invalid && !a.From.Claimable())", new: "!a.From.Claimable()",
	},

	// Lists.
	{
		name: "list: one that is refused is each one's refusal", file: "submitter/submitter.go", pkg: "submitter", test: "TestARefusedListGoesOneByOne",
		old: "alone = i + n\n\t\t\tcontinue",
		new: "for _, c := range r.Batches[i : i+n] {\n\t\t\t\ts.o.Record(judge(c, err, s.o.Rules, made(post)))\n\t\t\t}\n\t\t\ti += n\n\t\t\tcontinue",
	},
	{
		name: "list: one bad batch takes the good ones with it", file: "submitter/submitter.go", pkg: "dlt/sawtooth", test: "TestOneBadBatchInAList",
		old: "alone = i + n\n\t\t\tcontinue",
		new: "for _, c := range r.Batches[i : i+n] {\n\t\t\t\ts.o.Record(judge(c, err, s.o.Rules, made(post)))\n\t\t\t}\n\t\t\ti += n\n\t\t\tcontinue",
	},
	{
		name: "list: a doubt is the first one's only", file: "submitter/list.go", pkg: "submitter", test: "TestDoubtAboutAListIsDoubtAboutEach",
		old: "return 1\n\t}\n\treturn n\n", new: "return 1\n\t}\n\treturn 1\n",
	},
	{
		name: "list: busy is each one's failure", file: "submitter/list.go", pkg: "submitter", test: "TestAListThatIsNotTaken",
		old: "case batch.KindBusy, batch.KindUnavailable,", new: "case batch.KindUnavailable,",
	},
	{
		name: "list: one too many", file: "submitter/list.go", pkg: "submitter", test: "TestARunGoesInLists",
		old: "n >= t.MaxList", new: "n > t.MaxList",
	},
	{
		name: "list: longer than the node takes", file: "submitter/list.go", pkg: "submitter", test: "TestARunGoesInLists",
		old: "size > t.MaxListBytes", new: "size < 0",
	},
	{
		name: "list: refused for good, and the ledger took the rest", file: "dlt/memory/ledger.go", pkg: "dlt/memory", test: "TestConformance",
		old: "return fail(dlt.ErrRejected, \"refused\")\n\t\t}", new: "return fail(dlt.ErrRejected, \"refused\")\n\t\t}\n\t\tl.take(a, faults[i], 0)",
	},
	{
		name: "pipelined: what was lost goes before those that may be lost, too", file: "queuer/pipelined.go", pkg: "queuer", test: "TestPipelinedSelect",
		old: "!lane.Batches[end].MayFollow() {",
		new: "!lane.Batches[end].MayFollow() && false {",
	},
}
