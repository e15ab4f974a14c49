package main

// rootList breaks how the Runner and the Router outlive the application's code: its panics, its types,
// and answers that change.
var rootList = []mutant{
	{
		name: "routes: a ledger is the key of a map", file: "dlt/router.go", pkg: "dlt", test: "TestALedgerOfARouteIsNoKey",
		old: "p := part{route: i}", new: "p := part{route: i}\n\t\t_ = map[any]bool{r.routes[i].Ledger: true}",
	},
	{
		name: "gate: the strategy is asked under the lock", file: "gate.go", pkg: ".", test: "TestAPanicOfReliesOnOrderStopsNoClaims", args: []string{"-test.timeout=30s"},
		old: "for _, s := range unjudged {\n", new: "for _, s := range unjudged {\n\t\tg.mu.Lock()\n\t\t_ = queuer.ReliesOnOrder(g.o.Strategy.(steadySparing).Given())\n\t\tg.mu.Unlock()\n",
	},
	{
		name: "gate: a verdict outlives the route", file: "gate.go", pkg: ".", test: "TestARouteThatChangesWhileABatchIsInDoubt",
		old: "return err == nil && now != old", new: "return err == nil && now != old && false",
	},
	{
		name: "the strategy is asked while a Run starts", file: "steady.go", pkg: ".", test: "TestAStrategyIsAskedOnceWhatNeverChanges",
		old: "\treturn answers, nil\n", new: "\treturn s, nil\n",
	},
	{
		name: "a panic of the log's handler is not contained", file: "loghandler.go", pkg: ".", test: "TestALogHandlerThatPanicsIsContained",
		old: "\tdefer h.contain()\n\treturn h.Handler.Handle", new: "\treturn h.Handler.Handle",
	},
	{
		name: "a claim that leaves no time is made again at once", file: "queuer/handover.go", pkg: ".", test: "TestAClaimThatLeavesNoTimeIsReported",
		old: "if n > 0 && wall.Until(until) < c.o.Request {", new: "if n < 0 && wall.Until(until) < c.o.Request {",
	},
	{
		name: "a request that is left behind pauses the next Run", file: "report.go", pkg: ".", test: "TestARequestThatIsLeftBehindPausesNoLaterRun",
		old: "if !e.over.Load() {\n\t\te.r.paused(s, all, err)", new: "if e != nil {\n\t\te.r.paused(s, all, err)",
	},
	{
		name: "a bad answer is reported inside of the claim", file: "queuer/queuer.go", pkg: ".", test: "TestABadAnswerIsReportedAfterTheClaim", args: []string{"-test.timeout=30s"},
		old: "Choose(o.Strategy, o.KeepsOrder, bad.add)", new: "Choose(o.Strategy, o.KeepsOrder, o.Held)",
	},
	{
		name: "a panic in Traits is noted after its report", file: "guard.go", pkg: ".", test: "TestAnObserverOfAPanicInTraitsMayAskForThem",
		old: "if !g.traits.Swap(true) {", new: "defer g.traits.Store(true)\n\t\tif !g.traits.Load() {",
	},
	{
		name: "the longest delay is no delay", file: "retry.go", pkg: ".", test: "TestADelayForEverIsNotNow",
		old: "most := min(p.MaxDelay, longestDelay)", new: "most := min(p.MaxDelay, max(p.MaxDelay, longestDelay))",
	},
	{
		name: "lanes that are free are not named", file: "engine.go", pkg: "internal/integration", test: "TestNoLaneStandsStill/Serial$", args: []string{"-stall.time=15s"},
		old: "{ e.queuer.Hint(lanes...) },", new: "{},",
	},
}
