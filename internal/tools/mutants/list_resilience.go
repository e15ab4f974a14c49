package main

// resilienceList breaks the parts that outlive a store whose statements fail.
var resilienceList = []mutant{
	{
		name: "a claim whose answer was lost stands until it expires", file: "queuer/claim.go", pkg: "queuer", test: "TestWhatMayBeClaimedIsPutBack",
		old: "\t\tc.putBack(claimed.Runs)\n\t\treturn 0, fmt.Errorf(\"claim: %w\", err)", new: "\t\treturn 0, fmt.Errorf(\"claim: %w\", err)",
	},
	{
		name: "every claim raises the version by one", file: "queuer/claim.go", pkg: "queuer", test: "TestWhatMayBeClaimedIsPutBack",
		old: "Salt: rand.Uint32(),", new: "Salt: rand.Uint32() & 0,",
	},
	{
		name: "a claim's version is any claim's", file: "store/lane.go", pkg: "internal/flaky", test: "TestContractSQLite",
		old: "\t\t\tr.Row.Version += int64(q.Salt)\n", new: "",
	},
	{
		name: "a claim's version is any claim's (simulated)", file: "store/lane.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "\t\t\tr.Row.Version += int64(q.Salt)\n", new: "",
	},
	{
		name: "a claim that may have been made is posted", file: "queuer/claim.go", pkg: "internal/flaky", test: "TestOneCallInTenFails",
		old: "\t\tc.putBack(claimed.Runs)\n\t\treturn 0, fmt.Errorf(\"claim: %w\", err)", new: "\t\tc.putBack(claimed.Runs)\n\t\t_, _ = c.handOver(ctx, claimed, until)\n\t\treturn 0, fmt.Errorf(\"claim: %w\", err)",
	},
	{
		name: "nobody tells that a batch goes again whose attempt failed late", file: "store/outcome.go", pkg: "store", test: "TestALateFailureWasPosted",
		old: "if o.By == batch.ByMonitor { // it was posted, and others may have followed it", new: "if false {",
	},
	{
		name: "what a lost commit may have claimed is not named (SQLite)", file: "store/sqlite/claim.go", pkg: "internal/flaky", test: "TestContractSQLite",
		old: "if err != nil && !sqlstore.Maybe(err) {", new: "if err != nil {",
	},
	{
		name: "what a lost commit may have leased is not named (SQLite)", file: "store/sqlite/pending.go", pkg: "internal/flaky", test: "TestContractSQLite",
		old: "if err != nil && !sqlstore.Maybe(err) {", new: "if err != nil {",
	},
	{
		name: "what a lost commit may have claimed is not named (PostgreSQL)", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestContractOfErrors/native",
		old: "if err != nil && !sqlstore.Maybe(err) {", new: "if err != nil {",
	},
	{
		name: "what may be leased waits for the lease's end", file: "monitor/monitor.go", pkg: "monitor", test: "TestWhatMayBeLeasedIsAskedAbout",
		old: "err != nil && len(rows) > 0 {", new: "err != nil && len(rows) < 0 {",
	},
	{
		name: "named lanes wait for a scan that fails", file: "queuer/scan.go", pkg: "queuer", test: "TestNamedLanesGoOnWhileScansFail",
		old: "\t\tp.due = now.Add(max(p.pause.NextBackOff(), share))\n", new: "\t\tp.due = now.Add(max(p.pause.NextBackOff(), share))\n\t\ttime.Sleep(time.Until(p.due))\n",
	},
	{
		name: "a scan's success does not reset the pause", file: "queuer/scan.go", pkg: "queuer", test: "TestAScanThatFailsIsMadeAgainSoon",
		old: "\tp.pause.Reset()\n", new: "",
	},
	{
		name: "a store that is down is asked at once again", file: "queuer/queuer.go", pkg: "queuer", test: "TestAStoreThatIsDownIsLeftAlone",
		old: "\t\tq.down = time.Now().Add(q.pauses.NextBackOff())\n", new: "",
	},
	{
		name: "what failed is tried again a minute later", file: "internal/loop/loop.go", pkg: "internal/flaky", test: "TestOneCallInTenFails",
		old: "b := Backoff(10*time.Millisecond, 5*time.Second)", new: "b := Backoff(MinPause, MaxPause)",
	},
	{
		name: "next checks that were not set wait for the lease's end", file: "monitor/monitor.go", pkg: "monitor", test: "TestNextChecksAreSetAllTheSame",
		old: "loop.Retry(ctx, failed, func() error { return m.store.Checked(ctx, due) })", new: "m.store.Checked(ctx, due)",
	},
	{
		name: "a transaction whose BEGIN had no answer stays open (SQLite)", file: "store/sqlite/tx.go", pkg: "internal/flaky", test: "TestABeginWithoutAnAnswer",
		old: "\t\t\tw.undo(free) // it may have begun all the same\n", new: "",
	},
	{
		name: "a connection is closed before its statements (SQLite)", file: "store/sqlite/tx.go", pkg: "internal/flaky", test: "TestABeginWithoutAnAnswer",
		old: "\tw.session.close()\n\trollback(ctx, w.conn)", new: "\trollback(ctx, w.conn)",
	},
	{
		name: "recorder: a repeated write hangs as long as the first", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestALockedRowHoldsUpNobodyElse",
		old: "return max(r.o.Timeout/16, min(r.o.Timeout, least))", new: "return max(r.o.Timeout, least)",
	},
	{
		name: "recorder: outcomes about a row that hangs join other writes", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestALockedRowHoldsUpNobodyElse",
		old: "\tr.stuck = nil\n\tr.stick(left)\n", new: "\tr.stuck = nil\n",
	},
	{
		name: "recorder: a later outcome overtakes one that failed", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestOutcomesOfABatchKeepTheirOrder",
		old: "\tr.stick(group)\n", new: "",
	},
	{
		name: "recorder: a group that hung is written again as it was", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestLockedRowsAreSortedOut",
		old: "group[i].most = max(1, len(group)/16)", new: "group[i].most = 0",
	},
	{
		name: "recorder: what has no turn is never given up", file: "internal/recorder/recorder.go", pkg: "internal/recorder", test: "TestWhatWaitsForItsTurnIsGivenUpInTheEnd",
		old: "left = r.giveUp(left)", new: "left = append(left[:len(left)-len(failed)-len(behind)], r.giveUp(left[len(left)-len(failed)-len(behind):])...)",
	},
	{
		name: "a locked row is waited for without end (PostgreSQL)", file: "store/postgres/record.go", pkg: "internal/integration", test: "TestALockedRowFailsRecordSoon",
		old: "plan = sqlPlanPatient", new: "_ = sqlPlanPatient",
	},
	{
		name: "lost reply: an end is forgotten once the batch has moved on", file: "lostreply.go", pkg: ".", test: "TestAnEndAndAHaltAreReportedAlthoughTheBatchMovedOn",
		old: "return act.From, true", new: "return act.From, false",
	},
	{
		name: "lost reply: a decision is forgotten once the batch has moved on", file: "lostreply.go", pkg: ".", test: "TestADecisionIsReportedAlthoughTheBatchMovedOn",
		old: "if mayCall(w) && row.Called()", new: "if !mayCall(w) && row.Called()",
	},
	{
		name: "await: a waiter gets the answer to an older question", file: "internal/await/await.go", pkg: ".", test: "TestAnAwaitGetsNoOlderAnswer",
		old: "\tw.m[key][c] = false\n", new: "\tw.m[key][c] = true\n",
	},
	{
		name: "monitor: of two answers about a batch the last one counts", file: "monitor/ledger.go", pkg: "monitor", test: "TestOfTwoAnswersTheCommitCounts",
		old: "old != nil && (old.Reported", new: "old != nil && false && (old.Reported",
	},
	{
		name: "a trace's context lets a POST outlive its claim", file: "submitter/attempt.go", pkg: ".", test: "TestTraceRequestWithALaterDeadline",
		old: "if at, has := ctx.Deadline(); !has || at.After(limit) {", new: "if at, has := ctx.Deadline(); !has || at.After(limit.Add(24*time.Hour)) {",
	},
	{
		name: "queuer: only claims of one flight are claims in a row", file: "queuer/queuer.go", pkg: "queuer", test: "TestAStoreThatIsDownIsLeftAlone",
		old: "q.strikes += f.strikes", new: "q.strikes = f.strikes",
	},
	{
		name: "canton: what only an operator can judge is read with the others", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestWhatOnlyAnOperatorCanJudgeHoldsUpNoOther",
		old: "\t\tif q.unclear {", new: "\t\tif false {",
	},
	{
		name: "canton: all that only an operator can judge is read together", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestWhatOnlyAnOperatorCanJudgeHoldsUpNoOther",
		old: "\t\tif q.unclear {\n", new: "\t\tif q.unclear && len(parts) > 0 {\n\t\t\tparts[0][id] = q\n\t\t} else if q.unclear {\n",
	},
	{
		name: "http: a server's failure counts as a refusal", file: "dlt/internal/wire/status.go", pkg: "dlt/internal/wire", test: "TestRefuses",
		old: "http.StatusRequestHeaderFieldsTooLarge:", new: "http.StatusRequestHeaderFieldsTooLarge, http.StatusServiceUnavailable:",
	},
}
