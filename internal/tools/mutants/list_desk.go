package main

// deskList breaks the answers and acts of an operator without a ledger.
var deskList = []mutant{
	{
		name: "desk: a route's traits are those of all its services", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "case r.Holds(r.service):", new: "case true:",
	},
	{
		name: "desk: the last to write is right", file: "operator/relied.go", pkg: "operator", test: "TestARequeueNeedsTheRecord",
		old: "if r.Disagree(same) {", new: "if false {",
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
		old: "a.Grace, a.ResendQuiet, a.Settle, a.AddAgain =", new: "a.ClaimTTL = b.ClaimTTL\n\ta.Grace, a.ResendQuiet, a.Settle, a.AddAgain =",
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
		old: "next = was.Replace(mine)", new: "next.Settings = mine",
	},
	{
		name: "routes: only the last to be replaced is kept", file: "internal/relied/relied.go", pkg: ".", test: "TestTheRecordKeepsEachDisagreement",
		old: "others := slices.DeleteFunc(r.others(), by.Same)", new: "var others []Settings",
	},
	{
		name: "routes: too many others are none", file: "internal/relied/relied.go", pkg: "internal/relied", test: "TestReplace",
		old: "return r.More || slices", new: "return slices",
	},
	{
		name: "routes: a difference forgets that services differ", file: "internal/relied/relied.go", pkg: ".", test: "TestTheRecordKeepsThatTraitsDifferByService",
		old: "by, &others[0], others[1:], nil", new: "by, &others[0], others[1:], nil\n\tr.Varies = false",
	},
	{
		name: "routes: a service that was not compared is like the others", file: "internal/relied/relied.go", pkg: ".", test: "TestTheRecordNamesTheServicesThatWereCompared",
		old: "slices.Contains(r.Alike, s) || r.Uniform()", new: "len(r.Alike) > 0 && !r.Varies",
	},
	{
		name: "routes: a route of many services is never uniform", file: "internal/relied/relied.go", pkg: ".", test: "TestTheRecordNamesFewOfManyServices",
		old: "return r.Full() && !r.Varies", new: "return false",
	},
	{
		name: "routes: two instances replace each other's record again and again", file: "relied.go", pkg: ".", test: "TestADifferenceIsReportedOnce",
		old: "if differs && is && same {", new: "if differs && is && same && s == \"\" {",
	},
	{
		name: "routes: each service keeps the record", file: "relied.go", pkg: ".", test: "TestTheRecordCostsLittle",
		old: "done = next.Full() || !next.Holds(s)", new: "done = next.Full()",
	},
	{
		name: "routes: a named service keeps its name", file: "relied.go", pkg: ".", test: "TestTheRecordNamesTheServicesThatWereCompared",
		old: "\tnext.Alike = nil\n", new: "",
	},
	{
		name: "routes: nobody says that services differ", file: "relied.go", pkg: ".", test: "TestTraitsThatDifferByServiceAreComparedByService",
		old: "next.Varies = true", new: "next.Varies = was.Varies",
	},
	{
		name: "desk: a bulk acts upon what is there now", file: "operator/bulk.go", pkg: "operator", test: "TestBulk$",
		old: "seen := batch.Record{Key: to.Key, Version: to.Version, CreatedAt: to.CreatedAt}\n",
		new: "seen := batch.Record{Key: to.Key, Version: to.Version, CreatedAt: to.CreatedAt}\n\tvar moved *batch.MovedOnError\n\tdefer func() {\n\t\tif errors.As(err, &moved) {\n\t\t\t_, err = desk.Cancel(ctx, moved.Now, by)\n\t\t}\n\t}()\n",
	},
	{
		name: "desk: a selection may be changed", file: "operator/bulk.go", pkg: "operator", test: "TestBulkInput",
		old: "err != nil || token != s.Token {", new: "err != nil || token == \"\" {",
	},
	{
		name: "desk: what was skipped is not reported", file: "operator/bulk.go", pkg: "operator", test: "TestBulk$",
		old: "r.NotDone = append(r.NotDone, why)", new: "_ = why",
	},
	{
		name: "desk: a store that fails is asked about all the others", file: "operator/bulk.go", pkg: "operator", test: "TestBulkGoesOn",
		old: "\treturn why, true\n", new: "\treturn why, false\n",
	},
	{
		name: "desk: a bulk does not stop", file: "operator/bulk.go", pkg: "operator", test: "TestBulkGoesOn",
		old: "if err := ctx.Err(); err != nil {", new: "if err := ctx.Err(); err != nil && false {",
	},
	{
		name: "desk: a bulk decides what nobody asked about", file: "operator/bulk.go", pkg: "operator", test: "TestBulkActions",
		old: "b.Action == batch.ActionDecide && !undecided(rec)", new: "false",
	},
	{
		name: "desk: what waits behind is not counted", file: "operator/view.go", pkg: "operator", test: "TestCauses$",
		old: "rest := l.Waiting - waiting; rest > 0", new: "rest := l.Waiting - waiting; rest > 10000",
	},
	{
		name: "desk: a sample is not marked", file: "operator/view.go", pkg: "operator", test: "TestCausesOfConflictsAreSampled",
		old: "\t\t\tit.sampled = sampled\n", new: "",
	},
	{
		name: "desk: lanes that were not reached are none", file: "operator/causes.go", pkg: "operator", test: "TestCausesInTime",
		old: "c.report.Incomplete, c.report.After = true, page.After", new: "c.report.After = page.After",
	},
	{
		name: "desk: causes guess the strategy", file: "operator/judge.go", pkg: "operator", test: "TestCausesWithoutARecord",
		old: "if j.u.choice != nil {", new: "if false {",
	},
	{
		name: "desk: causes do not look to the end of the row", file: "operator/judge.go", pkg: ".", test: "TestExplainMovesWhateverStands",
		old: "if e.Remedy != batch.RemedyBlocker {\n\t\t\treturn", new: "if true {\n\t\t\treturn",
	},
	{
		name: "survey: it shows a whole lane", file: "store/memory/survey.go", pkg: "store/memory", test: "TestStore/survey/defaults_and_bounds",
		old: "return q.Window })", new: "return lane.queued.len() })",
	},
	{
		name: "find: another service's data_change_id", file: "store/memory/survey.go", pkg: "store/memory", test: "TestStore/find/by_id_alone,_and_by_the_caller's_own_key",
		old: "changeKey{q.Service, q.DataChangeID}", new: "changeKey{\"s\", q.DataChangeID}",
	},
	{
		name: "cursor: any id", file: "store/cursor.go", pkg: "store", test: "TestCursor",
		old: "if err == nil && ok && rest != \"\" {", new: "if false {",
	},
	{
		name: "looks: sql: a place that no list returned is asked for", file: "internal/sqlstore/list.go", pkg: "cmd/dltbatch", test: "TestPlacesThatNoListReturned",
		old: "if err := batch.Only(after).Validate(); err != nil {", new: "if err := batch.Only(after).Validate(); err != nil && false {",
	},
	{
		name: "looks: sql: a service that no store holds is asked for", file: "internal/sqlstore/list.go", pkg: "internal/integration", test: "TestNamesThatPostgreSQLRefuses",
		old: "if q.Service != nil && !canStore(*q.Service) {", new: "if false {",
	},
	{
		name: "command: an act wants no word typed", file: "cmd/dltbatch/act.go", pkg: "cmd/dltbatch", test: "TestActsUponBatches",
		old: "if strings.TrimSpace(got.line) != word {", new: "if false {",
	},
	{
		name: "command: a lane that nobody paused is resumed", file: "cmd/dltbatch/act.go", pkg: "cmd/dltbatch", test: "TestNothingToEnd",
		old: "if s.nothing != nil {", new: "if false {",
	},
	{
		name: "command: an error quotes a data source name in the wrong place", file: "cmd/dltbatch/app.go", pkg: "cmd/dltbatch", test: "TestNoSecrets",
		old: "text = mask(text, arg)", new: "_ = mask(text, arg)",
	},
	{
		name: "command: a bulk action goes without its token", file: "cmd/dltbatch/bulk.go", pkg: "cmd/dltbatch", test: "TestBulk$",
		old: "if token != sel.Token {", new: "if false {",
	},
	{
		name: "desk: a search shows other batches", file: "operator/search.go", pkg: "operator", test: "TestSearch$",
		old: "rec.Attempt >= q.Attempts &&", new: "true &&",
	},
	{
		name: "desk: a search that was cut off passes for complete", file: "operator/search.go", pkg: "operator", test: "TestSearchEndsInTime",
		old: "\t\tfound.Incomplete = true\n\tcase err != nil:", new: "\tcase err != nil:",
	},
	{
		name: "command: an act is upon another version than was seen", file: "cmd/dltbatch/act.go", pkg: "cmd/dltbatch", test: "TestActsUponBatches",
		old: "if c.Flags().Changed(\"seen\") && seen != rec.Version {", new: "if false {",
	},
}
