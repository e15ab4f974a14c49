package main

// heldList is the ways of walking what is dead while a snapshot is held, and of hiding what
// becomes visible late.
var heldList = []mutant{
	{
		name: "held: a lane's open work starts behind what was finished last", file: "store/memory/claim.go", pkg: "internal/sim", test: "TestDecisions$",
		args: []string{"-sim.seeds=200"},
		old:  "	show(l.queued.first(wanted(rows)))\n",
		new: "	queued := l.queued.first(wanted(rows))\n" +
			"	for len(queued) > 0 && !queued[0].row.Requeued && slices.ContainsFunc(l.all.first(l.all.len()), func(e *entry) bool {\n" +
			"		return e.row.Final() && e.row.Attempt > 0 && queued[0].created.Before(e.created)\n" +
			"	}) {\n		queued = queued[1:]\n	}\n	show(queued)\n",
	},
	{
		name: "held: what becomes visible late goes to the end", file: "store/memory/late.go", pkg: "store/memory", test: "TestStore/(harness|late)$",
		old: "s.place(e, e.created)",
		new: "s.insert(e, s.now())",
	},
}
