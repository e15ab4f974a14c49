package main

// handOverList makes a lane wait longer than it must for its next batch, or makes the engine
// ask or write more often than necessary.
var handOverList = []mutant{
	{
		name: "a stop does not wait for what the monitor asked", file: "monitor/monitor.go", pkg: ".", test: "TestAStopWaitsForWhatTheMonitorAsked",
		old: "\tdefer m.hands.asking.Wait()\n", new: "",
	},
	{
		name: "in hand: what a report leaves to write is forgotten", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestNothingIsWrittenByTheRecordersOwnCall",
		old: "all.left = append(all.left, out.Write()...)", new: "_ = out.Write()",
	},
	{
		name: "in hand: a commit that is told while a verdict against it is written is lost", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestAStreamedCommitWhileTheBatchIsRejected",
		old: "\t\tif row.State == batch.Committed {\n\t\t\te.take()", new: "\t\tif row.Final() {\n\t\t\te.take()",
	},
	{
		name: "in hand: a row from memory has no budget", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestARowKeepsItsBudgetAndAges",
		old: "row.Budget, row.PostedAgo, row.Age, row.DoubtAgo = old.Budget,", new: "row.PostedAgo, row.PostedAgo, row.Age, row.DoubtAgo = 0,",
	},
	{
		name: "in hand: a row that was written gets younger", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestARowKeepsItsBudgetAndAges",
		old: "\t\trow.ResendLeft, row.SettleLeft = old.ResendLeft, old.SettleLeft\n", new: "",
	},
	{
		name: "in hand: something waits for a table that does not run", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestAnAcceptanceThatWaitsIsWritten",
		old: " || !all.running", new: "",
	},
	{
		name: "in hand: a second fenced outcome ends the questions", file: "internal/inhand/table.go", pkg: "internal/inhand", test: "TestASecondAnswerIsFenced",
		old: "v != 0 && v < s.version {", new: "v < 0 {",
	},
	{
		name: "in hand: a question without an answer puts the poll off", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestPhasesWithALiveStream",
		old: "if ev.Said && e.Check.Sub(now)", new: "if e.Check.Sub(now)",
	},
	{
		name: "in hand: a late answer of the store ends a newer claim", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestALateAnswerOfTheStore",
		old: "version != 0 && version < s.version", new: "version < 0",
	},
	{
		name: "in hand: an early commit is lost with its row", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestAStreamedCommitThatComesEarly",
		old: "func (e *Entry) forget(out *Effects) {\n\te.flush(out)\n", new: "func (e *Entry) forget(out *Effects) {\n",
	},
	{
		name: "in hand: an acceptance is lost when the batch is claimed again", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestEveryPhaseWithEveryEvent",
		old: "\t\t\te.flush(&out) // its claim has ended long ago", new: "\t\t\te.take() // its claim has ended long ago",
	},
	{
		name: "in hand: what could not be written is followed on", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestEveryPhaseWithEveryEvent",
		old: "\t\te.forget(&out) // the store's check finds out", new: "\t\te.flush(&out) // the store's check finds out",
	},
	{
		name: "in hand: the questions from memory are without bound", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestWhatIsInHandIsBounded",
		old: "Full: all.counts.followed >= maxFollowed", new: "Full: all.counts.followed < 0",
	},
	{
		name: "in hand: nobody writes what waits at a stop", file: "internal/inhand/schedule.go", pkg: "internal/inhand", test: "TestAnAcceptanceThatWaitsIsWritten",
		old: "all := slices.DeleteFunc(slices.Clone(h), func(s *slot) bool { return s.Due.IsZero() })", new: "all := slices.Clone(h)[:0]",
	},
	{
		name: "in hand: a run's lane goes on before its end", file: "internal/inhand/table.go", pkg: "internal/inhand", test: "TestLanesThatMayGoOn",
		old: "case (w.Applied.Row.Final() || t.foundAgain(w)) && !out:", new: "case (w.Applied.Row.Final() || t.foundAgain(w)) && (out || !out):",
	},
	{
		name: "a quick commit is a write of its own", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitAndItsAcceptanceAreOneWrite",
		old: "\tcase e.Phase == Accepted:\n\t\to = join(e.Unwritten, o)\n", new: "\tcase e.Phase == Accepted:\n\t\tout.add(e.Unwritten)\n",
	},
	{
		name: "a streamed commit is a write of its own", file: "internal/inhand/entry.go", pkg: ".", test: "TestAStreamedCommitIsWrittenWithItsAcceptance",
		old: "streams := f.Names && ", new: "streams := f.Names && !f.Live && ",
	},
	{
		name: "a commit does not wait for the answer to its POST", file: "internal/inhand/entry.go", pkg: ".", test: "TestAStreamedCommitIsWrittenWithItsAcceptance",
		old: "case r.Hold <= 0 || f.Crowded:", new: "case e.Due.IsZero():",
	},
	{
		name: "a commit waits for ever for the answer to a POST", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitThatOvertakesItsAcceptance",
		old: "now.Add(min(earlyFor, r.Hold))", new: "now.Add(24*time.Hour)",
	},
	{
		name: "a commit waits for the acceptance of what was not accepted", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitThatOvertakesItsAcceptance",
		old: "if out.add(o); streamed {", new: "if out.add(o); streamed && o.Version < 0 {",
	},
	{
		name: "an acceptance is held although the store waits for it", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitThatOvertakesItsAcceptance",
		old: "if e.Phase == Committing || !ev.MayWait", new: "if !ev.MayWait",
	},
	{
		name: "what is told is held without bound", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestWhatIsInHandIsBounded",
		old: "r.Hold <= 0 || f.Crowded:", new: "r.Hold <= 0:",
	},
	{
		name: "an acceptance waits for ever", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestAnAcceptanceThatWaitsIsWritten",
		old: "e.Due = Accepted, o, now.Add(r.Hold)", new: "e.Due = Accepted, o, now.Add(24*time.Hour)",
	},
	{
		name: "an acceptance that is not committed at once waits on", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAsksBeforeTheAcceptanceIsWritten",
		old: "\tcase Waited:\n\t\tif e.Phase == Accepted {", new: "\tcase Waited:\n\t\tif e.Phase == Accepted && now.Before(e.Due.Add(-time.Hour)) {",
	},
	{
		name: "a run's acceptances wait for the ledger", file: "engine.go", pkg: ".", test: "TestARunIsAcknowledgedAtOnce",
		old: "\tif reliant {\n\t\thold = 0", new: "\tif !reliant {\n\t\thold = 0",
	},
	{
		name: "an acceptance that may not be repeated for long waits for the ledger", file: "engine.go", pkg: ".", test: "TestAnAcceptanceThatACrashWouldMakeADoubtIsWrittenAtOnce",
		old: "return e.r.resend(o.Key.Service)", new: "return o.Was.ResendUntil.After(o.Was.DoubtSince) || e.r.resend(o.Key.Service)",
	},
	{
		name: "an acceptance that may not be repeated at all waits for the ledger", file: "engine.go", pkg: ".", test: "TestAnAcceptanceThatACrashWouldMakeADoubtIsWrittenAtOnce",
		old: "return e.r.resend(o.Key.Service)", new: "return o.Was.ResendUntil.Equal(o.Was.DoubtSince) || e.r.resend(o.Key.Service)",
	},
	{
		name: "a verdict before the acceptance is recorded counts", file: "monitor/memory.go", pkg: "monitor", test: "TestAsksBeforeTheAcceptanceIsWritten",
		old: "q.Unwritten && (st == nil || st.Reported != batch.ReportedCommitted)", new: "q.Unwritten && st == nil",
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
		name: "a verdict of a flight that is no commit is dropped", file: "monitor/memory.go", pkg: "monitor", test: "TestAnotherWordIsDecidedAbout",
		old: "\t\t\tfound = append(found, said.outcome(*v.Outcome))\n\t\tcase v.Resolve:\n\t\t\tanswers", new: "\t\t\tif v.Outcome.Finding == store.IsCommitted {\n\t\t\t\tfound = append(found, said.outcome(*v.Outcome))\n\t\t\t}\n\t\tcase v.Resolve:\n\t\t\tanswers",
	},
	{
		name: "events put polls off for ever", file: "monitor/memory.go", pkg: "monitor", test: "TestEventsDoNotPutOffEvidence",
		old: "Kind: inhand.Left})", new: "Kind: inhand.Same, Said: true})",
	},
	{
		name: "what a stream missed before it was live is left to the poll", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAStreamThatComesAliveWhileTheAcceptanceIsWritten",
		old: "!f.Heard.Before(e.Began) || fresh && (!e.Live ||", new: "!f.Heard.Before(e.Began.Add(2*time.Millisecond+ev.Took)) && e.Live || fresh && (false ||",
	},
	{
		name: "what was told before a POST is a reason to ask after it", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAnEventBeforeThePostIsNoReasonToAsk",
		old: "now.Add(-ev.Took)", new: "now.Add(-100*time.Millisecond)",
	},
	{
		name: "a scan goes before what is named", file: "queuer/scan.go", pkg: "queuer", test: "TestANamedLaneDoesNotWaitForAScan",
		old: "p.lanes.Find(s.lanes)", new: "p.lanes.Name(now, s.lanes...)",
	},
	{
		name: "scans go on whatever waits", file: "queuer/scan.go", pkg: "queuer", test: "TestAScanWaitsForWhatTheLastOneCameUpon",
		old: "found > p.o.ScanLanes/2 {", new: "found < 0 {",
	},
	{
		name: "what was named after a scan counts as waiting for its turn", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestFoundLanesStandBehindNamedOnes",
		old: "e.request == found && at.Equal(now) || ", new: "",
	},
	{
		name: "what was claimed from is looked at again at once", file: "queuer/claim.go", pkg: ".", test: "TestThreeInstancesAreNoHerd",
		old: "\tc.learn(claimed, looks, began) // before", new: "\tc.learn(claimed, looks, began)\n\tc.lanes.Free(time.Now().Add(lockedPause), lanes...) // before",
	},
	{
		name: "whoever only looks takes the lease", file: "store/row.go", pkg: "store/memory", test: "TestStore/pending/only_looked_at",
		old: "if lease == 0 {\n\t\treturn r\n\t}", new: "",
	},
	{
		name: "lanes that nobody names wait for all that somebody does", file: "internal/lanes/table.go", pkg: "queuer", test: "TestAScanHasItsTurnsAmongLanesThatAreNamed",
		old: "t.passed >= passes {", new: "t.passed >= passes && false {",
	},
	{
		name: "a lane with a batch under way is looked at whenever something is added", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "case e.until.After(e.at):", new: "case e.until.After(e.at) && !e.out:",
	},
	{
		name: "a lane whose batch was fenced is left alone", file: "queuer/queuer.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "\tq.lanes.Over(s)\n", new: "",
	},
	{
		name: "a lane of which nothing is heard is left alone for ever", file: "queuer/claim.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "began.Add(c.o.Busy)", new: "began.Add(100*c.o.Busy)",
	},
	{
		name: "a lane that another instance sets free is left alone until a scan", file: "engine.go", pkg: ".", test: "TestALaneThatAnotherInstanceSetsFreeIsLookedAt",
		old: "min(o.ScanInterval, o.PollInterval)", new: "o.ScanInterval",
	},
	{
		name: "nobody says that a batch under way was fenced", file: "internal/inhand/table.go", pkg: ".", test: "TestALaneWhoseBatchAnotherInstanceDecidedIsLookedAt",
		old: "\t\tt.o.Over(s)\n", new: "\t\tt.o.Over(s[:0])\n",
	},
	{
		name: "a lane whose batch was quick is left alone", file: "queuer/claim.go", pkg: "queuer", test: "TestALaneWhoseBatchIsQuickIsLookedAt",
		old: "\tc.learn(claimed, looks, began) // before", new: "\tdefer c.learn(claimed, looks, began) // before",
	},
	{
		name: "lanes that were left alone are kept for ever", file: "internal/lanes/table.go", pkg: "queuer", test: "TestLanesThatWereLeftAloneAreForgotten",
		old: "if l.idle(now) {", new: "if l.idle(now) && false {",
	},
	{
		name: "a lane that takes more is left alone", file: "queuer/queuer.go", pkg: "queuer", test: "TestALaneThatTakesMoreIsLookedAt",
		old: "single: serial || ReliesOnOrder(o.Strategy),", new: "single: serial || true,",
	},
	{
		name: "a claim is reported before its payloads are loaded", file: "queuer/handover.go", pkg: "queuer", test: "TestAClaimOfWhichMuchIsReportedIsPosted",
		old: "loaded, err := c.load(ctx, refs)", new: "for _, r := range claimed.Runs {\n\t\tc.o.Claimed(ctx, r)\n\t}\n\tloaded, err := c.load(ctx, refs)",
	},
	{
		name: "reports about order hold up the recorder", file: "engine.go", pkg: ".", test: "TestPipelinedReportsWithoutAnAnswerHoldUpNothing",
		old: "context.WithTimeout(context.Background(), o.ClaimTTL/8)", new: "context.WithTimeout(context.Background(), 8*o.ClaimTTL)",
	},
}
