package main

// deskList breaks what an operator without a ledger sees and does.
var deskList = []mutant{
	{
		name: "desk: a requeue without a record is at once", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "case r.text == \"\":", new: "case false:",
	},
	{
		name: "desk: a route's traits are those of all its services", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "case r.Varies && r.Service != r.service:", new: "case false:",
	},
	{
		name: "desk: the last to write is right", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "case r.Other != nil && !same(r.Settings, *r.Other):", new: "case false:",
	},
	{
		name: "desk: what nobody saw is agreed on", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "if kept != text {", new: "if false {",
	},
	{
		name: "desk: an explanation guesses the strategy", file: "operator/explain.go", pkg: "operator", test: "TestExplainNeedsTheRecord",
		old: "\t\t\tmissing = u.choice\n", new: "",
	},
	{
		name: "desk: claims of any length are alike", file: "operator/explain.go", pkg: "operator", test: "TestOtherSettingsThatDoNotMatter",
		old: "a.Grace, a.ResendQuiet, a.Settle =", new: "a.ClaimTTL = b.ClaimTTL\n\ta.Grace, a.ResendQuiet, a.Settle =",
	},
	{
		name: "desk: an act forgets what was seen", file: "internal/acts/acts.go", pkg: "operator", test: "TestControls",
		old: "Action: batch.ActionResume, Seen: seen.Version,", new: "Action: batch.ActionResume, Seen: seen.Version + 1,",
	},
	{
		name: "routes: a strategy that differs is no difference", file: "internal/relied/relied.go", pkg: ".", test: "TestTheRecordOfOlderCodeIsCompleted",
		old: "if s.Strategy == \"\" || with.Strategy == \"\" {", new: "if true {",
	},
	{
		name: "routes: what was replaced is forgotten", file: "relied.go", pkg: ".", test: "TestTraitsAreRecordedByRoute",
		old: "return relied.Record{Settings: own, Other: &was.Settings}, true, true", new: "return relied.Record{Settings: own}, true, true",
	},
	{
		name: "routes: nobody says that services differ", file: "relied.go", pkg: ".", test: "TestTraitsThatDifferByServiceAreComparedByService",
		old: "next.Varies = was.Varies || !own.Same(mine)", new: "next.Varies = was.Varies",
	},
}
