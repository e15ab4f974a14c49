package main

// handOverList makes a lane wait longer than it must for its next batch, or makes the engine
// ask or write more often than necessary.
var handOverList = []mutant{
	{
		name: "a stop does not wait for what the monitor asked", file: "monitor/monitor.go", pkg: ".", test: "TestAStopWaitsForWhatTheMonitorAsked",
		old: "\tdefer m.asking.Wait()\n", new: "",
	},
	{
		name: "a quick commit is a write of its own", file: "internal/recorder/held.go", pkg: "internal/recorder", test: "TestACommitAndItsAcceptanceAreOneWrite",
		old: "if w := h.of[all[i].Key]; w != nil && w.o.Finding == store.Accepted {", new: "if w := h.of[all[i].Key]; w != nil && w.n < 0 {",
	},
	{
		name: "a commit that was told is a write of its own", file: "engine.go", pkg: ".", test: "TestACommitThatIsToldIsWrittenWithItsAcceptance",
		old: "if quick && (names || ", new: "if quick && (!names && names || ",
	},
	{
		name: "a commit does not wait for the answer to its POST", file: "internal/recorder/held.go", pkg: ".", test: "TestACommitThatIsToldIsWrittenWithItsAcceptance",
		old: "o.By == batch.ByMonitor && o.Was == nil", new: "false",
	},
	{
		name: "a commit waits for ever for the answer to a POST", file: "internal/recorder/held.go", pkg: "internal/recorder", test: "TestACommitThatWasToldIsWritten",
		old: "if h.first.IsZero() || until.Before(h.first) {", new: "if h.first.IsZero() {",
	},
	{
		name: "a commit waits for the acceptance of what was not accepted", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestACommitThatWasToldIsWritten",
		old: "ok := r.held.takeEarly(o.Key); ok {", new: "ok := r.held.takeEarly(o.Key); ok && o.Finding == store.Accepted {",
	},
	{
		name: "an acceptance is held although the store waits for it", file: "internal/recorder/held.go", pkg: "internal/recorder", test: "TestAnAcceptanceDoesNotWaitForACommitThatWaitsForIt",
		old: "off || len(h.of) >= maxHeld", new: "off && len(h.of) >= maxHeld",
	},
	{
		name: "what is told is held without bound", file: "internal/recorder/held.go", pkg: "internal/recorder", test: "TestWhatIsToldIsBounded",
		old: " && len(h.of) < maxHeld {", new: " {",
	},
	{
		name: "an acceptance waits for ever", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestWhatIsHeldIsWritten",
		old: "if at := r.held.firstDue(); !at.IsZero() {", new: "if at := r.held.firstDue(); at.Year() < 0 {",
	},
	{
		name: "an acceptance that is not committed at once waits on", file: "monitor/mine.go", pkg: "monitor", test: "TestMindsSoon",
		old: "\t\t\tm.updater.Free(free)\n", new: "",
	},
	{
		name: "a run's acceptances wait for the ledger", file: "engine.go", pkg: ".", test: "TestARunIsAcknowledgedAtOnce",
		old: "quick := e.order == nil && o.Was != nil && e", new: "quick := o.Was != nil && e",
	},
	{
		name: "an acceptance that may not be repeated for long waits for the ledger", file: "engine.go", pkg: ".", test: "TestAnAcceptanceThatACrashWouldMakeADoubtIsWrittenAtOnce",
		old: "return e.r.resend(service)", new: "return claimed.ResendUntil.After(claimed.DoubtSince) || e.r.resend(service)",
	},
	{
		name: "an acceptance that may not be repeated at all waits for the ledger", file: "engine.go", pkg: ".", test: "TestAnAcceptanceThatACrashWouldMakeADoubtIsWrittenAtOnce",
		old: "return e.r.resend(service)", new: "return claimed.ResendUntil.Equal(claimed.DoubtSince) || e.r.resend(service)",
	},
	{
		name: "a verdict before the acceptance is recorded counts", file: "monitor/mine.go", pkg: "monitor", test: "TestMindsSoon",
		old: "(st == nil || st.Reported != batch.ReportedCommitted)", new: "st == nil",
	},
	{
		name: "a claim's end is taken for its POST's", file: "store/outcome.go", pkg: "store", test: "TestCommitIsHeldByAnothersLiveClaim",
		old: "\t\t\tr.LastPost = now // its POST", new: "\t\t\t_ = now // its POST",
	},
	{
		name: "a verdict lingers", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestAVerdictIsWrittenAtOnce",
		old: "wait = wait && it.lingers()", new: "wait = true",
	},
	{
		name: "a busy recorder writes one by one", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestVerdictsLingerAfterAWriteOfMany",
		old: "r.next(wait || busy, linger.C)", new: "r.next(wait, linger.C)",
	},
	{
		name: "asked about while the claim is live", file: "monitor/flights.go", pkg: "monitor", test: "TestWhatIsNotStoredAsAcceptedIsNotAskedAbout",
		old: "case f.stored && !f.told && (st.ask", new: "case !f.told && (st.ask",
	},
	{
		name: "a verdict of a flight that is no commit is dropped", file: "monitor/flights.go", pkg: "monitor", test: "TestAnotherWordIsLookedInto",
		old: "\t\t\tother = true\n", new: "\t\t\tother = false\n",
	},
	{
		name: "events put polls off for ever", file: "monitor/flights.go", pkg: "monitor", test: "TestPollsAreNotPutOffForEver",
		old: "|| now.Sub(f.began)+2*poll > patience", new: "|| patience == 0",
	},
	{
		name: "what a stream missed before it was live is left to the poll", file: "monitor/mine.go", pkg: "monitor", test: "TestAStreamThatComesAliveWhileTheAcceptanceIsWritten",
		old: "m.adopt(group, f, m.o.Rules.PollInterval, true)", new: "_ = group",
	},
	{
		name: "what was told before a POST is a reason to ask after it", file: "monitor/flights.go", pkg: "monitor", test: "TestWhatWasToldBeforeThePostIsNoReasonToAsk",
		old: "time.Now().Add(-took)", new: "time.Now().Add(-100*time.Millisecond)",
	},
	{
		name: "a scan goes before what is named", file: "queuer/scan.go", pkg: "queuer", test: "TestANamedLaneDoesNotWaitForAScan",
		old: "q.lanes.Find(s.lanes)", new: "q.lanes.Name(now, s.lanes...)",
	},
	{
		name: "scans go on whatever waits", file: "queuer/scan.go", pkg: "queuer", test: "TestAScanWaitsForWhatTheLastOneCameUpon",
		old: "found > q.o.ScanLanes/2 {", new: "found < 0 {",
	},
	{
		name: "what was named after a scan counts as waiting for its turn", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestFoundLanesStandBehindNamedOnes",
		old: "e.request == found && at.Equal(now) || ", new: "",
	},
	{
		name: "what was claimed from is looked at again at once", file: "queuer/claim.go", pkg: ".", test: "TestThreeInstancesAreNoHerd",
		old: "\tq.learn(claimed, looks, began) // before", new: "\tq.learn(claimed, looks, began)\n\tq.lanes.Free(time.Now().Add(lockedPause), lanes...) // before",
	},
	{
		name: "whoever only looks takes the lease", file: "store/row.go", pkg: "store/memory", test: "TestStore/pending/only_looked_at",
		old: "if lease != 0 {", new: "if lease >= 0 {",
	},
	{
		name: "lanes that nobody names wait for all that somebody does", file: "internal/lanes/table.go", pkg: "queuer", test: "TestAScanHasItsTurnsAmongLanesThatAreNamed",
		old: "t.passed >= passes {", new: "t.passed >= passes && false {",
	},
	{
		name: "a lane with a batch under way is looked at whenever something is added", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "case e.until.After(e.at):", new: "case e.until.After(e.at) && e.reason != out:",
	},
	{
		name: "a lane whose batch was fenced is left alone", file: "queuer/queuer.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "\tq.lanes.Over(s)\n", new: "",
	},
	{
		name: "a lane of which nothing is heard is left alone for ever", file: "queuer/claim.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "began.Add(q.o.Busy)", new: "began.Add(100*q.o.Busy)",
	},
	{
		name: "a lane that another instance sets free is left alone until a scan", file: "engine.go", pkg: ".", test: "TestALaneThatAnotherInstanceSetsFreeIsLookedAt",
		old: "min(o.ScanInterval, o.PollInterval)", new: "o.ScanInterval",
	},
	{
		name: "nobody says that a batch under way was fenced", file: "engine.go", pkg: ".", test: "TestALaneWhoseBatchAnotherInstanceDecidedIsLookedAt",
		old: "e.queuer.Over(w.Key.Service)", new: "e.queuer.Over(w.Key.Service[:0])",
	},
	{
		name: "a lane whose batch was quick is left alone", file: "queuer/claim.go", pkg: "queuer", test: "TestALaneWhoseBatchIsQuickIsLookedAt",
		old: "\tq.learn(claimed, looks, began) // before", new: "\tdefer q.learn(claimed, looks, began) // before",
	},
	{
		name: "lanes that were left alone are kept for ever", file: "internal/lanes/table.go", pkg: "queuer", test: "TestLanesThatWereLeftAloneAreForgotten",
		old: "if l.idle(now) {", new: "if l.idle(now) && false {",
	},
	{
		name: "a lane that takes more is left alone", file: "queuer/queuer.go", pkg: "queuer", test: "TestALaneThatTakesMoreIsLookedAt",
		old: "single: serial || ReliesOnOrder(o.Strategy),", new: "single: serial || true,",
	},
}
