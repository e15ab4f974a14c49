package main

// splinterList breaks the code for ledgers that forget, that execute duplicates, and that
// send events (docs/ledgers/splinter.md).
var splinterList = []mutant{
	{
		name: "splinter: sent again on Unknown", file: "dlt/splinter/resolve.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "\t\tif d.Number == 1 && k.witnessed() {\n", new: "\t\tif d.Number == 1 || k.witnessed() {\n",
	},
	{
		name: "splinter: sent again on Unknown, under kill -9", file: "dlt/splinter/resolve.go", pkg: "internal/crash", test: "TestKillSplinter", args: []string{"-crash.kills=20"},
		old: "\t\tif d.Number == 1 && k.witnessed() {\n", new: "\t\tif d.Number == 1 || k.witnessed() {\n",
	},
	{
		name: "splinter: sent again on a timeout", file: "dlt/internal/wire/wire.go", pkg: "dlt/splinter", test: "TestSubmitConnections",
		old: "\tcase sent != Unsent:\n\t\treturn dlt.ErrDoubt\n", new: "\tcase sent != Unsent:\n\t\treturn dlt.ErrUnavailable\n",
	},
	{
		name: "splinter: sent again on a timeout (simulated)", file: "dlt/internal/wire/wire.go", pkg: "internal/sim", test: "TestRunner", args: []string{"-sim.runner.seeds=40"},
		old: "\tcase sent != Unsent:\n\t\treturn dlt.ErrDoubt\n", new: "\tcase sent != Unsent:\n\t\treturn dlt.ErrUnavailable\n",
	},
	{
		name: "splinter: a 500 is certain", file: "dlt/splinter/words.go", pkg: "dlt/splinter", test: "TestSubmitAnswers",
		old: "of 400: the version guard, or a proxy\n\tdefault:\n\t\tkind = dlt.ErrDoubt", new: "of 400: the version guard, or a proxy\n\tdefault:\n\t\tkind = dlt.ErrUnavailable",
	},
	{
		name: "splinter: not committed before LateArrival", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "\tif d.Ended < k.lateArrival {\n", new: "\tif d.Ended < 0 {\n",
	},
	{
		name: "splinter: Valid is committed", file: "dlt/splinter/statusdecode.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "a.Reported = batch.ReportedValid", new: "a.Reported = batch.ReportedCommitted",
	},
	{
		name: "splinter: what was Valid for long is not committed, whatever the log", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "if k.log.Until+k.margin > k.validFor-k.stale {", new: "if false {",
	},
	{
		name: "splinter: answers matched by position", file: "dlt/splinter/statusdecode.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "\treturn d.out, errors.Join(err, d.first)\n", new: "\tfor i := range d.out {\n\t\td.out[i].ID = ids[i]\n\t}\n\treturn d.out, errors.Join(err, d.first)\n",
	},
	{
		name: "splinter: answers matched by position (tested)", file: "dlt/splinter/statusdecode.go", pkg: "dlt/splinter", test: "TestStatus.*",
		old: "\treturn d.out, errors.Join(err, d.first)\n", new: "\tfor i := range d.out {\n\t\td.out[i].ID = ids[i]\n\t}\n\treturn d.out, errors.Join(err, d.first)\n",
	},
	{
		name: "splinter: an unknown word is Pending", file: "dlt/splinter/statusdecode.go", pkg: "dlt/splinter", test: "TestStatus.*",
		old: "\t\td.note(fmt.Errorf(\"unknown status %s of batch %s\", wire.Word(e.status), e.id))\n\t\treturn\n", new: "\t\ta.Reported = batch.ReportedPending\n\t\t_ = fmt.Sprint(wire.Word(e.id))\n",
	},
	{
		name: "splinter: last_seen_event trusted to tell what was missed", file: "dlt/splinter/log.go", pkg: "dlt/splinter", test: "Test(Events|Resolve).*",
		old: "Restart: l.fresh}", new: "Restart: false}",
	},
	{
		name: "splinter: one probe settles a stream", file: "dlt/splinter/probe.go", pkg: "dlt/splinter", test: "TestProber",
		old: "if !p.first.IsZero() && p.quiet {", new: "if p.first = p.sent; p.quiet || true {",
	},
	{
		name: "splinter: a gap in the log taken for absence", file: "dlt/splinter/resolve.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "k.log.Since >= k.doubt.Since+k.elapsed+k.margin &&", new: "true &&",
	},
	{
		name: "splinter: a gap in the log taken for absence (tested)", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "k.log.Since >= k.doubt.Since+k.elapsed+k.margin &&", new: "true &&",
	},
	{
		name: "splinter: a log that ends early taken for absence", file: "dlt/splinter/resolve.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1500"),
		old: "k.log.Until+k.margin <= k.doubt.Ended-k.lateArrival", new: "true",
	},
	{
		name: "splinter: what a log does not cover taken for absence", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "return k.logged && k.log.Covered &&\n", new: "return k.logged &&\n",
	},
	{
		name: "splinter: an Invalid after the second POST believed", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "if d.Number == 1 {", new: "if d.Number >= 1 {",
	},
	{
		name: "splinter: a witness first seen after the doubt began", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestResolveWitnessSeenAgain",
		old: " >= k.doubt.Since+k.elapsed {", new: " >= 0 {",
	},
	{
		name: "splinter: an evicted witness vouches", file: "dlt/splinter/resolve.go", pkg: "internal/sim", test: "TestDecisions", args: sim("800"),
		old: "if w.Reported == batch.ReportedUnknown || w.Reported == 0 {", new: "if w.Reported == 0 {",
	},

	// The monitor and the engine.
	{
		name: "a witness younger than the doubt", file: "store/memory/witnesses.go", pkg: "store/memory", test: "TestStore/witnesses/not_what_became_final_since",
		old: " && w.row.FinalAt.Before(e.row.DoubtSince)", new: "",
	},
	{
		name: "a commit that is held is dropped", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitThatIsHeldBack",
		old: "\tcase f.Crowded:\n\t\te.forget(out)\n", new: "\tcase f.Crowded, true:\n\t\te.forget(out)\n",
	},
	{
		name: "asks that events trigger are not limited", file: "internal/inhand/stream.go", pkg: "monitor", test: "TestAsksThatEventsTriggerAreRateLimited",
		old: "s.askAt = lastAsk.Add(askPause)", new: "s.askAt = lastAsk",
	},
	{
		name: "a doubt is told as young as when its row was read", file: "monitor/ask.go", pkg: "monitor", test: "TestADoubtIsNeverReportedYoungerThanItIs",
		old: "d.Since = f.DoubtAgo + wall.Since(read)", new: "d.Since = f.DoubtAgo + wall.Since(time.Now())",
	},
	{
		name: "an INVALID from before a requeue believed while the last attempt may arrive", file: "monitor/data.go", pkg: "monitor", test: "TestDecideInvalidOfAnEarlierAttempt|TestDecideEverything",
		old: "d.k.Status.Attempt != d.f.Attempt && d.late() > 0", new: "d.k.Status.Attempt != d.f.Attempt && d.late() < 0",
	},
	{
		name: "a live stream does not slow polling", file: "monitor/data.go", pkg: "monitor", test: "TestALiveStreamMakesPollingTheFloor",
		old: "if d.r.Streamed && !unseen && (", new: "if false && !unseen && (",
	},
	{
		name: "a stream counts as live after its end", file: "internal/inhand/stream.go", pkg: "monitor", test: "TestAStreamThatEndedSlowsNothing",
		old: "lived, s.live = s.live, false", new: "lived = s.live",
	},
	{
		name: "what was missed is not asked for when a stream is live again", file: "monitor/streams.go", pkg: "monitor", test: "TestABrokenStreamIsOpenedAgainAndAskedAfter",
		old: "\tlook := e.Live\n", new: "\tlook := false\n",
	},
	{
		name: "Await reads before it registers", file: "internal/await/await.go", pkg: ".", test: "TestAwaitMissesNothing",
		old:  "\tc := w.join(key) // before the first look, so that nothing falls in between\n",
		new:  "\tif final, _, err := w.finals(ctx, []K{key}); err == nil && len(final) == 1 {\n\t\treturn final[0], nil\n\t}\n\tc := w.join(key)\n\tw.unask(key)\n",
		more: "\nfunc (w *Waiters[K, R]) unask(key K) {\n\tw.mu.Lock()\n\tdefer w.mu.Unlock()\n\tdelete(w.reader.fresh, key)\n}\n",
	},
	{
		name: "a commit that is told is fenced like anything else", file: "store/outcome.go", pkg: "internal/sim", test: "TestDecisions", args: sim("400"),
		old: "case o.Finding == IsCommitted:\n\t\tres.Breach = r.Final()", new: "case o.Finding == IsCommitted && o.Version == r.Version:\n\t\tres.Breach = r.Final()",
	},
	{
		name: "a commit that is told is fenced like anything else (tested)", file: "store/outcome.go", pkg: "store", test: "TestCommitIsNeverFenced",
		old: "case o.Finding == IsCommitted:\n\t\tres.Breach = r.Final()", new: "case o.Finding == IsCommitted && o.Version == r.Version:\n\t\tres.Breach = r.Final()",
	},
}
