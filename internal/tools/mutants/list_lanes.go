package main

// lanesList breaks the rule that says when a lane is worth a look.
var lanesList = []mutant{
	{
		name: "lanes: a panic while a claim begins loses them", file: "queuer/queuer.go", pkg: "queuer", test: "TestAPanicLosesNoLane",
		old: "\t\tif !begun {\n", new: "\t\tif !begun && ctx == nil {\n",
	},
	{
		name: "lanes: one look in vain forgets that a run was out", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestOverAfterALookInVain",
		old: "{ l.until = until })", new: "{ l.out, l.until = false, until })",
	},
	{
		name: "lanes: what was just read is read again", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestADeepLaneRests",
		old: "case e.until.After(e.at):", new: "case e.until.After(e.at) && e.out:",
	},
	{
		name: "lanes: a lane that fails does not rest", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestEvents",
		old: "l.out, l.until = false, now.Add(wait)", new: "l.out = false",
	},
	{
		name: "lanes: a lane that fails rests no longer than its run is out", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestEvents",
		old: "l.out, l.until = false, now.Add(wait)", new: "l.until = now.Add(wait)",
	},
	{
		name: "lanes: whoever names a lane ends its rest after a failure", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestEvents",
		old: "if e.out {", new: "if e.until.After(now) {",
	},
	{
		name: "lanes: a lane goes on resting when its run is over", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestALaneWithABatchUnderWayIsLeftAlone",
		old: "e.request, e.out, e.until = none, false, time.Time{}", new: "e.request, e.out = none, false",
	},
	{
		name: "lanes: requests of a rest stand for now", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestEvents",
		old: "e.request, e.out, e.until = none, false, time.Time{}", new: "e.out, e.until = false, time.Time{}",
	},
	{
		name: "lanes: a found lane that rests counts as waiting for its turn", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestDue",
		old: "return e.until, named", new: "return e.until, e.request",
	},
	{
		name: "lanes: a lane named for later is looked at now", file: "internal/lanes/rule.go", pkg: "queuer", test: "TestAHintIsFollowedAtOnce",
		old: "return e.at, e.request\n", new: "return time.Time{}, e.request\n",
	},
	{
		name: "lanes: the later of two times counts", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestTheEarlierOfTwoTimesCounts",
		old: "at.Before(e.at) {", new: "at.After(e.at) {",
	},
	{
		name: "lanes: a scan puts named lanes behind all that it finds", file: "internal/lanes/rule.go", pkg: "internal/lanes", test: "TestFoundLanesStandBehindNamedOnes",
		old: "e.request == named && e.at.After(now) {", new: "e.request == named {",
	},
	{
		name: "lanes: found lanes take all claims", file: "internal/lanes/table.go", pkg: "queuer", test: "TestANamedLaneDoesNotWaitForAScan",
		old: "if t.looks > 0 {\n", new: "if t.looks < 0 {\n",
	},
	{
		name: "lanes: found lanes take all room", file: "internal/lanes/table.go", pkg: "queuer", test: "TestANamedLaneDoesNotWaitForAScan",
		old: "n = min(n, t.few)", new: "n = max(n, t.few)",
	},
	{
		name: "lanes: a failure is forgotten where nobody looked", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestPausesGrowUntilASuccess",
		old: "\t\tl.name(at, now)\n\t})\n}\n\n// Failed", new: "\t\tl.pauses = nil\n\t\tl.name(at, now)\n\t})\n}\n\n// Failed",
	},
	{
		name: "lanes: a lane that was cut short goes before lanes that were left out", file: "queuer/claim.go", pkg: "queuer", test: "TestADeepLaneTakesTurns",
		old: "\tvar cut []batch.ServiceID\n", new: "\tvar cut []batch.ServiceID\n\tfor _, r := range claimed.Runs {\n\t\tc.lanes.Rest(r.Service, now.Add(-time.Hour))\n\t\tc.lanes.Name(now.Add(-time.Hour), r.Service)\n\t}\n",
	},
	{
		name: "lanes: the largest window overflows", file: "queuer/queuer.go", pkg: "queuer", test: "TestTheLargestWindow",
		old: "if window <= room/len(lanes) {", new: "if len(lanes)*window <= room {",
	},
	{
		name: "lanes: a wake forgets that a run is out", file: "runner.go", pkg: ".", test: "TestAWakeDoesNotHideTheEndOfARun",
		old: "e.queuer.Added(service)\n", new: "e.queuer.Hint(service)\n",
	},
	{
		name: "hang: runs that stop counting wake nobody", file: "submitter/submitter.go", pkg: "submitter", test: "TestServicesThatHangAreClosed",
		old: "room || left && s.pool.Crowded() {", new: "room || left && false {",
	},
	{
		name: "lanes: a run that gets a hand makes no room", file: "submitter/submitter.go", pkg: "submitter", test: "TestARunThatGetsAHandMakesRoom",
		old: "s.full = queued > 0 && n <= queued", new: "s.full = queued > n+1<<20",
	},
	{
		name: "a lane that has failed is claimed with others", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestALaneThatFailedGoesAlone",
		old: "failed := l.pauses != nil", new: "failed := false && l.pauses != nil",
	},
	{
		name: "others are claimed with a lane that has failed", file: "internal/lanes/table.go", pkg: "internal/lanes", test: "TestALaneThatFailedGoesAlone",
		old: "if failed && len(lanes) > 0 {", new: "if failed && len(lanes) > 100 {",
	},
}
