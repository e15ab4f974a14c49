package main

// storesList is the ways of breaking what the stores keep, in which order they show it, and
// which clocks count.
var storesList = []mutant{
	{
		name: "suspended: by the monotonic clock alone", file: "internal/wall/wall.go", pkg: "submitter", test: "TestNothingIsPostedAfterTheMachineSlept",
		old: "return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))", new: "return t.Sub(now)",
	},
	{
		name: "suspended: by the wall clock alone", file: "internal/wall/wall.go", pkg: "submitter", test: "TestNothingIsPostedAfterTheMachineSlept",
		old: "return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))", new: "return t.Round(0).Sub(now.Round(0))",
	},
	{
		name: "clocks: a jump of the database's ages what was accepted", file: "monitor/decide.go", pkg: "monitor", test: "TestAJumpOfTheDatabasesClockAgesNothing",
		old: "age := min(f.PostedAgo, d.k.Seen)", new: "age := f.PostedAgo",
	},
	{
		name: "clocks: a jump of the database's settles an Invalid", file: "monitor/decide.go", pkg: "monitor", test: "TestAJumpOfTheDatabasesClockAgesNothing",
		old: "max(d.f.SettleLeft, d.t.Settle-d.k.Seen)", new: "d.f.SettleLeft",
	},
	{
		name: "clocks: a claim ends by the reader's TTL", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideNoTrace",
		old: "if ttl == 0 {", new: "if ttl >= 0 {",
	},
	{
		name: "clocks: a claim of unknown length has none", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideNoTrace",
		old: "if ttl == 0 {", new: "if ttl < 0 {",
	},
}
