package main

// seenList breaks the view of a person on call: events, observers, calls, logs and probes.
var seenList = []mutant{
	{
		name: "seen: an acceptance that waited forgets its POST", file: "notify.go", pkg: ".", test: "TestEventsHaveTimes",
		old: "\t\tanswered(&accepted, w.Outcome)\n", new: "",
	},
	{
		name: "seen: a POST is counted twice", file: "notify.go", pkg: ".", test: "TestEventsHaveTimes",
		old: "case w.Finding != store.IsCommitted:\n", new: "case w.Finding > 0:\n",
	},
	{
		name: "seen: a row to ask about does not say when its batch was added", file: "store/memory/pending.go", pkg: "store/memory", test: "TestStore/pending/.*",
		old: "e.row.InFlight(e.ref(), e.budget, now)", new: "e.row.InFlight(store.Ref{Key: e.key}, e.budget, now)",
	},
	{
		name: "seen: a store does not say when a batch was added", file: "store/memory/record.go", pkg: "store/memory", test: "TestStore/final/.*",
		old: "\t\to.Ref = e.ref()\n", new: "\t\to.Row = e.number\n",
	},
	{
		name: "seen: a place that failed shows its password", file: "report.go", pkg: ".", test: "TestEventsHaveFailures",
		old: "\tr = r.Fit()\n", new: "",
	},
	{
		name: "seen: a clock that steps back makes an age negative", file: "notify.go", pkg: ".", test: "TestEventsWhenTheClockStepsBack",
		old: "return max(0, to.Sub(from))", new: "return to.Sub(from)",
	},
	{
		name: "observers: the first is not waited for", file: "report.go", pkg: ".", test: "TestTheFirstObserverIsWaitedFor",
		old: "\t\tr.give(ctx, r.o.Observer, \"Observer\", e)\n", new: "\t\tgo r.give(ctx, r.o.Observer, \"Observer\", e)\n",
	},
	{
		name: "observers: the first loses events, too", file: "options.go", pkg: ".", test: "TestTheFirstObserverIsWaitedFor",
		old: "\tc.Observers = slices.Clone(c.Observers)\n",
		new: "\tc.Observers = slices.Clone(c.Observers)\n\tif c.Observer != nil {\n\t\tc.Observers, c.Observer = append(c.Observers, c.Observer), nil\n\t}\n",
	},
	{
		name: "observers: one that blocks is waited for", file: "observers.go", pkg: ".", test: "TestRunGivesObserversTime",
		old: "context.WithTimeout(context.Background(), restTime)", new: "context.WithTimeout(context.Background(), 10*restTime)",
	},
	{
		name: "observers: the end of Run gives no time", file: "runner.go", pkg: ".", test: "TestRunGivesObserversTime",
		old: "\tr.rest()\n", new: "",
	},
	{
		name: "observers: a queue without a bound", file: "internal/lossy/lossy.go", pkg: "internal/lossy", test: "TestQueueIsBoundedAndInOrder",
		old: "\tif len(q.queue) >= q.most {\n", new: "\tif len(q.queue) < 0 {\n",
	},
	{
		name: "observers: what is lost is not counted", file: "internal/lossy/lossy.go", pkg: ".", test: "TestAnObserverThatBlocksLosesItsOwnEventsOnly",
		old: "\t\tq.lost++\n", new: "",
	},
	{
		name: "observers: a panic ends the queue", file: "internal/lossy/lossy.go", pkg: "internal/lossy", test: "TestQueueOutlivesItsGoroutine",
		old: "\t\tif !over {", new: "\t\tif over && !over {",
	},
	{
		name: "calls: the application's own are not told", file: "watchedstore.go", pkg: ".", test: "TestCallsAreReported",
		old: "\t\tw.calls.time(ctx, &c, ask)\n", new: "\t\task()\n",
	},
	{
		name: "calls: a refusal by the ledger is no error", file: "watched.go", pkg: ".", test: "TestCallsAreReported",
		old: "\t\tc.Err = err\n", new: "\t\tc.Err = nil\n",
	},
	{
		name: "calls: what came back is not counted", file: "watchedstore.go", pkg: ".", test: "TestCallsAreReported",
		old: "c.Err = err; back != nil {", new: "c.Err = err; back == nil {",
	},
	{
		name: "calls: one that panics went well", file: "vitals.go", pkg: ".", test: "TestCallObserversThatPanicAreContained",
		old: "\tc.Err = err\n", new: "",
	},
	{
		name: "calls: who does not look pays for it", file: "calls.go", pkg: ".", test: "TestACallThatNobodySeesIsFree",
		old: "\tif to == nil {\n\t\tcall()\n\t\treturn\n\t}\n", new: "\tif to == nil {\n\t\tto = func(_ context.Context, c Call) { leaked = c }\n\t}\n", more: "\nvar leaked any\n",
	},
	{
		name: "sums: what happens again is written each time", file: "internal/repeats/repeats.go", pkg: ".", test: "TestObserversThatPanicAreContained",
		old: "\t\tr.since++\n\t\treturn false\n", new: "\t\tr.since++\n\t\treturn true\n",
	},
	{
		name: "sums: what is left at the end is not said", file: "internal/repeats/repeats.go", pkg: "internal/repeats", test: "TestRepeatsEnd",
		old: "\t\tif r.since > 0 {\n\t\t\tsaid", new: "\t\tif r.since < 0 {\n\t\t\tsaid",
	},
	{
		name: "lines: troubles are not summed up", file: "log.go", pkg: ".", test: "TestTroublesAreSummedUp",
		old: "batch.EventLaneHeld, batch.EventTrouble:\n\t\tif r.say", new: "batch.EventLaneHeld:\n\t\tif r.say",
	},
	{
		name: "lines: each id is a topic of its own", file: "log.go", pkg: ".", test: "TestTopics",
		old: "\t\t\tword = \"#\"\n", new: "\t\t\tword += \"#\"\n",
	},
	{
		name: "lines: what is repeated is not at Debug either", file: "log.go", pkg: ".", test: "TestTheLogHasEachRepetitionAtDebug",
		old: "\t\tlevel = slog.LevelDebug\n", new: "\t\tlevel = slog.LevelDebug - 100\n",
	},
	{
		name: "lines: the start shows values of the application", file: "log.go", pkg: ".", test: "TestTheLogShowsNoValueOfTheApplication",
		old: "slog.String(name, fmt.Sprintf(\"%T\", v))", new: "slog.String(name, fmt.Sprintf(\"%+v\", v))",
	},
	{
		name: "lines: empty attributes", file: "log.go", pkg: ".", test: "TestTheLogHasNoEmptyAttributes",
		old: "\t\tif value != \"\" {\n", new: "\t\tif name != \"\" {\n",
	},
	{
		name: "lines: a stop does not count what it put back", file: "ending.go", pkg: ".", test: "TestTheLogOfAStop",
		old: "\t\te.putBack.Add(1)\n", new: "\t\te.putBack.Add(0)\n",
	},
	{
		name: "lines: a stop does not count what it left", file: "internal/inhand/unfinished.go", pkg: ".", test: "TestTheLogOfAStopThatIsCutOff",
		old: "case Claimed, Accepted, Writing, Committing:", new: "case Accepted:",
	},
	{
		name: "lines: a busy ledger calls somebody", file: "log.go", pkg: ".", test: "TestTheLogOfPauses",
		old: "kind.Kind == batch.KindBusy:", new: "kind.Kind == batch.KindRejected:",
	},
	{
		name: "probe: it does not recover", file: "probe/probe.go", pkg: "probe", test: "TestOverASocket",
		old: "append(h.why(health, h.o, now), h.old(r.Context())...)\n", new: "append(h.why(health, h.o, now), failed...)\n\tfailed = why\n",
		more: "\nvar failed []string\n",
	},
	{
		name: "probe: readiness does not see an old batch", file: "probe/probe.go", pkg: "probe", test: "TestReadySeesAnOldBatch",
		old: "old > h.o.Oldest", new: "old < 0",
	},
	{
		name: "probe: an old batch is a reason to restart", file: "probe/probe.go", pkg: "probe", test: "TestReadySeesAnOldBatch",
		old: "\tc.Oldest = 0 // a restart would not help\n", new: "",
	},
	{
		name: "probe: one failure is enough", file: "probe/probe.go", pkg: "probe", test: "TestReadyIsPatient",
		old: " && (a.Since.IsZero() || now.Sub(a.Since) > patience) {", new: " {",
	},
	{
		name: "probe: ready before the database was reached", file: "probe/probe.go", pkg: "probe", test: "TestReadyWantsTheDatabaseOnce",
		old: "a.Since.IsZero() || now", new: "!a.Since.IsZero() && now",
	},
	{
		name: "probe: a database that is down restarts the process", file: "probe/probe.go", pkg: "probe", test: "TestLive",
		old: "switch since := p.NoAnswerSince; {", new: "since := p.NoAnswerSince\n\t\tif since.IsZero() {\n\t\t\tsince = p.FailingSince\n\t\t}\n\t\tswitch {",
	},
	{
		name: "probe: a loop that has stopped is alive", file: "probe/probe.go", pkg: "probe", test: "TestLiveSeesALoopThatHasStopped",
		old: "!last.IsZero() && now.Sub(last) > o.Silence {", new: "last.IsZero() && now.Sub(last) > o.Silence {",
	},
	{
		name: "probe: the answer is 200 all the same", file: "probe/probe.go", pkg: "probe", test: "TestOverASocket",
		old: "\t\tw.WriteHeader(http.StatusServiceUnavailable)\n", new: "\t\tw.WriteHeader(http.StatusOK)\n",
	},
	{
		name: "probe: a failure before excuses a hang", file: "vitals.go", pkg: "probe", test: "TestLive$",
		old: "if !p.patient && p.under > 0 && now.Sub(p.since) >= silence {\n", new: "if p.failing.IsZero() && !p.patient && p.under > 0 && now.Sub(p.since) >= silence {\n",
	},
	{
		name: "seen: a wrong command passes for a wish for help", file: "cmd/dltbatch/app.go", pkg: "cmd/dltbatch", test: "TestWrongCommandsAreWrongUse",
		old: "\tc.RunE = func(c *cobra.Command, args []string) error {\n\t\tif len(args) > 0 {", new: "\t_ = func(c *cobra.Command, args []string) error {\n\t\tif len(args) > 0 {",
	},
}
