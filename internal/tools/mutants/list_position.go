package main

const position = "internal/position"

// positionList is the ways of getting the start of a claim's windows wrong.
var positionList = []mutant{
	{
		name: "position: a bound ahead of the claim's clock", file: position + "/claim.go", pkg: position, test: "TestModel/(ids|locks)_repeatable_read$",
		old: "min(slices.Max(keys), v.clock)", new: "slices.Max(keys)",
	},
	{
		name: "position: a safe time for a key", file: position + "/claim.go", pkg: position, test: "TestModel/clock_on_and_back$",
		old: "min(slices.Max(keys), v.clock)", new: "v.clock",
	},
	{
		name: "position: an id from before the generation was closed", file: position + "/claim.go", pkg: position, test: "TestModel/ids_two_claims$",
		old: "g.xid == 0 && c.closed == g.id", new: "g.xid == 0",
	},
	{
		name: "position: a generation is closed after BEGIN", file: position + "/claim.go", pkg: position, test: "TestModel/ids_two_claims$",
		old: "	g := m.sealing\n	switch {\n	case g == nil:", new: "	m.close(now)\n	g := m.sealing\n	if g != nil {\n		c.closed = g.id\n	}\n	switch {\n	case g == nil:",
	},
	{
		name: "position: sealed while the noted id runs", file: position + "/generation.go", pkg: position, test: "TestSealedByID",
		old: "xmin > g.xid", new: "xmin >= g.xid",
	},
	{
		name: "position: sealed before an id is noted", file: position + "/generation.go", pkg: position, test: "TestModel/ids$",
		old: "g.xid != 0 && xmin", new: "xmin",
	},
	{
		name: "position: another turn changes nothing", file: position + "/lanes.go", pkg: position, test: "TestModel/requeued_in_place$",
		old: "l.turn, l.ranges = turn, whole", new: "l.turn = turn",
	},
	{
		name: "position: a window of another turn", file: position + "/claim.go", pkg: position, test: "TestModel/lost_and_requeued$",
		old: "l.turn != v.turn || ", new: "",
	},
	{
		name: "position: a restart changes nothing", file: position + "/claim.go", pkg: position, test: "TestModel/failed_over$",
		old: "m.started != found.Started", new: "m.started == 0",
	},
	{
		name: "position: a window from before a restart", file: position + "/claim.go", pkg: position, test: "TestModel/failed_over$",
		old: "if !ok || c.epoch != m.epoch {", new: "if !ok {",
	},
	{
		name: "position: a lane that is halted is empty", file: position + "/claim.go", pkg: position, test: "TestModel/halted$",
		old: " || !w.Open {", new: " {",
	},
	{
		name: "position: who holds the lock is not waited for", file: position + "/generation.go", pkg: position, test: "TestModel/locks$",
		old: "ok || nameless(v)", new: "ok && v == \"\" || nameless(v)",
	},
	{
		name: "position: a prepared transaction lost its name", file: position + "/generation.go", pkg: position, test: "TestModel/prepared_locks$",
		old: "ok || nameless(v)", new: "ok",
	},
	{
		name: "position: looks at locks by when they are reported", file: position + "/claim.go", pkg: position, test: "TestModel/prepared_two_claims$",
		old: "case c.later:", new: "case g.looked:",
	},
	{
		name: "position: what was attempted does not count", file: position + "/claim.go", pkg: position, test: "TestModel/ids$",
		old: "slices.Concat(w.Attempted, w.Waiting)", new: "slices.Clone(w.Waiting)",
	},
	{
		name: "position: what waits does not count", file: position + "/claim.go", pkg: position, test: "TestModel/cut_off$",
		old: "slices.Concat(w.Attempted, w.Waiting)", new: "slices.Clone(w.Attempted)",
	},
	{
		name: "position: a bound goes down", file: position + "/lanes.go", pkg: position, test: "TestBound",
		old: "max(l.bound, key)", new: "key",
	},
	{
		name: "position: a bound that was sealed after the window", file: position + "/claim.go", pkg: position, test: "TestModel/sealed_meanwhile$",
		old: "min(v.bound, w.upto())", new: "min(l.bound, w.upto())",
	},
	{
		name: "position: a window that was cut off shows all", file: position + "/claim.go", pkg: position, test: "TestModel/cut_off$",
		old: "min(v.bound, w.upto())", new: "v.bound",
	},
	{
		name: "position: a window that was cut off moves it back", file: position + "/claim.go", pkg: position, test: "TestStuck",
		old: "start >= bottom(l.ranges)", new: "start > 0",
	},
	{
		name: "position: ahead of the clock", file: position + "/claim.go", pkg: position, test: "TestClockStepsBack",
		old: "clock < bottom(l.ranges)", new: "clock < 0",
	},
	{
		name: "position: the bound stays ahead of the clock", file: position + "/claim.go", pkg: position, test: "TestClockStepsBack",
		old: "l.bound, l.ranges = math.MinInt64, whole", new: "l.ranges = whole",
	},
	{
		name: "position: a generation is replaced while it is sealed", file: position + "/lanes.go", pkg: position, test: "TestPosition$",
		old: "m.sealing != nil || len(m.open.candidates) == 0", new: "len(m.open.candidates) == 0",
	},
	{
		name: "position: a row in a gap", file: position + "/ranges.go", pkg: position, test: "TestCover",
		old: "Range{from, points[i]}", new: "Range{from, from}",
	},
	{
		name: "position: gaps without number", file: position + "/ranges.go", pkg: position, test: "TestCover",
		old: "if len(gaps) >= most {", new: "if len(gaps) > 8*most {",
	},
	{
		name: "position: the narrowest gaps", file: position + "/ranges.go", pkg: position, test: "TestCover",
		old: "points[b+1]-points[b], points[a+1]-points[a]", new: "points[a+1]-points[a], points[b+1]-points[b]",
	},
	{
		name: "position: lanes without number", file: position + "/lanes.go", pkg: position, test: "TestMemory",
		old: "len(m.young) >= m.limit/2", new: "len(m.young) > m.limit*9",
	},
	{
		name: "position: candidates without number", file: position + "/generation.go", pkg: position, test: "TestMemory",
		old: "ok || len(g.candidates) < limit", new: "!ok || key > was",
	},
	{
		name: "position: locks are looked at though ids move", file: position + "/claim.go", pkg: position, test: "TestLocks",
		old: "(now.Sub(g.closed) < patience && !m.byLock)", new: "false",
	},
	{
		name: "position: locks are looked at by each claim", file: position + "/claim.go", pkg: position, test: "TestLocks",
		old: "m.next = now.Add(lookEvery)", new: "m.next = now",
	},
	{
		name: "position: nobody hears that nothing moves", file: position + "/claim.go", pkg: position, test: "TestStall",
		old: "m.stall = Stall{c.now.Sub(g.since), g.sample()}", new: "m.stall = Stall{}",
	},
	{
		name: "position: nobody hears that nothing moves where locks are hidden", file: position + "/claim.go", pkg: position, test: "TestStall",
		old: "m.stall = Stall{For: now.Sub(g.noted)}", new: "m.stall = Stall{}",
	},
	{
		name: "position: no lane is read from its beginning again", file: position + "/claim.go", pkg: position, test: "TestWhole",
		old: "!c.now.Before(l.whole)", new: "c.now.IsZero()",
	},
	{
		name: "position: all lanes from their beginnings at once", file: position + "/claim.go", pkg: position, test: "TestWhole",
		old: "		c.wholes++\n", new: "",
	},
	{
		name: "position: lanes come due together", file: position + "/lanes.go", pkg: position, test: "TestWhole",
		old: "wholeEvery/2 + spread(service)", new: "wholeEvery",
	},
	{
		name: "position: what was hidden stays hidden", file: position + "/claim.go", pkg: position, test: "TestWhole",
		old: "	if hidden {\n		l.ranges = whole\n	}\n", new: "",
	},
}
