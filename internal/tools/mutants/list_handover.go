package main

// handOverList is the ways of making a lane wait longer than it must for its next
// batch, and of asking or writing more often than that takes.
var handOverList = []mutant{
	{
		name: "a verdict lingers", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestAVerdictIsWrittenAtOnce",
		old: "wait = wait && it.lingers()", new: "wait = true",
	},
	{
		name: "a busy recorder writes one by one", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestVerdictsLingerAfterAWriteOfMany",
		old: "r.next(wait || busy, linger.C)", new: "r.next(wait, linger.C)",
	},
	{
		name: "whoever only looks takes the lease", file: "store/row.go", pkg: "store/memory", test: "TestStore/pending/only_looked_at",
		old: "if lease != 0 {", new: "if lease >= 0 {",
	},
}
