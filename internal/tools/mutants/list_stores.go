package main

// storesList breaks the stores' data, the order in which the stores show it, and the choice
// of the clock.
var storesList = []mutant{
	{
		name: "suspended: by the monotonic clock alone", file: "internal/wall/wall.go", pkg: "submitter", test: "TestNothingIsPostedAfterTheMachineSlept",
		old: "return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))", new: "return t.Sub(now)",
	},
	{
		name: "suspended: by the wall clock alone", file: "internal/wall/wall.go", pkg: "submitter", test: "TestNothingIsPostedAfterTheMachineSlept",
		old: "return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))", new: "return t.Round(0).Sub(now.Round(0))",
	},
	{
		name: "clocks: a jump of the database's ages what was accepted", file: "monitor/decide.go", pkg: "monitor", test: "TestAJumpOfTheDatabasesClockAgesNothing",
		old: "age = min(age, d.k.Seen)", new: "age = max(age, 0)",
	},
	{
		name: "clocks: a jump of the database's settles an Invalid", file: "monitor/decide.go", pkg: "monitor", test: "TestAJumpOfTheDatabasesClockAgesNothing",
		old: "left := d.t.Settle - d.k.Seen", new: "left := time.Duration(0)",
	},
	{
		name: "clocks: a claim ends by the reader's TTL", file: "monitor/data.go", pkg: "monitor", test: "TestDecideNoTrace",
		old: "if ttl == 0 {", new: "if ttl >= 0 {",
	},
	{
		name: "clocks: a claim of unknown length has none", file: "monitor/data.go", pkg: "monitor", test: "TestDecideNoTrace",
		old: "if ttl == 0 {", new: "if ttl < 0 {",
	},
	{
		name: "lane order: what waits again stands before what was never tried", file: "store/inorder.go", pkg: "store/memory", test: "TestStore/place/what_comes_back_stands_where_it_was_added",
		old: "if !again || tried == len(rows) {", new: "if again || tried == len(rows) {",
	},
	{
		name: "lane order: what waits again stands before what was never tried (simulated)", file: "store/inorder.go", pkg: "internal/sim", test: "TestMixedDecisions", args: sim("3000"),
		old: "if !again || tried == len(rows) {", new: "if again || tried == len(rows) {",
	},
	{
		name: "lane order: what waits again is shown before what was not read", file: "store/inorder.go", pkg: "store/memory", test: "TestStore/place/what_comes_back_stands_where_it_was_added",
		old: "if len(waiting) == 0 && !all {", new: "if len(waiting) < 0 && !all {",
	},
	{
		name: "lane order: of what waits again the id does not break ties", file: "store/inorder.go", pkg: "store", test: "TestInOrder",
		old: "cmp.Or(r.Created.Compare(other.Created), cmp.Compare(r.Key.ID, other.Key.ID))", new: "cmp.Or(r.Created.Compare(other.Created), cmp.Compare(other.Key.ID, r.Key.ID))",
	},
	{
		name: "lane order: what stands before what waits again is not read", file: "store/lane.go", pkg: "store/memory", test: "TestStore/place/what_comes_back_stands_where_it_was_added",
		old: "			least = 1\n", new: "			least = 0\n",
	},
	{
		name: "lane order: PostgreSQL has no order keys", file: "internal/sqlstore/row.go", pkg: "internal/integration", test: "TestStore/native$/place/what_comes_back_stands_where_it_was_added",
		old: ", Created: FromMicro(c.CreatedAt)}", new: "}",
	},
	{
		name: "lane order: SQLite has no order keys", file: "internal/sqlstore/row.go", pkg: "store/sqlite", test: "TestStore/place/what_comes_back_stands_where_it_was_added",
		old: ", Created: FromMicro(c.CreatedAt)}", new: ", Created: FromMicro(0)}",
	},
	{
		name: "lane order: what another strategy let go first is not in the way", file: "batch/lane.go", pkg: "batch", test: "TestLaneCheck",
		old: "return !b.State.Claimable() && !l.passable(b)", new: "return b.State == Submitting && !l.passable(b)",
	},
	{
		name: "array_nulls: left as the database has it", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/record/.*",
		old: "SET LOCAL array_nulls = on; ", new: "",
	},
	{
		name: "deadline: at the epoch", file: "batch/order.go", pkg: "store/memory", test: "TestOrders/add/.*",
		old: "o.Deadline.UnixMicro() <= 0", new: "o.Deadline.UnixMicro() < 0",
	},
	{
		name: "no clock: an age before the epoch is kept", file: "store/storetest/journal.go", pkg: "store/storetest", test: "TestWithoutAClock",
		old: "say(epochAgo()+1000, true)", new: "say(1e6, true)",
	},
	{
		name: "upgrade: the length of a claim that old code has not given is believed", file: "internal/sqlstore/time.go", pkg: "store/sqlite", test: "TestUpgradeUnderLoad",
		old: "if of != attempt {", new: "if false {",
	},
	{
		name: "row: SQLite forgets which endpoint has shown the attempt", file: "store/sqlite/queries.go", pkg: "store/sqlite", test: "TestStore/row/.*",
		old: "seen_attempt = ?, seen_endpoint = ? WHERE", new: "seen_attempt = ?, seen_endpoint = iif(? IS NULL, '', seen_endpoint) WHERE",
	},
	{
		name: "row: PostgreSQL forgets how often an execution was taken back", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/row/.*",
		old: "rollbacks = u.rollbacks, ", new: "",
	},
	{
		name: "row: a new field that no step of the suite sets", file: "store/row.go", pkg: "store/memory", test: "TestStore/row/.*",
		old: "\tRollbacks int\n", new: "\tRollbacks int\n\tExtra     int\n",
	},
	{
		name: "row: a known row advances, and forgets another endpoint", file: "internal/sqlstore/known.go", pkg: "store/sqlite", test: "TestStore/row/.*",
		old: "next.SeenAttempt == was.SeenAttempt && next.SeenEndpoint == was.SeenEndpoint", new: "next.SeenAttempt == was.SeenAttempt",
	},
	{
		name: "row: a known row advances, and keeps its error", file: "internal/sqlstore/known.go", pkg: "store/sqlite", test: "TestStore/row/.*",
		old: "was.Error == nil && ", new: "",
	},
	{
		name: "row: PostgreSQL forgets what a plain commit has spent", file: "internal/sqlstore/known.go", pkg: "internal/integration", test: "TestStore/native$/row/.*",
		old: "next.Spent == was.Spent && ", new: "",
	},
	{
		name: "row: PostgreSQL forgets at the first claim that a batch was requeued", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/pq$/row/.*",
		old: "$8::bigint, resend_until, 0, false, requeued,", new: "$8::bigint, resend_until, 0, false, false,",
	},
	{
		name: "upgrade: the reason of a halt that old code has released, and halted anew, is believed", file: "internal/sqlstore/controls.go", pkg: "internal/sqlstore", test: "TestHaltReasonOfOldCode",
		old: "c.HaltedAt == 0 || c.HaltedAt > c.Version", new: "c.HaltedAt == 0",
	},
	{
		name: "upgrade: the reason of a halt that old code has released is believed", file: "internal/sqlstore/controls.go", pkg: "internal/sqlstore", test: "TestHaltReasonOfOldCode",
		old: "c.HaltedAt == 0 || c.HaltedAt > c.Version", new: "c.HaltedAt > c.Version",
	},
	{
		name: "trouble: what a restarted node has lost counts as committed, under kill -9", file: "store/outcome.go", pkg: "internal/crash", test: "TestKillTrouble",
		old: "\t\tr.claimableAgain(now)\n\tcase NotCommitted:", new: "\t\tr.final(batch.Committed, now)\n\tcase NotCommitted:",
	},
	{
		name: "postgres: a process that runs looks at the schema's version once", file: "store/postgres/tx.go", pkg: "store/postgres", test: "TestNewerSchemaWhileRunning",
		old: "until != nil && time.Now().Before(*until)", new: "until != nil",
	},
	{
		name: "sqlite: a process that runs looks at the schema's version once", file: "store/sqlite/migrate.go", pkg: "store/sqlite", test: "TestNewerSchema",
		old: "until != nil && now.Before(*until)", new: "until != nil",
	},
}
