package main

// consoleList breaks the guards that keep a browser from doing harm.
var consoleList = []mutant{
	{
		name: "console: a GET changes state", file: "console/visit.go", pkg: "console", test: "TestLooksChangeNothing",
		old: "\tcase http.MethodGet, http.MethodHead:\n\t\tdo = looks\n",
		new: "\tcase http.MethodGet, http.MethodHead:\n\t\tdo = looks\n\t\tif do == nil || v.q.Has(\"selection\") {\n\t\t\tv.form, do = v.q, changes\n\t\t}\n",
	},
	{
		name: "console: a form in the address is one", file: "console/visit.go", pkg: "console", test: "TestLooksChangeNothing",
		old: "v.form = v.r.PostForm", new: "v.form = v.r.Form",
	},
	{
		name: "console: forms from elsewhere", file: "console/visit.go", pkg: "console", test: "TestFormsFromElsewhere",
		old: "if err := v.cross.Check(v.r); err != nil {", new: "if err := v.cross.Check(v.r); err != nil && false {",
	},
	{
		name: "console: the form names the actor", file: "console/visit.go", pkg: "console", test: "TestNobodyActsAsAnother",
		old: "\tv.form = v.r.PostForm\n", new: "\tv.form = v.r.PostForm\n\tif v.form.Has(\"actor\") {\n\t\tv.by = v.form.Get(\"actor\")\n\t}\n",
	},
	{
		name: "console: a console that is read-only writes", file: "console/visit.go", pkg: "console", test: "TestReadOnly",
		old: "\tif v.denied != \"\" {\n\t\treturn &refused{", new: "\tif v.denied != \"\" && v.actor != nil {\n\t\treturn &refused{",
	},
	{
		name: "console: who is not known acts", file: "console/visit.go", pkg: "console", test: "TestReadOnly",
		old: "err = batch.By{Actor: name}.Validate()", new: "err = batch.By{Actor: name + \"x\"}.Validate()",
	},
	{
		name: "console: an act upon what is there now", file: "console/act.go", pkg: "console", test: "TestActsUponABatch",
		old: "\t\t_, err = v.desk.Cancel(ctx, seen, by)\n",
		new: "\t\tif now, e := v.desk.Get(ctx, seen.Key); e == nil {\n\t\t\tseen = now\n\t\t}\n\t\t_, err = v.desk.Cancel(ctx, seen, by)\n",
	},
	{
		name: "console: a dangerous act without its word", file: "console/act.go", pkg: "console", test: "TestBadForms",
		old: "if want != \"\" && strings", new: "if want == \"-\" && strings",
	},
	{
		name: "console: an act without a reason", file: "console/act.go", pkg: "console", test: "TestBadForms",
		old: "if by.Reason == \"\" {", new: "if false {",
	},
	{
		name: "console: a page shows the store's error", file: "console/fail.go", pkg: "console", test: "TestTheStoreFails",
		old: "\"It was not reached, or gave an error. The", new: "\"It was not reached, or gave an error. \" + err.Error() + \" The",
	},
	{
		name: "console: each visitor looks at all lanes", file: "console/shared.go", pkg: "console", test: "TestShared$",
		old: "s.kept.after == acts && fresh", new: "s.kept.after < acts && fresh",
	},
	{
		name: "console: what was done is not seen", file: "console/shared.go", pkg: "console", test: "TestShared$",
		old: "s.acts.Add(1)", new: "s.acts.Add(0)",
	},
	{
		name: "console: a list has no end", file: "console/lists.go", pkg: "console", test: "TestLongLists",
		old: "Service: service, Limit: pageRows, After", new: "Service: service, Limit: 1000, After",
	},
	{
		name: "console: a duration is negative", file: "console/words.go", pkg: "console", test: "TestTimes",
		old: "\td = max(d, 0)\n", new: "",
	},
	{
		name: "console: at any address without a password", file: "cmd/dltbatch/console.go", pkg: "cmd/dltbatch", test: "TestConsoleRefusesOtherAddresses",
		old: "if !at.IP.IsLoopback() {", new: "if false {",
	},
	{
		name: "console: the log shows the data source name", file: "cmd/dltbatch/console.go", pkg: "cmd/dltbatch", test: "TestConsoleLogsNoSecrets",
		old: "slog.String(at.Key, a.safe(err))", new: "slog.String(at.Key, err.Error())",
	},
	{
		name: "console: under the name of a stranger", file: "cmd/dltbatch/console.go", pkg: "cmd/dltbatch", test: "TestConsole$",
		old: "\t\t\thandler = console.Local(handler)\n", new: "",
	},
	{
		name: "console: each page that is kept up to date looks for itself", file: "console/shared.go", pkg: "console", test: "TestPagesKeptUpToDate",
		old: "begin.Before(s.kept.expires) || begin.Sub(s.kept.at) < old", new: "begin.Before(s.kept.expires)",
	},
	{
		name: "console: a queue that grew is one that grows", file: "console/flow.go", pkg: "console", test: "TestFlow$",
		old: "if counts[i].Open <= counts[i-1].Open {", new: "if counts[i].Open < counts[i-1].Open {",
	},
	{
		name: "console: any address is this machine's name", file: "console/local.go", pkg: "console", test: "TestLocal",
		old: "(ip == nil || !ip.IsLoopback())", new: "ip == nil",
	},
	{
		name: "console: an instance that has gone posts nothing", file: "console/trouble.go", pkg: "console", test: "TestTroubles",
		old: "if !i.Live {", new: "if false {",
	},
	{
		name: "causes: what is unknown has no example", file: "operator/causes.go", pkg: "console", test: "TestIncidents",
		old: "if g.Example.ID == \"\" {\n", new: "if g.Example.ID == \"\" && r.Cause != CauseUnknown {\n",
	},
	{
		name: "console: each stream looks for itself", file: "console/live.go", pkg: "console", test: "TestStreamsAreCheap",
		old: "c.overview.lazy(ctx)", new: "c.overview.get(ctx)",
	},
	{
		name: "console: a stream outlives the console", file: "console/live.go", pkg: "console", test: "TestLive$", args: []string{"-test.timeout=30s"},
		old: "case <-c.live.done:", new: "case <-(chan struct{})(nil):",
	},
	{
		name: "console: any number of streams", file: "console/live.go", pkg: "console", test: "TestLive$",
		old: "c.live.open.Add(1) > liveMost", new: "c.live.open.Add(1) < 0",
	},
	{
		name: "console: a stream hears of no act", file: "console/live.go", pkg: "console", test: "TestLive$",
		old: "case look != last:", new: "case last == 0:",
	},
	{
		name: "console: a bulk action ends with its request", file: "console/carried.go", pkg: "console", test: "TestBulkUnderWay",
		old: "context.WithCancel(context.WithoutCancel(ctx))", new: "context.WithCancel(ctx)",
	},
	{
		name: "console: a closed console begins a bulk action", file: "console/carried.go", pkg: "console", test: "TestBulkAfterACrash",
		old: "case u.closed:", new: "case false:",
	},
	{
		name: "console: a bulk action goes on without its number", file: "console/progress.go", pkg: "console", test: "TestBulkAfterACrash",
		old: "err = confirmed(v.form, strconv.Itoa(p.Selected)); err != nil", new: "err = nil; err != nil",
	},
	{
		name: "console: a panic in a bulk action ends the process", file: "console/carried.go", pkg: "console", test: "TestBulkThatPanics",
		old: "err := loop.Contain(func() error {\n\t\t\t_, err := c.bulks.Resume(ctx, token, by, nil)\n\t\t\treturn err\n\t\t})",
		new: "_, err := c.bulks.Resume(ctx, token, by, nil)",
	},
	{
		name: "console: a bulk action hides why it ended", file: "console/carried.go", pkg: "console", test: "TestBulkEndsEarly",
		old: "return why.text", new: "return why.text[:0]",
	},
}
