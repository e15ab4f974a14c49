package main

// positionsSQLList breaks the statements of package position: a transaction that gives out
// order keys shows this first, and a claim reads the values that it relies on.
var positionsSQLList = []mutant{
	{
		name: "positions, SQL: an Add has no number before it reads the clock", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/Add/native",
		old: "IN ROW EXCLUSIVE MODE; SELECT txid_current()", new: "IN ROW EXCLUSIVE MODE",
	},
	{
		name: "positions, SQL: an Add has no lock before it reads the clock", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/Add/native",
		old: `takeNumber = "LOCK TABLE {waiting_batches} IN ROW EXCLUSIVE MODE; SELECT`, new: `takeNumber = "SELECT`,
	},
	{
		name: "positions, SQL: a lock is taken that no look finds", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/Add/native",
		old: "{waiting_batches} IN ROW EXCLUSIVE MODE", new: "{waiting_batches} IN ROW SHARE MODE",
	},
	{
		name: "positions, SQL: an AddTx shows nothing first", file: "store/postgres/addtx.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/AddTx/native",
		old: "if adds {", new: "if !adds {",
	},
	{
		name: "positions, SQL: a requeue at the end shows nothing first", file: "internal/sqlstore/operate.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/Requeue_at_the_end/native",
		old: "run = s.d.Adding", new: "run = s.d.Write",
	},
	{
		name: "positions, SQL: a batch of orders shows nothing first", file: "internal/sqlstore/orders.go", pkg: "internal/integration", test: "TestSlowAddersAreSeen/PrepareBatch/native",
		old: "return done(s.d.Adding(ctx", new: "return done(s.d.Write(ctx",
	},
	{
		name: "positions, SQL: a requeue raises no turn", file: "internal/sqlstore/operate.go", pkg: "internal/integration", test: "TestRequeueByAnotherProcess/native",
		old: "asked.Action == batch.ActionRequeue && !asked.AtEnd &&", new: "asked.Action == batch.ActionRequeue && asked.AtEnd &&",
	},
	{
		name: "positions, SQL: a turn is raised where there is a row only", file: "store/postgres/operatorqueries.go", pkg: "internal/integration", test: "TestRequeueIntoALaneThatIsNew",
		old: "sqlTurn = `INSERT INTO {services} AS s (service_id, turn) VALUES ($1::text, 1)\n\tON CONFLICT (service_id) DO UPDATE SET turn = s.turn + 1`",
		new: "sqlTurn = `UPDATE {services} SET turn = turn + 1 WHERE service_id = $1::text`",
	},
	{
		name: "positions, SQL: a claim does not look at the turn", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestRequeueByAnotherProcess/native",
		old: "` AS at, s.turn`", new: "` AS at, s.turn * 0 AS turn`",
	},
	{
		name: "positions, SQL: positions are remembered beside old code", file: "store/postgres/positions.go", pkg: "internal/integration", test: "TestNothingIsRememberedBesideOldCode/native",
		old: "case version < finishedVersion ||", new: "case version < oldestVersion ||",
	},
	{
		name: "positions, SQL: that the migration is finished is not noticed", file: "store/postgres/tx.go", pkg: "internal/integration", test: "TestNothingIsRememberedBesideOldCode/native",
		old: "	s.remember(have)\n", new: "	if s.checked.Load() == nil {\n		s.remember(have)\n	}\n",
	},
	{
		name: "positions, SQL: old code may write on", file: "store/postgres/migrations/00003_written_by.sql", pkg: "internal/integration", test: "TestFinishMigration/native",
		old: "ALTER TABLE {waiting_batches} ALTER COLUMN written_by DROP DEFAULT;\n", new: "",
	},
	{
		name: "positions, SQL: old code may put back what was attempted", file: "store/postgres/migrations/00003_written_by.sql", pkg: "internal/integration", test: "TestFinishMigration/native",
		old: "ALTER TABLE {attempted_batches} ALTER COLUMN written_by DROP DEFAULT;\n", new: "",
	},
	{
		name: "positions, SQL: Migrate does not ask whether old code is there", file: "store/postgres/migrate.go", pkg: "internal/integration", test: "TestFinishMigration/native",
		old: "if (have == 0 || have >= finishedVersion) && *want == oldestVersion && !down {", new: "if *want == oldestVersion && !down {",
	},
	{
		name: "positions, SQL: what waits at the position is passed over", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/(hidden|claim)",
		old: "AND q.created_at >= u.low", new: "AND q.created_at > u.low",
	},
	{
		name: "positions, SQL: what was attempted at the position is passed over", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/(hidden|claim)",
		old: "AND r.created_at >= u.low AND r.created_at <= u.high", new: "AND r.created_at > u.low AND r.created_at <= u.high",
	},
	{
		name: "positions, SQL: a closed lane shows nothing", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestAPausedLaneKeepsItsPlace",
		old: "if w.waitingKeys = append(w.waitingKeys, s.CreatedAt); s.closed {",
		new: "if !s.closed {\n\t\t\tw.waitingKeys = append(w.waitingKeys, s.CreatedAt)\n\t\t}\n\t\tif s.closed {",
	},
	{
		name: "positions, SQL: a lane that is held is read", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestAHeldLaneIsNotRead",
		old: "SELECT u.s, u.there, CASE WHEN u.there THEN false ELSE ` + isOpen + ` END\n", new: "SELECT u.s, u.there, ` + isOpen + `\n",
	},
	{
		name: "positions, SQL: what a crash may take back is believed", file: "store/postgres/positions.go", pkg: "internal/integration", test: "TestAsynchronousCommitsAreNotBelieved",
		old: "version < finishedVersion || s.o.AllowAsynchronousCommit:", new: "version < finishedVersion:",
	},
	{
		name: "positions, SQL: another server is taken for the same", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestAnotherServerIsReadFromTheBeginning",
		old: "UNION ALL SELECT '', ` + sqlIncarnation + `, txid_current()", new: "UNION ALL SELECT '', 1::bigint, txid_current()",
	},
	{
		name: "positions, SQL: locks are believed that others may have", file: "store/postgres/positions.go", pkg: "internal/integration", test: "TestWhereLocksAreHidden/others'",
		old: "if found[0].all {", new: "if found[0].all || true {",
	},
	{
		name: "positions, SQL: no locks are looked at", file: "store/postgres/positions.go", pkg: "internal/integration", test: "TestAWriterElsewhereHoldsNothingUp",
		old: "if from.c.Look(look, time.Now()) && !t.s.noLocks.Load() {", new: "if from.c.Look(look, time.Now()) && t.s.noLocks.Load() {",
	},
}
