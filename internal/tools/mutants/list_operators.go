package main

// operatorsList is the ways of breaking the fence of what operators do.
var operatorsList = []mutant{
	{
		name: "fence: a decision about what was seen is done to what is there now", file: "store/memory/operate.go", pkg: ".", test: "TestADecisionIsAboutTheAttemptThatWasSeen",
		old: "if err := store.Unmoved(seen, e.record()); err != nil {",
		new: "if err := store.Unmoved(seen, e.record()); err != nil && act.Action != batch.ActionDecide {",
	},
	{
		name: "fence: none in the memory store", file: "store/memory/operate.go", pkg: "store/memory", test: "TestStore/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if err := store.Unmoved(seen, e.record()); err != nil {",
		new: "if err := store.Unmoved(seen, seen); err != nil {",
	},
	{
		name: "fence: none in the SQLite store", file: "store/sqlite/operate.go", pkg: "store/sqlite", test: "TestStore/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if err := store.Unmoved(seen, b.record()); err != nil {",
		new: "if err := store.Unmoved(seen, seen); err != nil {",
	},
	{
		name: "fence: none in the PostgreSQL store", file: "store/postgres/operate.go", pkg: "internal/integration", test: "TestStore/pgx$/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if err := store.Unmoved(seen, b.record()); err != nil {",
		new: "if err := store.Unmoved(seen, seen); err != nil {",
	},
	{
		name: "fence: only older versions are refused", file: "store/operate.go", pkg: "store/memory", test: "TestStore/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if now.Version != seen.Version {",
		new: "if now.Version > seen.Version {",
	},
	{
		name: "fence: no version is any version", file: "store/operate.go", pkg: "store/memory", test: "TestStore/fence/nobody_has_seen_a_record_without_a_version",
		old: "if seen.Version < 1 {",
		new: "if false {",
	},
	{
		name: "fence: an explanation does not say of which version", file: "explain.go", pkg: ".", test: "TestExplainMovesWhateverStands",
		old: "Version: l.Row.Version, ",
		new: "",
	},
}
