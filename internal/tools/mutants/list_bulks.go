package main

// bulksList breaks bulk actions whose progress is kept, and the brief look at lanes.
var bulksList = []mutant{
	{
		name: "bulks: what was done before a crash is reported as changed", file: "operator/bulks.go", pkg: "operator", test: "TestBulksKilled",
		old: "done := err == nil\n\t\tif !done {",
		new: "done := err == nil\n\t\tif false {",
	},
	{
		name: "bulks: a history that cannot be read says that nothing was done", file: "operator/bulks.go", pkg: "operator", test: "TestBulksWithoutHistories",
		old: "if err != nil && !errors.Is(err, batch.ErrNotFound) {\n\t\treturn false, err",
		new: "if err != nil && !errors.Is(err, batch.ErrNotFound) {\n\t\treturn false, nil",
	},
	{
		name: "bulks: an age below 0 is no filter", file: "operator/bulk.go", pkg: "operator", test: "TestFilterThatExcludesNothing",
		old: "if age.d < 0 {",
		new: "if false {",
	},
	{
		name: "command: an empty filter is none", file: "cmd/dltbatch/search.go", pkg: "cmd/dltbatch", test: "TestFiltersThatExcludeNothing",
		old: "f.Changed(name) && (len(words) == 0 ||",
		new: "f.Changed(name) && (false ||",
	},
	{
		name: "bulks: a cancelled action goes on", file: "operator/bulks.go", pkg: "operator", test: "TestBulksCancelled",
		old: "b.kept.State = BulkCancelled",
		new: "b.kept.State = BulkOpen",
	},
	{
		name: "bulks: a cancel after a crash counts nothing of the part that was cut off", file: "operator/bulks.go", pkg: "operator", test: "TestBulksCancelledAfterACrash",
		old: "if b.kept.Next >= b.kept.Selected {",
		new: "if true {",
	},
	{
		name: "bulks: a process that notices a cancel late counts from there only", file: "operator/bulks.go", pkg: "operator", test: "TestBulksCancelled$",
		old: "now.kept.Next < was.kept.Next || now.kept.Next > next.Next {",
		new: "now.kept.Next != was.kept.Next {",
	},
	{
		name: "bulks: a bulk cancel leaves out what is unknown", file: "operator/bulk.go", pkg: "operator", test: "TestBulkCancelsUnknown",
		old: "q.States = []batch.State{batch.Queued, batch.Delayed, batch.Unknown}",
		new: "q.States = []batch.State{batch.Queued, batch.Delayed}",
	},
	{
		name: "bulks: a bulk cancel selects doubts", file: "operator/bulk.go", pkg: "operator", test: "TestBulkCancelsUnknown",
		old: "case b.Action == batch.ActionCancel && !rec.DoubtSince.IsZero():",
		new: "case false:",
	},
	{
		name: "bulks: memory: anybody sets it", file: "store/memory/bulk.go", pkg: "store/memory", test: "TestStore/bulk/one_of_many_at_a_version",
		old: "b.Version != version:",
		new: "b.Version < version:",
	},
	{
		name: "bulks: sql: anybody sets it", file: "internal/sqlstore/queries.go", pkg: "store/sqlite", test: "TestStore/bulk/one_of_many_at_a_version",
		old: "detail = $3::text WHERE token = $1::text AND version = $2::bigint",
		new: "detail = $3::text WHERE token = $1::text AND version >= $2::bigint",
	},
	{
		name: "explain: a doubt is about the last attempt", file: "internal/explain/explain.go", pkg: "operator", test: "TestExplainNamesTheAttemptInDoubt",
		old: "x.e.Doubt = l.Row.DoubtAttempt",
		new: "x.e.Doubt = l.Row.Attempt",
	},
	{
		name: "search: any trace matches", file: "operator/search.go", pkg: "operator", test: "TestSearch$",
		old: "!strings.EqualFold(trace, q.Trace)",
		new: "false",
	},
	{
		name: "sqlite: any error is a missing migration", file: "store/sqlite/tx.go", pkg: "store/sqlite", test: "TestStatsUpgradeUnderLoad",
		old: "v < oldestVersion {",
		new: "v < schemaVersion {",
	},
	{
		name: "causes: a lane whose attempt is live looks like one whose attempt is in doubt", file: "operator/shape.go", pkg: "operator", test: "TestCausesAreAsExplained",
		old: "live: r.Row.Live(s.At)",
		new: "live: false",
	},
	{
		name: "causes: footprints that nobody read count", file: "operator/view.go", pkg: "operator", test: "TestCausesAreAsExplained",
		old: "tried > 1 || u.query.Window > 1 &&",
		new: "u.query.Window > 1 &&",
	},
	{
		name: "causes: sqlite: what was attempted waits, too", file: "internal/sqlstore/brief.go", pkg: "store/sqlite", test: "TestStore/survey/briefly,_with_what_decides_whether_a_batch_waits",
		old: "l.Waiting = max(0, l.Waiting-n)",
		new: "l.Waiting = max(0, l.Waiting)",
	},
	{
		name: "history: memory: a page ends the list", file: "store/memory/inspect.go", pkg: "store/memory", test: "TestStore/acts",
		old: "next = all[q.Limit-1].place.Cursor()", new: "next = \"\"",
	},
	{
		name: "history: sql: acts of one moment are on one page or on none", file: "internal/sqlstore/acts.go", pkg: "store/sqlite", test: "TestStore/acts",
		old: "seq, position = math.MaxInt64, math.MaxInt64\n", new: "seq, position = math.MinInt64, 0\n",
	},
	{
		name: "causes: each process looks for itself", file: "operator/kept.go", pkg: "operator", test: "TestCausesKept",
		old: "if is && q.Kept {", new: "if is && false {",
	},
	{
		name: "causes: all look again at once", file: "operator/kept.go", pkg: "operator", test: "TestCausesKept",
		old: "err == nil && !mine", new: "mine && false",
	},
	{
		name: "causes: a look of before the clock stepped back is new", file: "operator/kept.go", pkg: "operator", test: "TestCausesKeptWhenTheClockStepsBack",
		old: " && !kept.Causes.At.After(s.Now)", new: "",
	},
	{
		name: "causes: a role that may only read sees none", file: "operator/kept.go", pkg: "operator", test: "TestCausesThatCannotBeKept",
		old: "keeps = err == nil\n", new: "keeps = err == nil\n\t\tif !keeps {\n\t\t\treturn Causes{}, err\n\t\t}\n",
	},
	{
		name: "summaries: memory: anybody keeps one", file: "store/memory/summary.go", pkg: "store/memory", test: "TestStore/summary",
		old: "known && was.Turn != turn", new: "known && turn < 0",
	},
	{
		name: "summaries: sql: anybody keeps one", file: "internal/sqlstore/queries.go", pkg: "store/sqlite", test: "TestStore/summary",
		old: "ELSE excluded.detail END WHERE s.turn = $2::bigint", new: "ELSE excluded.detail END WHERE $2::bigint = $2::bigint",
	},
	{
		name: "console: a person sees what was before the act", file: "console/home.go", pkg: "console", test: "TestALookThatIsKept",
		old: "Kept: acts == c.looked", new: "Kept: true",
	},
}
