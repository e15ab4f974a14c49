package main

// walList is about SQLite's write-ahead log while a reader stays, and after.
var walList = []mutant{
	{
		name: "log: what the store warns of is said every second", file: "health.go", pkg: ".", test: "TestWarningsOfTheStore",
		old: "known[w.Name] = true", new: "known[w.Name] = false",
	},
	{
		name: "log: a warning stands for ever", file: "health.go", pkg: ".", test: "TestWarningsOfTheStore",
		old: "h.warnings = all", new: "h.warnings = append(h.warnings, fresh...)",
	},
	{
		name: "log: no Runner looks after a store", file: "engine.go", pkg: "store/sqlite", test: "TestARunnerReportsALargeLog", args: []string{"-test.timeout=30s"},
		old: "if s, ok := e.r.store.given().(store.Upkeeper); ok {", new: "if s, ok := e.r.store.given().(store.Upkeeper); ok && s == nil {",
	},
	{
		name: "log: it stays as large as it was on the disk", file: "store/sqlite/log.go", pkg: "store/sqlite", test: "TestTheLogShrinksWhenTheReaderHasGone",
		old: `w.checkpoint(free, "TRUNCATE")`, new: `w.checkpoint(free, "PASSIVE")`,
	},
	{
		name: "log: its size is no reason to warn", file: "store/sqlite/log.go", pkg: "store/sqlite", test: "TestTheLogShrinksWhenTheReaderHasGone",
		old: "s.logWarning >= 0 && size >= s.logWarning", new: "s.logWarning >= 0 && size < s.logWarning",
	},
	{
		name: "log: who writes waits for a reader while it is cut off", file: "store/sqlite/log.go", pkg: "store/sqlite", test: "TestCuttingTheLogWaitsForNobody",
		old: `"PRAGMA busy_timeout = 0"`, new: `"PRAGMA busy_timeout = 20000"`,
	},
	{
		name: "log: a connection that cut it off waits for nobody afterwards", file: "store/sqlite/log.go", pkg: "store/sqlite", test: "TestTheLogShrinksWhenTheReaderHasGone",
		old: `"PRAGMA busy_timeout = %d", timeout)`, new: `"PRAGMA busy_timeout = %d", 0*timeout)`,
	},
	{
		name: "log: pages are as large as SQLite makes them", file: "store/sqlite/sqliteopen/open.go", pkg: "store/sqlite", test: "TestLogBytesWhileAReaderStays",
		old: `"PRAGMA page_size = %d; `, new: `"PRAGMA cache_spill = %d; `,
	},
	{
		name: "log: a claim writes one more index", file: "store/sqlite/migrations/00002_claims.sql", pkg: "store/sqlite", test: "TestLogBytesWhileAReaderStays",
		old: "-- Which ledger serves a service,", new: "CREATE INDEX open_batches_version ON open_batches (version, service_id, created_at);\n-- Which ledger serves a service,",
	},
}
