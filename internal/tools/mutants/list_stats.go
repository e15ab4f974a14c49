package main

// statsList breaks the counts of open batches, and the list of instances.
var statsList = []mutant{
	{
		name: "stats: counts are never old", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "now.Sub(t.At) >= q.OlderThan &&", new: "now.Sub(t.At) > q.OlderThan &&",
	},
	{
		name: "stats: a clock that steps back stops the counts", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "\tif t.At.After(now) {\n\t\treturn true\n", new: "\tif t.At.After(now) {\n\t\treturn false\n",
	},
	{
		name: "stats: the rest after a count of before the clock stepped back counts", file: "store/stats.go", pkg: "store/memory", test: "TestStore/stats/a_clock_that_steps_back",
		old: "\tif t.At.After(now) {\n\t\treturn true\n", new: "\tif t.At.After(now) {\n\t\treturn !t.Rest.After(now) || t.Rest.Sub(now) > statsShare*StatsLimit\n",
	},
	{
		name: "stats: after the clock stepped back all count at once", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "\t\tt.At = time.Time{}\n", new: "\t\tt.At = t.At.Add(0)\n",
	},
	{
		name: "stats: a rest of before the clock stepped back counts", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "rests := t.Rest.After(now) && t.Rest.Sub(now) <= statsShare*StatsLimit", new: "rests := t.Rest.After(now)",
	},
	{
		name: "stats: to count may take all the time", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "t.Rest = now.Add(statsShare * min(max(took, 0), StatsLimit))", new: "t.Rest = now",
	},
	{
		name: "stats: a count that failed makes the kept counts fresh", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "\tif !at.IsZero() {\n\t\tt.At = at\n\t}\n", new: "\tt.At = now\n",
	},
	{
		name: "stats: who counts keeps nobody else from it", file: "store/stats.go", pkg: "store", test: "TestStatsTurn",
		old: "t.Rest = now.Add(statsLease)", new: "t.Rest = now",
	},
	{
		name: "stats: a restart looks like two instances of one name", file: "store/stats.go", pkg: "store/memory", test: "TestStore/stats/.*",
		old: "if before.Live && a.Live && before.Seen.After(a.Since) {", new: "if before.Name == a.Name {",
	},
	{
		name: "stats: an age is negative", file: "store/stats.go", pkg: "store", test: "TestStatsAsOf",
		old: "a.Unseen = now.Sub(a.Seen).Abs()", new: "a.Unseen = now.Sub(a.Seen)",
	},
	{
		name: "stats: a live claim is a doubt", file: "store/stats.go", pkg: "store", test: "TestRowInDoubt",
		old: "return !r.Live(now) || r.DoubtAttempt != r.Attempt", new: "return true",
	},
	{
		name: "stats: SQL: a live claim is a doubt", file: "internal/sqlstore/queries.go", pkg: "store/sqlite", test: "TestStore/stats/.*",
		old: "(a.state <> 2 OR a.claim_expires <= $1::bigint OR a.claim_expires = a.last_post OR a.doubt_attempt <> a.attempt)", new: "(a.state <> 0 OR a.claim_expires <= $1::bigint)",
	},
	{
		name: "stats: SQL: what the ledger has accepted is in doubt", file: "internal/sqlstore/queries.go", pkg: "internal/integration", test: "TestStore/native$/stats",
		old: "a.state NOT IN (3, 4, 8) AND", new: "a.state NOT IN (4, 8) AND",
	},
	{
		name: "stats: SQL: a process that was followed writes its counts", file: "internal/sqlstore/queries.go", pkg: "internal/integration", test: "TestStatsTurns/native",
		old: "totals = $4::text WHERE id = 1 AND turn = $1::bigint", new: "totals = $4::text WHERE id = 1 AND turn >= $1::bigint",
	},
	{
		name: "stats: SQL: two take one turn", file: "internal/sqlstore/queries.go", pkg: "internal/integration", test: "TestStatsTurns/native",
		old: "rest_until = excluded.rest_until WHERE s.turn = $1::bigint", new: "rest_until = excluded.rest_until WHERE s.turn <> -$1::bigint - 1",
	},
	{
		name: "stats: SQL: an instance begins anew with each sight", file: "internal/sqlstore/queries.go", pkg: "store/sqlite", test: "TestStore/stats/.*",
		old: "SET name = excluded.name, seen = excluded.seen,", new: "SET name = excluded.name, since = excluded.since, seen = excluded.seen,",
	},
	{
		name: "stats: SQL: the dead are never forgotten", file: "internal/sqlstore/stats.go", pkg: "store/sqlite", test: "TestStore/stats/.*",
		old: "dead = ToMicro(turn.At.Add(-q.Forget))", new: "dead = ToMicro(turn.At.Add(-q.Forget)) - 1<<60",
	},
	{
		name: "stats: PostgreSQL: a lane with nothing but batches under way is none", file: "store/postgres/operatorqueries.go", pkg: "internal/integration", test: "TestStore/native$/stats",
		old: "FROM {attempted_batches} b) u GROUP BY", new: "FROM {attempted_batches} b WHERE false) u GROUP BY",
	},
	{
		name: "stats: PostgreSQL: what is final is read", file: "store/postgres/operatorqueries.go", pkg: "internal/integration", test: "TestStatsCost",
		old: "UNION ALL SELECT 'quarantined', '', 0, count(*), 0 FROM {outcomes} WHERE quarantined`", new: "UNION ALL SELECT 'quarantined', '', 0, count(*) FILTER (WHERE quarantined), 0 FROM {outcomes}`",
	},
	{
		name: "stats: PostgreSQL: a schema without the tables is asked all the same", file: "store/postgres/stats.go", pkg: "internal/integration", test: "TestStatsUpgradeUnderLoad/native",
		old: "if have < version {", new: "if have < 0 {",
	},
	{
		name: "stats: PostgreSQL: Migrate leaves a finished schema as it is", file: "store/postgres/migrate.go", pkg: "internal/integration", test: "TestStatsUpgradeUnderLoad/native",
		old: "if (have == 0 || have >= finishedVersion) &&", new: "if have == 0 &&",
	},
	{
		name: "stats: SQLite: what was attempted waits, too", file: "store/sqlite/queries.go", pkg: "store/sqlite", test: "TestStore/stats/.*",
		old: "(SELECT coalesce(sum(n), 0) FROM lanes) - (SELECT coalesce(sum(n), 0) FROM found), 0", new: "(SELECT coalesce(sum(n), 0) FROM lanes), 0",
	},
	{
		name: "stats: memory: what is final counts", file: "store/memory/stats.go", pkg: "store/memory", test: "TestStore/stats/.*",
		old: "\t\tif l.open() == 0 {\n\t\t\tcontinue\n\t\t}\n\t\tc.Lanes++", new: "\t\tc.Lanes++",
	},
	{
		name: "stats: orders that are final count", file: "store/memory/stats.go", pkg: "store/memory", test: "TestOrders/list/.*",
		old: "if !o.row.State.Final() {\n\t\t\tc.Orders", new: "if o.row.State != 0 {\n\t\t\tc.Orders",
	},
	{
		name: "stats: the row of an instance that stopped stays", file: "engine.go", pkg: ".", test: "TestStats",
		old: "if err := shown.end(recording); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "stats: a failure makes the store unhealthy", file: "stats.go", pkg: ".", test: "TestStatsFail",
		old: "p := &presence{store: r.store,", new: "p := &presence{store: e.store(\"stats\"),",
	},
	{
		name: "stats: a failure is told nobody", file: "stats.go", pkg: ".", test: "TestStatsFail",
		old: "\t\t\ttrouble(err)\n", new: "\t\t\t_ = err\n",
	},
	{
		name: "stats: an instance does not say that it is paused", file: "stats.go", pkg: ".", test: "TestStatsShowThatAnInstanceIsPaused",
		old: "i.Claims, i.Paused = p.claims(), h.Paused", new: "i.Claims = p.claims()",
	},
	{
		name: "stats: retention forgets no instance", file: "stats.go", pkg: ".", test: "TestStatsFail",
		old: "store.RefreshQuery{By: p.kept.Name, Forget: p.forget}", new: "store.RefreshQuery{By: p.kept.Name}",
	},
	{
		name: "stats: a database that does not answer holds up the stop", file: "stats.go", pkg: ".", test: "TestStatsDoNotHoldUpTheStop",
		old: "\tctx, cancel := context.WithTimeout(ctx, restTime)\n\tdefer cancel()\n", new: "",
	},
	{
		name: "SQLite: a schema that is too new is not refused", file: "store/sqlite/migrate.go", pkg: "store/sqlite", test: "TestNewerSchema",
		old: "\tcase v > schemaVersion+1:\n\t\treturn newer(v)\n\t}\n\ts.texts.Has", new: "\t}\n\ts.texts.Has",
	},
	{
		name: "SQLite: a transaction of the application does not look at the schema", file: "store/sqlite/add.go", pkg: "store/sqlite", test: "TestNewerSchema",
		old: "err = s.check(ctx, tx)", new: "err = nil",
	},
	{
		name: "stats: who is gone shares a name", file: "store/stats.go", pkg: "store", test: "TestStatsAsOf",
		old: "if before.Live && a.Live && before.Seen.After", new: "if before.Seen.After",
	},
	{
		name: "stats: the counts before are forgotten", file: "store/flow.go", pkg: "store/memory", test: "TestStore/stats",
		old: "all = append(all, before.OpenAt())", new: "all = []OpenAt{before.OpenAt()}",
	},
	{
		name: "stats: a final batch that a person cancelled does not count", file: "flow.go", pkg: ".", test: "TestFlows",
		old: "case \"\", batch.ActionDecide, batch.ActionCancel:", new: "case \"\", batch.ActionDecide:",
	},
}
