package main

// operatorsList breaks the fence of operators' actions.
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
		name: "fence: none in the SQLite store", file: "internal/sqlstore/operate.go", pkg: "store/sqlite", test: "TestStore/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if err := store.Unmoved(seen, b.Record()); err != nil {",
		new: "if err := store.Unmoved(seen, seen); err != nil {",
	},
	{
		name: "fence: none in the PostgreSQL store", file: "internal/sqlstore/operate.go", pkg: "internal/integration", test: "TestStore/native$/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if err := store.Unmoved(seen, b.Record()); err != nil {",
		new: "if err := store.Unmoved(seen, seen); err != nil {",
	},
	{
		name: "fence: only older versions are refused", file: "store/operate.go", pkg: "store/memory", test: "TestStore/fence/what_has_moved_on_since_is_left_as_it_is",
		old: "if now.Version != seen.Version ||",
		new: "if now.Version > seen.Version ||",
	},
	{
		name: "fence: no version is any version", file: "store/operate.go", pkg: "store/memory", test: "TestStore/fence/nobody_has_seen_a_record_without_a_version",
		old: "if seen.Version < 1 {",
		new: "if false {",
	},
	{
		name: "fence: an explanation does not say of which version", file: "internal/explain/explain.go", pkg: ".", test: "TestExplainMovesWhateverStands",
		old: "Version: l.Row.Version, ",
		new: "",
	},
	{
		name: "fence: a halt that nobody saw is released", file: "store/control.go", pkg: ".", test: "TestAReleaseIsOfTheHaltThatWasSeen",
		old: "s.Action != batch.ActionPause && s.Seen != c.Version {",
		new: "s.Action == batch.ActionResume && s.Seen != c.Version {",
	},
	{
		name: "fence: a pause that nobody saw is ended", file: "store/control.go", pkg: "store/memory", test: "TestStore/fence/a_pause_that_nobody_saw_is_not_ended",
		old: "s.Action != batch.ActionPause && s.Seen != c.Version {",
		new: "s.Action == batch.ActionRelease && s.Seen != c.Version {",
	},
	{
		name: "fence: the memory store steers all the same", file: "store/memory/control.go", pkg: "store/memory", test: "TestStore/fence/a_pause_that_nobody_saw_is_not_ended",
		old: "next, act, changed, err := st.Apply(s.control(st.Scope), s.now())",
		new: "was := s.control(st.Scope)\n\tst.Seen = was.Version\n\tnext, act, changed, err := st.Apply(was, s.now())",
	},
	{
		name: "fence: the SQLite store steers all the same", file: "internal/sqlstore/controls.go", pkg: "store/sqlite", test: "TestStore/fence/a_halt_that_nobody_saw_is_not_released",
		old: "if next, act, changed, err = st.Apply(was, FromMicro(now));",
		new: "st.Seen = was.Version\n\t\tif next, act, changed, err = st.Apply(was, FromMicro(now));",
	},
	{
		name: "fence: the PostgreSQL store steers all the same", file: "internal/sqlstore/controls.go", pkg: "internal/integration", test: "TestStore/native$/fence/a_halt_that_nobody_saw_is_not_released",
		old: "if next, act, changed, err = st.Apply(was, FromMicro(now));",
		new: "st.Seen = was.Version\n\t\tif next, act, changed, err = st.Apply(was, FromMicro(now));",
	},
	{
		name: "fence: what code of schema version 1 paused has the version from before", file: "internal/sqlstore/controls.go", pkg: "internal/sqlstore", test: "TestControlOfOldCode",
		old: "max(c.Version, c.PausedAt, c.HaltedAt)",
		new: "c.Version",
	},
	{
		name: "health: a dead database is not seen", file: "watchedstore.go", pkg: ".", test: "TestHealthSeesTheDatabase",
		old: "if errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrNotFound) {",
		new: "if err != nil || errors.Is(err, batch.ErrNotFound) {",
	},
	{
		name: "health: a success clears nothing", file: "vitals.go", pkg: ".", test: "TestHealthSeesTheDatabase",
		old: "\t\tp.failing, p.n, p.err = time.Time{}, 0, nil\n",
		new: "",
	},
	{
		name: "health: a database that is silent is well", file: "vitals.go", pkg: ".", test: "TestHealthSeesTheDatabase",
		old: "case !h.NoAnswerSince.IsZero():",
		new: "case false:",
	},
	{
		name: "health: an old trouble stays for ever", file: "health.go", pkg: ".", test: "TestHealthSeesTheDatabase",
		old: "h.trouble != nil && now.Sub(h.troubleAt) < HealthMemory",
		new: "h.trouble != nil",
	},
	{
		name: "health: what is tried no more fails for ever", file: "vitals.go", pkg: ".", test: "TestHealthForgets",
		old: "(p.under > 0 || now.Sub(p.failed) < HealthMemory):",
		new: "true:",
	},
	{
		name: "health: a refused batch is a dead ledger", file: "watched.go", pkg: ".", test: "TestHealthForgets",
		old: "case batch.KindRejected, batch.KindBusy, batch.KindNotYet:",
		new: "case batch.KindBusy:",
	},
	{
		name: "health: a lost stream is a doubt", file: "watched.go", pkg: ".", test: "TestHealthShowsALostStream",
		old: "\terr = streamLost(err)\n",
		new: "",
	},
	{
		name: "health: a stream that nobody follows any more stays lost", file: "watched.go", pkg: ".", test: "TestHealthShowsALostStream",
		old: "if v.streams[key] == st {",
		new: "if false {",
	},
	{
		name: "words: a word that nobody knows is the last one", file: "batch/words.go", pkg: "batch", test: "TestWords",
		old: "\tif i < 0 {\n",
		new: "\tif i < -1 {\n",
	},
	{
		name: "words: the error of an event is lost in JSON", file: "batch/event.go", pkg: "batch", test: "TestEventsInJSON",
		old: "\t\tv.Err = e.Err.Error()\n",
		new: "",
	},
	{
		name: "fence: a batch that was added again is the one before", file: "store/operate.go", pkg: "store/memory", test: "TestStore/fence/a_batch_that_was_added_again_is_another",
		old: "seen.Version || another {",
		new: "seen.Version || false && another {",
	},
}
