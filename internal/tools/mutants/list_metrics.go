package main

// metricsList breaks the metrics, and the events and Health that they come from.
var metricsList = []mutant{
	{
		name: "metrics: counters may lose events", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestEventsAreCountedAtOnce",
		old: "with.Observer, with.Calls = observer{m, with.Observer}, calls{m, with.Calls}",
		new: "with.Observers, with.Calls = append(with.Observers, observer{m, nil}), calls{m, with.Calls}",
	},
	{
		name: "metrics: the application's own observer gets nothing", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestCountersAreExact",
		old: "\tif o.next != nil {\n", new: "\tif o.next == nil {\n",
	},
	{
		name: "metrics: a meter that panics takes events from the application", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestMetersThatPanic",
		old: "\tif o.next != nil {\n\t\tdefer o.next.Observe(ctx, e)\n\t}\n\to.m.event(e)\n",
		new: "\to.m.event(e)\n\tif o.next != nil {\n\t\to.next.Observe(ctx, e)\n\t}\n",
	},
	{
		name: "metrics: a meter that panics takes calls from the application", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestMetersThatPanic",
		old: "\tif c.next != nil {\n\t\tdefer c.next.ObserveCall(ctx, call)\n\t}\n\tc.m.call(ctx, call)\n",
		new: "\tc.m.call(ctx, call)\n\tif c.next != nil {\n\t\tc.next.ObserveCall(ctx, call)\n\t}\n",
	},
	{
		name: "metrics: a Runner is not watched", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestNewRunnerIsWatched",
		old: "\tm.watch(r)\n", new: "",
	},
	{
		name: "metrics: no provider crashes", file: "otelbatch/metrics.go", pkg: "otelbatch", test: "TestNewMetricsFails",
		old: "\tif p == nil {\n", new: "\tif p == nil && scope == \"\" {\n",
	},
	{
		name: "metrics: an instrument that cannot be made is forgotten", file: "otelbatch/instruments.go", pkg: "otelbatch", test: "TestNewMetricsFails",
		old: "\tif err != nil && b.err == nil {\n", new: "\tif err == nil && b.err != nil {\n",
	},
	{
		name: "metrics: a commit behind others is no final", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestEvents",
		old: "\t\t\tm.outcome(e)\n\t\t\tm.final(e)\n", new: "\t\t\tm.outcome(e)\n",
	},
	{
		name: "metrics: a doubt that stays has ended", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestEvents",
		old: "e.From == batch.Submitting && e.State != batch.Submitting:", new: "e.From == batch.Submitting:",
	},
	{
		name: "metrics: a doubt counts with each question", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestEvents",
		old: "case e.Kind == batch.EventInDoubt && e.By == batch.BySubmitter:", new: "case e.Kind == batch.EventInDoubt:",
	},
	{
		name: "metrics: an attempt is accepted whatever the ledger says", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestCountersAreExact",
		old: "if e.State != batch.Pending {", new: "if e.State == batch.Pending {",
	},
	{
		name: "metrics: an acquittal is an end", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestEvents",
		old: "(e.Act.Action == batch.ActionDecide || e.Act.Action == batch.ActionCancel) && ", new: "e.Act.Action != batch.ActionPause && ",
	},
	{
		name: "metrics: what failed was added", file: "otelbatch/calls.go", pkg: "otelbatch", test: "TestCalls",
		old: "\tif c.Err != nil {\n", new: "\tif c.Err != nil && c.Op == \"claim\" {\n",
	},
	{
		name: "metrics: a counter has no series before its first event", file: "otelbatch/instruments.go", pkg: "otelbatch", test: "TestGauges",
		old: "n > 0 || k[0] != other && k[1] != other {", new: "n > 0 {",
	},
	{
		name: "metrics: what is in no list is its own label", file: "otelbatch/instruments.go", pkg: "otelbatch", test: "TestCalls",
		old: "\t\t\tk[i] = other\n", new: "\t\t\tk[i] = l.values[0]\n",
	},
	{
		name: "metrics: a Runner that does not run holds claims", file: "otelbatch/health.go", pkg: "otelbatch", test: "TestGauges",
		old: "\tif !h.Running {\n\t\treturn\n\t}\n", new: "",
	},
	{
		name: "metrics: of times the last Runner's counts", file: "otelbatch/health.go", pkg: "otelbatch", test: "TestGauges",
		old: "t.ages[loop] = max(t.ages[loop], now.Sub(p.LastSuccess).Seconds())", new: "t.ages[loop] += now.Sub(p.LastSuccess).Seconds()",
	},
	{
		name: "metrics: counting allocates", file: "otelbatch/instruments.go", pkg: "otelbatch", test: "TestCountingAllocatesNothing",
		old: "h.to.Record(ctx, v, h.all[h.known(k)]...)", new: "h.to.Record(ctx, v, append(slices.Clone(h.all[h.known(k)]), metric.WithAttributes())...)",
	},
	{
		name: "seen: a doubt that is recorded is taken over", file: "notify.go", pkg: ".", test: "TestEventsTellWhatIsTakenOver",
		old: "!was.ClaimExpires.Equal(was.LastPost) && ", new: "",
	},
	{
		name: "seen: what is sent again does not say so", file: "notify.go", pkg: ".", test: "TestEventsTellWhatIsTakenOver",
		old: "Attempt: c.Attempt, Again: c.Again, SinceAdded", new: "Attempt: c.Attempt, SinceAdded",
	},
	{
		name: "health: claims of other phases", file: "health.go", pkg: ".", test: "TestHealthCountsWhatIsUnderWay",
		old: "\t\th.Claims = e.table.Unfinished()\n", new: "\t\th.Claims = len(e.table.Watched())\n",
	},
	{
		name: "health: a stream that is lost is open", file: "vitals.go", pkg: ".", test: "TestHealthShowsALostStream",
		old: "len(v.streams) - len(h.LostStreams)", new: "len(v.streams)",
	},
	{
		name: "health: nobody knows since when the ledger is closed", file: "health.go", pkg: ".", test: "TestAMisconfigurationBurnsNothing",
		old: "PausedSince: h.paused, PausedBecause: h.because}", new: "PausedSince: now}",
	},
	{
		name: "metrics: two Runners of a store count it twice", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "	if a.At.Equal(b.At) && a.By == b.By {\n", new: "	if false {\n",
	},
	{
		name: "metrics: a count between two reads doubles", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "return i.ID == j.ID", new: "return false",
	},
	{
		name: "metrics: nothing counted is nothing open", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "case !s.At.IsZero() && ", new: "case ",
	},
	{
		name: "metrics: ages stand still between counts", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "s.At.Sub(oldest)+s.Age", new: "s.At.Sub(oldest)",
	},
	{
		name: "metrics: a Runner that has stopped hides the database", file: "otelbatch/health.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "m.stats.collect(ctx, using(runners), o)", new: "m.stats.collect(ctx, runners, o)",
	},
	{
		name: "metrics: an attempt that needs a person is none", file: "otelbatch/events.go", pkg: "otelbatch", test: "TestEvents$",
		old: "\t\tm.decisions.add(1, key{})\n\t\tm.outcome(e)\n", new: "\t\tm.decisions.add(1, key{})\n\t\tm.takenOver(e)\n",
	},
	{
		name: "metrics: a doubt is as old as the oldest batch", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestGaugesOfStores",
		old: "since(s.OldestDoubt)", new: "since(s.Oldest)",
	},
	{
		name: "metrics: a clock that is ahead is right", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestApart",
		old: "max(0, before.Sub(read), read.Sub(after))", new: "max(0, before.Sub(read))",
	},
	{
		name: "metrics: the time to read is a difference of clocks", file: "otelbatch/stats.go", pkg: "otelbatch", test: "TestApart",
		old: "max(0, before.Sub(read), read.Sub(after))", new: "max(0, after.Sub(read), read.Sub(after))",
	},
	{
		name: "stats: SQLite: no doubt has an age", file: "store/sqlite/queries.go", pkg: "store/sqlite", test: "TestStore/stats/.*",
		old: "coalesce(min(doubt), 0) FROM found", new: "0 FROM found",
	},
	{
		name: "stats: PostgreSQL: no doubt has an age", file: "store/postgres/operatorqueries.go", pkg: "internal/integration", test: "TestStore/native$/stats",
		old: "coalesce(min(doubt), 0) FROM found", new: "0 FROM found",
	},
	{
		name: "stats: memory: the newest doubt is the oldest", file: "store/memory/stats.go", pkg: "store/memory", test: "TestStore/stats/.*",
		old: "c.OldestDoubt = oldest(c.OldestDoubt, e.row.DoubtSince)", new: "c.OldestDoubt = e.row.DoubtSince",
	},
	{
		name: "idle: the monitor asks although nothing is open", file: "monitor/monitor.go", pkg: ".", test: "TestIdleRunnerAsksLittle",
		old: "m.o.Empty != nil && m.o.Empty()", new: "m.o.Empty == nil",
	},
	{
		name: "idle: the monitor rests for ever where lanes are paused", file: "monitor/monitor.go", pkg: ".", test: "TestIdleRunnerFindsWhatOthersLeftInAPausedLane",
		old: "now.Sub(asked) < restAsk && ", new: "",
	},
	{
		name: "idle: the monitor rests while a row is due", file: "monitor/monitor.go", pkg: "monitor", test: "TestAMonitorRestsWhereNothingIsOpen",
		old: "return (next.IsZero() || next.After(now)) && ", new: "_ = next\n\treturn ",
	},
	{
		name: "idle: a part of the lanes is all", file: "queuer/scan.go", pkg: "queuer", test: "TestEmpty",
		old: "if p.start && s.err == nil && ", new: "if s.err == nil && ",
	},
	{
		name: "idle: a scan that failed found nothing", file: "queuer/scan.go", pkg: "queuer", test: "TestEmpty",
		old: "if p.start && s.err == nil && ", new: "if p.start && ",
	},
	{
		name: "metrics: an Engine's dropped contexts are not counted", file: "otelbatch/health.go", pkg: "otelbatch", test: "TestWatchEngine",
		old: "t.dropped += int(e.DroppedTraces())", new: "_ = e",
	},
}
