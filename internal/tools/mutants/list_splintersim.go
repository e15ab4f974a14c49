package main

const splinterSim = "dlt/splinter/splintertest"

// splinterSimList makes the network of Splinter nodes kinder than real ones, where its own
// tests are known to catch it.
var splinterSimList = []mutant{
	{
		name: "splintertest: replay ends at a short page", file: splinterSim + "/replay.go", pkg: splinterSim, test: "TestReplay",
		old: "c.ended = len(c.page) == 0; !c.ended {", new: "c.ended = len(c.page) < pageSize; len(c.page) > 0 {",
	},
	{
		name: "splintertest: replay goes by age", file: splinterSim + "/replay.go", pkg: splinterSim, test: "TestReplay",
		old: "if (!c.bounded || r.id > c.after) && len(c.page) < pageSize {", new: "if c.bounded && r.id == c.after {\n\t\t\tc.page, c.bounded = nil, false\n\t\t} else if len(c.page) < pageSize {",
	},
	{
		name: "splintertest: a second execution divides nothing", file: splinterSim + "/commit.go", pkg: splinterSim, test: "TestSecondExecutionDivides",
		old: "case !s.node.insert(x.receipts):", new: "case s.node == nil:",
	},
	{
		name: "splintertest: receipts with the state", file: splinterSim + "/commit.go", pkg: splinterSim, test: "TestCrashes",
		old: "out, e.Word = crashed, \"no receipt\"", new: "s.receipts, out, e.Word = append(s.receipts, x.receipts...), crashed, \"no receipt\"",
	},
	{
		name: "splintertest: peers hear of a commit all the same", file: splinterSim + "/propose.go", pkg: splinterSim, test: "TestCrashes",
		old: "if n.crash(b, CrashCommitted, c) || (n.o.ApplyDelay > 0 && !n.rest(life,", new: "if n.crash(b, CrashCommitted, c); (n.o.ApplyDelay > 0 && !n.rest(c.node.life,",
	},
	{
		name: "splintertest: a peer forgets the proposal that it waits for", file: splinterSim + "/propose.go", pkg: splinterSim, test: "TestKillWithAProposalOpen",
		old: "p.dead || p.awaits != \"\" {", new: "p.dead {",
	},
	{
		name: "splintertest: no stall after a second execution", file: splinterSim + "/propose.go", pkg: splinterSim, test: "TestSecondExecutionOfTheSameEffect",
		old: "if n.rest(life, n.o.CoordinatorTimeout-time.Since(begun)) {", new: "if n.rest(life, 0) {",
	},
	{
		name: "splintertest: a stall is its service's alone", file: splinterSim + "/workers.go", pkg: splinterSim, test: "TestStallIsTheNodes",
		old: "	w.busy = true\n", new: "",
	},
	{
		name: "splintertest: who left is not served", file: splinterSim + "/workers.go", pkg: splinterSim, test: "TestStallIsTheNodes",
		old: "v.await(context.Background(), nil, func() bool {\n\t\treturn ended(life) || (!w.busy", new: "v.await(r.Context(), nil, func() bool {\n\t\treturn ended(life) || (!w.busy",
	},
	{
		name: "splintertest: the late are served in turn", file: splinterSim + "/workers.go", pkg: splinterSim, test: "TestStallIsTheNodes",
		old: "if t.turn < first.turn {", new: "if t == nil {",
	},
	{
		name: "splintertest: the coordinator knows what it was sent", file: splinterSim + "/engine.go", pkg: splinterSim, test: "TestPostedAtAPeer",
		old: "		if c.node.up {\n", new: "		if n.evicted(c, c.seen.add(b)); c.node.up {\n",
	},
	{
		name: "splintertest: a dead executor executes", file: splinterSim + "/propose.go", pkg: splinterSim, test: "TestPoisonKinds",
		old: "s.stalled, s.dead = false, s.dead || b.breaks()", new: "s.stalled, s.dead = false, false",
	},
	{
		name: "splintertest: any version of the family is served", file: splinterSim + "/propose.go", pkg: splinterSim, test: "TestPoisonKinds",
		old: "[]string{\"0.5\", \"0.6\", \"1\"}, t.version)", new: "[]string{\"0.5\", \"0.6\", \"1\", \"9.9\"}, t.version)",
	},
	{
		name: "splintertest: what was forgotten is not known again", file: splinterSim + "/history.go", pkg: splinterSim, test: "TestFlood",
		old: "	if _, ok := h.entries[b.id]; !ok {\n		out = h.add(b)", new: "	if _, ok := h.entries[b.id]; !ok {\n		return nil\n	}\n	if h == nil {\n		out = h.add(b)",
	},
	{
		name: "splintertest: the first of two parameters counts", file: splinterSim + "/query.go", pkg: splinterSim, test: "TestTranscripts",
		old: "		out[unescape(name)] = unescape(value)\n", new: "		if _, twice := out[unescape(name)]; !twice {\n			out[unescape(name)] = unescape(value)\n		}\n",
	},
	{
		name: "splintertest: data of an error", file: splinterSim + "/statuses.go", pkg: splinterSim, test: "TestTranscripts",
		old: "fmt.Sprintf(\"containing batch (%s) is invalid\", i.id), []int{}", new: "fmt.Sprintf(\"containing batch (%s) is invalid\", i.id), []int{1}",
	},
	{
		name: "splintertest: a wait tells the last", file: splinterSim + "/statuses.go", pkg: splinterSim, test: "TestWaitSaysWhatWas",
		old: "		if !last[i].final() {\n", new: "		if last[i].id == \"\" {\n",
	},
}
