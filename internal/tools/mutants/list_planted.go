package main

// plantedList is bugs that somebody planted, and that no test noticed then.
var plantedList = []mutant{
	// The monitor and its streams.
	{
		name: "no poll after a stream has ended", file: "monitor/streams.go", pkg: "monitor", test: "TestAfterAStreamHasEndedTheMonitorPollsAtOnce",
		old: "a.due(0) // batches that this stream", new: "// batches that this stream",
	},
	{
		name: "the second generation of first sights is lost", file: "internal/inhand/sightings.go", pkg: "monitor", test: "TestTheFirstSightIsKeptWhileItIsAskedAbout",
		old: "s.now, s.old, s.since = map[sighting]time.Time{}, s.now, now", new: "s.now, s.old, s.since = map[sighting]time.Time{}, nil, now",
	},
	{
		name: "a stop leaves rows leased", file: "monitor/monitor.go", pkg: "monitor", test: "TestAStopLeavesNoRowLeased",
		old: "due[i].In = 0\n", new: "due[i].In += 0\n",
	},
	{
		name: "evidence without a free hand is never looked for", file: "monitor/ask.go", pkg: "monitor", test: "TestEvidenceIsLookedForWithFewConnections",
		old: "unclear = func() { m.evidence(ctx, g, f, k) }", new: "unclear = func() { m.check(ctx, []store.Due{{Ref: f.Ref, In: noHandPause}}) }",
	},
	{
		name: "evidence is looked for without a free hand", file: "monitor/ask.go", pkg: "monitor", test: "TestEvidenceIsLookedForWithFewConnections",
		old: "\tif !ok {\n\t\treturn false\n\t}\n\tm.hands.start(", new: "\tif !ok {\n\t\tm.hands.asking.Go(func() { m.evidence(ctx, g, f, k) })\n\t\treturn true\n\t}\n\tm.hands.start(",
	},
	// The recorder.
	{
		name: "a waiting commit is not tried again when its claim ends", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitThatIsHeldBack",
		old: "\te.beginWrite(out)\n\tearly, streamed := e.take()\n", new: "\te.beginWrite(out)\n\tearly, streamed := store.Outcome{}, false\n\tif e.Phase != Committing {\n\t\tearly, streamed = e.take()\n\t}\n",
	},
	{
		name: "a commit that another's claim holds back is written without a pause", file: "internal/inhand/entry.go", pkg: ".", test: "TestACommitWaitsForAnotherProcessesClaim",
		old: "o, now.Add(heldPause), time.Time{}", new: "o, now, time.Time{}",
	},
	{
		name: "a commit that is held back of a question before the claim is dropped", file: "internal/inhand/entries.go", pkg: "internal/inhand", test: "TestACommitThatIsHeldBack",
		old: "\t\tversion = 0\n", new: "",
	},
	{
		name: "an answer about an earlier claim ends the run", file: "internal/inhand/runs.go", pkg: "internal/inhand", test: "TestLanesThatMayGoOn",
		old: "r[o.Key.Service] != (sighting{o.Key, o.Version}) {", new: "r[o.Key.Service].key != o.Key {",
	},
	{
		name: "lost reply: the second answer is taken for the first", file: "notify.go", pkg: ".", test: "TestAnInvalidThatCommitsIsReportedAlthoughTheReplyIsLost",
		old: "if w.Again && w.Applied.Result == store.Written {", new: "if w.Again && w.Applied.Result == store.Bad {",
	},
	{
		name: "lost reply: a breach is never suspected", file: "lostreply.go", pkg: ".", test: "TestABreachIsReportedAlthoughTheReplyIsLost",
		old: "return len(acts) > 0 || slices.ContainsFunc(reports,", new: "return len(acts) > 0 && slices.ContainsFunc(reports,",
	},
	{
		name: "lost reply: a breach is always suspected", file: "lostreply.go", pkg: ".", test: "TestABreachIsReportedAlthoughTheReplyIsLost",
		old: "return row.Spent > 0 || r.Kind", new: "return row.Spent >= 0 || r.Kind",
	},
	{
		name: "lost reply: a policy's halt is not reported", file: "lostreply.go", pkg: ".", test: "TestAHaltIsReportedAlthoughTheReplyIsLost",
		old: "a.Governs() && (a.Halted || n.halted(ctx, a, w.Policy))", new: "a.Governs() && a.Halted",
	},
	{
		name: "lost reply: whatever ends halts", file: "lostreply.go", pkg: ".", test: "TestAHaltIsReportedAlthoughTheReplyIsLost",
		old: "return !c.HaltedAt.IsZero() && (a.Halted || c.HaltedBy == a.Key.ID)", new: "return true",
	},
	{
		name: "lost reply: the ledger's halt is not reported", file: "lostreply.go", pkg: ".", test: "TestAHaltByTheLedgerIsReportedAlthoughTheReplyIsLost",
		old: "\ta.Halt = w.Halt ", new: "",
	},
	{
		name: "failed writes are never given up", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestAFailedWriteIsGivenUpInTheEnd",
		old: "if now.Before(it.until) {", new: "if !it.until.IsZero() && !now.IsZero() {",
	},
	// Orders.
	{
		name: "orders: no pause after a budget was used up", file: "batch/autobatch/settling.go", pkg: "batch/autobatch", test: "TestAPartyRestsAfterABudgetIsUsedUp",
		old: "t.parties.pause(s.Batch.Service, t.o.RetryInterval)", new: "t.parties.pause(s.Batch.Service, 0)",
	},
	{
		name: "orders: batches that are held hide the others", file: "batch/autobatch/settling.go", pkg: "batch/autobatch", test: "TestHeldBatchesHideNoOther",
		old: "limit := settlePage + len(held)", new: "limit := settlePage + 0*len(held)",
	},
	{
		name: "orders: a failing party is not left alone", file: "batch/autobatch/parties.go", pkg: "batch/autobatch", test: "TestAFailingPartyIsLeftAlone",
		old: "p.until = time.Now().Add(p.failed.NextBackOff())", new: "p.failed.NextBackOff()",
	},
	// Clients.
	{
		name: "canton: what was read is kept after the participant was put back", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestAfterAParticipantWasPutBack",
		old: "\t\tfor _, q := range questions {\n\t\t\tc.traces.forget(q.key)\n\t\t}\n", new: "",
	},
	{
		name: "canton: what was read is remembered again after the participant was put back", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestAfterAParticipantWasPutBack",
		old: "\t\treturn -1, false, err // so that", new: "\t\t// so that",
	},
	{
		name: "splinter: a log that drops ids goes on with its span", file: "dlt/splinter/log.go", pkg: "dlt/splinter", test: "TestALogThatDropsIDsBeginsANewSpan",
		old: "case len(l.ids) >= maxUnsaid: // the journal fails: what is dropped here is a gap\n\t\tl.begin(time.Now())",
		new: "case len(l.ids) >= maxUnsaid: // the journal fails: what is dropped here is a gap\n\t\tl.ids = nil",
	},
	{
		name: "splinter: a machine that slept claims to have listened", file: "dlt/splinter/log.go", pkg: "dlt/splinter", test: "TestALogEndsWhenTheMachineFallsAsleep",
		old: "e.Age = max(e.Age, time.Now().Round(0).Sub(at.Round(0)))", new: "e.Age = max(e.Age, time.Since(at))",
	},
	{
		name: "splinter: a witness that may be younger than the batch's own place", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "if d.Number == 1 && k.witnessed() {", new: "if k.witnessed() {",
	},
	// The stores.
	{
		name: "a commit of a batch that was removed and added again is lost (SQL)", file: "internal/sqlstore/record.go", pkg: "internal/integration", test: "TestStore/native$/prune",
		old: "o.Finding == store.IsCommitted && o.Row != 0 && (s == nil || s.Key() != o.Key)", new: "o.Finding == store.IsCommitted && o.Row == 0 && (s == nil || s.Key() != o.Key)",
	},
	{
		name: "postgres: who steers does not lock", file: "internal/sqlstore/queries.go", pkg: "internal/integration", test: "TestStore/native$/race",
		old: "sqlLockControl = sqlControl + ` FOR UPDATE`", new: "sqlLockControl = sqlControl",
	},
	{
		name: "postgres: a deadlock is repeated by Record only", file: "store/postgres/errors.go", pkg: "internal/integration", test: "TestDeadlockIsRepeatedByEveryCall",
		old: "case serializationFailure, deadlockDetected:", new: "case serializationFailure:",
	},
	{
		name: "a payload of another key", file: "internal/sqlstore/payloads.go", pkg: "internal/integration", test: "TestStore/native$/claim",
		old: "if !ok || p.Key() != refs[i].Key {", new: "if !ok {",
	},
	{
		name: "postgres: a first claim loses the mark of a requeue", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/operate",
		old: "resend_until, 0, false, requeued,\n", new: "resend_until, 0, false, false,\n",
	},
	{
		name: "sqlite: the receipts of the verdict before stay", file: "store/sqlite/row.go", pkg: "store/sqlite", test: "TestStore/record",
		old: "if _, err := t.Exec(ctx, sqlDeleteReceipts, s.Seq); err != nil {", new: "if _, err := t.Exec(ctx, sqlDeleteReceipts, -s.Seq); err != nil {",
	},
	// Drawn statements whose loss no test noticed.
	{
		name: "the pause after a failure never grows", file: "retry.go", pkg: ".", test: "TestRetryDelayDoubles",
		old: "\t\td *= 2\n", new: "",
	},
	{
		name: "an acceptance leaves the error of an attempt before", file: "store/outcome.go", pkg: "store", test: "TestAcceptanceClearsTheError",
		old: "\tr.Receipts = nil // of a verdict that was taken back\n\tif !r.Refused {\n\t\tr.Error = nil\n\t}\n", new: "\tr.Receipts = nil // of a verdict that was taken back\n",
	},
	{
		name: "memory: a claim without a window sees nothing that waits", file: "store/memory/claim.go", pkg: "store/memory", test: "TestStore/claim",
		old: "\tq.Window = max(1, q.Window)\n", new: "",
	},
	{
		name: "splinter: a replay ends between two receipts", file: "dlt/splinter/receipts.go", pkg: "dlt/splinter", test: "TestAReplayEndsWithTwoEchoesInARow",
		old: "\t\tprobe.disturbed()\n", new: "",
	},
	{
		name: "questions bring one another along without a pause", file: "internal/inhand/entries.go", pkg: ".", test: "TestQuestionsTakeTurnsAtOneHand",
		old: " || now.Sub(s.asked) < grain", new: "",
	},
}
