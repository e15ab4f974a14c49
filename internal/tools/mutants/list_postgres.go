package main

// postgresList breaks the PostgreSQL store, and its way of finding lanes, where tests with a
// real server are known to catch it (docs/design.md#how-a-claim-works).
var postgresList = []mutant{
	{
		name: "postgres: choosing without the lane's lock", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestChooseHoldsTheLane",
		old: "\n\tFOR NO KEY UPDATE SKIP LOCKED`",
		new: "`",
	},
	{
		// One statement would have one snapshot for both, taken before it has the lock.
		name: "postgres: the window is read as of the statement that locks", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestClaimSeesWhatCameBeforeItsLock",
		old: "		got, locked, unknown, us, err := t.lock(ctx, some, from)\n",
		new: "		var mine []heldLane\n		for _, s := range some {\n			mine = append(mine, heldLane{s, wholeLane})\n		}\n" +
			"		early, err := t.attempted(ctx, sqlAttempted, mine, some, func(batch.ServiceID, []store.LaneRow) int { return q.Window })\n" +
			"		if err == nil {\n\t\t\terr = t.waiting(ctx, sqlWaiting, early)\n\t\t}\n\t\tif err != nil {\n\t\t\treturn out, nil, err\n\t\t}\n" +
			"		got, locked, unknown, us, err := t.lock(ctx, some, from)\n" +
			"		t := earlyWindows{t, early}\n",
		more: "\ntype earlyWindows struct {\n\t*session\n\tearly []*window\n}\n\n" +
			"func (e earlyWindows) attempted(context.Context, string, []heldLane, []batch.ServiceID, func(batch.ServiceID, []store.LaneRow) int) ([]*window, error) {\n\treturn e.early, nil\n}\n\n" +
			"func (e earlyWindows) waiting(context.Context, string, []*window) error { return nil }\n",
	},
	{
		name: "postgres: what was put at the end goes before what waits", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestStore/native$/place",
		old: "inOrder(w.atEnd)",
		new: "inOrder(w.atEnd[:0])",
	},
	{
		name: "SQL stores: a lane that was not reached is not left", file: "internal/sqlstore/claim.go", pkg: "store/sqlite", test: "TestStore/claim",
		old: "\t\tservice, _ := w.Wants()\n\t\tout.Left = append(out.Left, service)\n",
		new: "\t\t_ = w\n",
	},
	{
		name: "postgres: a lane that another claim holds is left, too", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestHeldLanesAreNotLeft",
		old: "got, except(some, locked), func(",
		new: "got, some, func(",
	},
	{
		name: "SQL stores: a lane is planned before what waits of it is read", file: "internal/sqlstore/claim.go", pkg: "store/sqlite", test: "TestStore/claim",
		old: "for ; n > 0 && left > 0; n-- {",
		new: "for ; len(windows) > 0 && left > 0; n-- {",
	},
	{
		name: "postgres: a batch known by its key is stored, although no standby has it", file: "store/postgres/queries.go", pkg: "internal/integration/chaos", test: "TestKeyThatNobodyFollows",
		old: "OFFSET 0) b FOR KEY SHARE OF b`",
		new: "OFFSET 0) b`",
	},
	{
		name: "postgres: an order known by its key is stored, although no standby has it", file: "internal/sqlstore/queries.go", pkg: "internal/integration/chaos", test: "TestKeyThatNobodyFollows",
		old: "OFFSET 0) o FOR KEY SHARE OF o`",
		new: "OFFSET 0) o`",
	},
	{
		name: "postgres: a snapshot hides a tombstone", file: "store/postgres/add.go", pkg: "internal/integration", test: "TestSnapshotTxOfWhatIsPrunedMeanwhile",
		old: "if err == nil && t.level.snapshot() {",
		new: "if err == nil && t.level.snapshot() && sorted == nil {",
	},
	{
		name: "postgres: an AddTx above READ COMMITTED leaves a tombstone", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestSnapshotTxOfWhatIsPrunedMeanwhile",
		old: "`DELETE FROM {tombstones} WHERE ctid = ANY ($1::tid[])`",
		new: "`DELETE FROM {tombstones} WHERE ctid = ANY ($1::tid[]) AND false`",
	},
	{
		name: "postgres: REPEATABLE READ", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestClaimSeesWhatCameBeforeItsLock",
		old: `"BEGIN ISOLATION LEVEL READ COMMITTED; "`,
		new: `"BEGIN ISOLATION LEVEL REPEATABLE READ; "`,
	},
	{
		name: "postgres: a plan that is kept may look for rows in an index by its last column", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestKeptPlans",
		old: "w.seq + 0 = u.seq",
		new: "w.seq = u.seq",
	},
	{
		name: "postgres: plans are kept that gather places first", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestKeptPlans",
		old: "SET LOCAL enable_bitmapscan = off; SET",
		new: "SET",
	},
	{
		name: "postgres: plans are kept where the role allows none", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestKeptPlans",
		old: "SET LOCAL enable_nestloop = on; ",
		new: "",
	},
	{
		name: "postgres: plans are kept of statements that may have several", file: "store/postgres/record.go", pkg: "internal/integration", test: "TestIdleInstanceIsNotTrapped/native",
		old: "if len(reports) > 0 {\n\t\tif err := t.planAnew(ctx); err != nil {",
		new: "if len(reports) > 0 {\n\t\tif err := error(nil); err != nil {",
	},
	{
		name: "postgres: Add inserts into services", file: "store/postgres/add.go", pkg: "internal/integration", test: "TestOpenAddTxHoldsUpNoClaim/native",
		old: "func (t *session) add(ctx context.Context, in []addition, fresh bool) error {\n",
		new: "func (t *session) add(ctx context.Context, in []addition, fresh bool) error {\n" +
			"	if _, err := t.Exec(ctx, `INSERT INTO {services} (service_id) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING`, textArray(len(in), func(i int) string { return string(in[i].Service) })); err != nil {\n\t\treturn err\n\t}\n",
	},
	{
		name: "postgres: lanes that others hold are taken for new ones", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestAClaimFromNewLanesDoesNotBeginTwice",
		old: "		t.s.listed.add(locked)\n",
		new: "",
	},
	{
		name: "postgres: one known batch fails the call", file: "store/postgres/add.go", pkg: "internal/integration", test: "TestStore/native$/add",
		old: "\tcase uniqueViolation:\n\tdefault:\n\t\treturn false\n",
		new: "\tdefault:\n\t\treturn false\n",
	},
	{
		name: "postgres: a batch is taken for another whose id has the same hash", file: "store/postgres/add.go", pkg: "internal/integration", test: "TestHashOfAnotherID/native",
		old: "case k.id != string(a.ID):",
		new: "case false:",
	},
	{
		name: "postgres: a lane's end that is as late as the clock does not count", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestOrderKeysAreAheadOfTheClock",
		old: "{batches} b WHERE b.created_at >= (SELECT t.now FROM t)",
		new: "{batches} b WHERE b.created_at > (SELECT t.now FROM t)",
	},
	{
		name: "postgres: calls share their numbers", file: "store/postgres/migrations/00001_tables.sql", pkg: "internal/integration", test: "TestNumbersAreNotShared",
		old: "CREATE SEQUENCE {batch_seq} INCREMENT BY 1000;",
		new: "CREATE SEQUENCE {batch_seq};",
	},
	{
		name: "postgres: a foreign key to services", file: "store/postgres/migrations/00001_tables.sql", pkg: "internal/integration", test: "TestOpenAddTxHoldsUpNoClaim/native",
		old: "CREATE TABLE {waiting_batches} (\n    service_id text    COLLATE \"C\" NOT NULL,",
		new: "CREATE TABLE {waiting_batches} (\n    service_id text    COLLATE \"C\" NOT NULL REFERENCES {services} DEFERRABLE INITIALLY DEFERRED,",
	},
	{
		name: "postgres: claims expire on the worker's clock", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestClaimsExpireOnTheDatabasesClock",
		old: "		now := sqlstore.FromMicro(us)\n",
		new: "		now := sqlstore.FromMicro(us * 0).Add(time.Duration(time.Now().UnixMicro()) * time.Microsecond)\n",
	},
	{
		name: "postgres: ties in the order key break by nothing", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestTiesBreakByID",
		old: "FETCH FIRST (u.n) ROWS WITH TIES",
		new: "FETCH FIRST (u.n) ROWS ONLY",
	},
	{
		name: "postgres: what is known is written over what is there", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/record",
		old: "\t\t\tWHERE x.seq = u.seq AND x.version = u.was AND x.claim_expires = u.expires AND x.receipts = 0 OFFSET 0) r) u\n\tWHERE a.ctid = u.place AND a.version = u.was AND",
		new: "\t\t\tWHERE x.seq = u.seq AND x.receipts = 0 OFFSET 0) r) u\n\tWHERE a.ctid = u.place AND",
	},
	{
		name: "postgres: what is known waits for others and keeps them waiting", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestRecordWaitsInOneOrder",
		old: "set_config('lock_timeout', '50ms', true)",
		new: "set_config('lock_timeout', '0', true)",
	},
	{
		name: "postgres: an index on what changes", file: "store/postgres/migrations/00001_tables.sql", pkg: "internal/integration", test: "TestUpdatesAreHOT",
		old: "CREATE INDEX {.attempted_batches_lane} ON {attempted_batches} (service_id, created_at);",
		new: "CREATE INDEX {.attempted_batches_lane} ON {attempted_batches} (service_id, created_at, due_at);",
	},
	{
		name: "native: a commit is sent by what loses the cause of its failure", file: "store/postgres/native/conn.go", pkg: "internal/integration", test: "TestContractOfErrors/native",
		old: "		return 0, c.say(ctx, text)\n",
		new: "		tag, err := c.c.Exec(ctx, text)\n		return tag.RowsAffected(), err\n",
	},
	{
		name: "native: an answer that is lost is taken for a commit", file: "store/postgres/native/conn.go", pkg: "internal/integration", test: "TestContractOfErrors/native",
		old: "		return on.PgConn().Exec(ctx, text).Close()\n",
		new: "		if err := on.PgConn().Exec(ctx, text).Close(); text != \"COMMIT\" {\n			return err\n		}\n		return nil\n",
	},
	{
		name: "native: a COPY reads on after it has returned", file: "store/postgres/native/copy.go", pkg: "store/postgres/native", test: "TestNothingIsReadAfterACopy",
		old: "	u.mu.Lock()\n	defer u.mu.Unlock()\n	u.r = nil\n",
		new: "",
	},
	{
		name: "postgres: batches that are copied have a footprint of no bytes", file: "store/postgres/copy.go", pkg: "internal/integration", test: "TestManyAreCopied/native$",
		old: "appendOrNull(b, a.FootprintCol)",
		new: "appendValue(b, a.FootprintCol)",
	},
	{
		name: "postgres: where nothing may be copied nothing is added", file: "store/postgres/add.go", pkg: "store/postgres", test: "TestWhereNothingMayBeCopied",
		old: "\tcase featureNotSupported:\n\t\ts.fresh.known()\n\t\treturn true\n",
		new: "",
	},
	{
		name: "postgres: an AddTx with a known batch among many fails", file: "store/postgres/addtx.go", pkg: "internal/integration", test: "TestManyAreCopied/native$",
		old: "if fresh && s.refusesFresh(err) {",
		new: "if fresh && s.refusesFresh(nil) {",
	},
	{
		name: "native: an AddTx of many copies nothing", file: "store/postgres/addtx.go", pkg: "internal/integration", test: "TestManyAreCopied/native$",
		old: "copier(len(in)) != nil && s.fresh",
		new: "copier(0) != nil && s.fresh",
	},
	{
		name: "postgres: few batches are copied", file: "store/postgres/copy.go", pkg: "internal/integration", test: "TestManyAreCopied/native$",
		old: "if rows < copyLeast {",
		new: "if rows < 0 {",
	},
	{
		name: "postgres: a commit without an answer is certainly none", file: "store/postgres/tx.go", pkg: "internal/integration", test: "TestContractOfErrors/native",
		old: "conns.Commit); err != nil {\n		return false, &sqlstore.CommitError{Err: err}\n",
		new: "conns.Commit); err != nil {\n		return false, err\n",
	},
	{
		name: "postgres: a failed call gives its transaction back", file: "store/postgres/tx.go", pkg: "internal/integration", test: "TestAFailedCallLeavesNoTransaction/native",
		old: "		default:\n			rollback(ctx, c)\n",
		new: "		default:\n			c.Release()\n",
	},
	{
		name: "postgres: an AddTx leaves its settings behind", file: "store/postgres/addtx.go", pkg: "internal/integration", test: "TestAddTxLeavesTheTransactionAsItWas/native$",
		old: "; SET LOCAL plan_cache_mode = \"+was.plans)",
		new: "\")",
	},
	{
		name: "native: errors of statements that are sent together are lost", file: "store/postgres/native/conn.go", pkg: "internal/integration", test: "TestStore/native$/idempotency",
		old: "		return err\n	}\n	return c.answered(all)\n}\n\n// first",
		new: "		return err\n	}\n	_ = c.answered(all)\n	return nil\n}\n\n// first",
	},
	{
		name: "native: settings outlast their transaction", file: "store/postgres/native/conn.go", pkg: "internal/integration", test: "TestSettingsEndWithTheTransaction/native",
		old: "'%s', true)",
		new: "'%s', false)",
	},
	{
		name: "native: settings are not sent", file: "store/postgres/native/conn.go", pkg: "internal/integration", test: "TestIdleInstanceIsNotTrapped/native",
		old: "\"SELECT \"+strings.Join(settings, \", \"))",
		new: "\"SELECT 1\")",
	},
	{
		name: "native: a connection that the server closed fails a call", file: "store/postgres/tx.go", pkg: "internal/integration", test: "TestConnectionsThatDie/native",
		old: "if err == nil || begun || !s.lost(err) {",
		new: "if err == nil || begun || s.lost(err) {",
	},
	{
		name: "a lane is claimed from twice at once", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestALaneIsClaimedFromOnceAtATime",
		old: "case e.claimed || e.request == none:",
		new: "case e.request == none:",
	},
	{
		name: "what is named during its claim is forgotten", file: "internal/lanes/table.go", pkg: "queuer", test: "TestALaneIsClaimedFromOnceAtATime",
		old: "	l.claimed, l.byScan = false, false\n",
		new: "	l.claimed, l.byScan, l.request = false, false, none\n",
	},
	{
		name: "the scan keeps its cursor", file: "queuer/scan.go", pkg: "queuer", test: "TestTheScanRotatesOverAllLanes",
		old: "	p.start = len(s.lanes) < p.o.ScanLanes\n",
		new: "	p.start = false\n",
	},
	{
		name: "a hint is consumed by a locked lane", file: "queuer/claim.go", pkg: "queuer", test: "TestALockedLaneKeepsItsHint",
		old: "	c.lanes.Name(now.Add(lockedPause), claimed.Locked...)\n",
		new: "",
	},
	{
		name: "postgres: Prune waits for transactions that name known batches", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestPruneBesideAnOpenAddTx",
		old: "FOR UPDATE OF f, b SKIP LOCKED",
		new: "FOR UPDATE OF f SKIP LOCKED",
	},
	{
		name: "postgres: Prune waits for transactions that name known orders", file: "store/postgres/orderqueries.go", pkg: "internal/integration", test: "TestPruneBesideAnOpenAddTx",
		old: "FOR UPDATE OF f, o SKIP LOCKED",
		new: "FOR UPDATE OF f SKIP LOCKED",
	},
	{
		name: "postgres: AddTx fails where a batch is pruned meanwhile", file: "store/postgres/addtx.go", pkg: "internal/integration", test: "TestAddTxOfWhatIsPrunedMeanwhile",
		old: "left == 0 || !errors.Is(err, sqlstore.ErrMoved)",
		new: "left >= 0 || !errors.Is(err, sqlstore.ErrMoved)",
	},
	{
		name: "postgres: who runs while the schema is migrated sees it late", file: "store/postgres/tx.go", pkg: "internal/integration", test: "TestTraceUpgradeUnderLoad",
		old: "now.Add(unfinishedEvery)",
		new: "now.Add(100 * unfinishedEvery)",
	},
	{
		name: "postgres: an application's transaction says whether settings and schema are good", file: "store/postgres/addtx.go", pkg: "store/postgres", test: "TestAnApplicationsTransactionIsNotAsked",
		old: "if s.checked.Load() == nil {", new: "if !s.good() {",
	},
	{
		name: "postgres: an idle store does not look at the schema's version", file: "store/postgres/tx.go", pkg: "store/postgres", test: "TestNewerSchemaWhileRunning",
		old: "\tif !s.good() {\n", new: "\tif s.checked.Load() == nil {\n",
	},
	{
		name: "postgres: a halt takes the reason of the halt before", file: "internal/sqlstore/record.go", pkg: "internal/integration", test: "TestHaltAfterAReleaseHasItsOwnReason",
		old: "string(a.Key.ID), a.Halt})",
		new: "string(a.Key.ID), control[service].HaltReason})",
	},
	{
		name: "postgres: a claim waits for a locked row for as long as it may", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestALockedRowFailsClaimSoon/native$",
		old: "s.txBefore(ctx, op, beginClaim, ", new: "s.txBefore(ctx, op, beginKept, ",
	},
}
