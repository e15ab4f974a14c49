package main

// evidenceList is the ways of breaking what Splinter's client says of its batches after a
// crash of their node, and of what it sends to a node that is stalled.
var evidenceList = []mutant{
	{
		name: "splinter: any version of a family is good", file: "dlt/splinter/options.go", pkg: "dlt/splinter", test: "TestCheck",
		old: "(len(f.Versions) == 0 || slices.Contains(f.Versions, version))", new: "(true || slices.Contains(f.Versions, version))",
	},
	{
		name: "splinter: an innocent transaction's message is the cause", file: "dlt/splinter/statusdecode.go", pkg: "dlt/splinter", test: "TestStatusWords",
		old: "case m.Message != innocent && m.Message != \"\":", new: "case m.Message != \"\" && innocent != \"\":",
	},
}
