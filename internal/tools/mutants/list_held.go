package main

// heldList makes calls walk dead rows while a snapshot is held, and hides rows that become
// visible late.
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
	{
		name: "held: a claim that is not visible yet is taken to be over", file: "store/postgres/underway.go", pkg: "internal/integration", test: "TestPendingFindsWhatIsSlowAndWhatIsLate",
		old: "to := max(s.oldest, u.settled)",
		new: "to := max(s.later, u.settled)",
	},
	{
		name: "held: what is slow is forgotten", file: "store/postgres/underway.go", pkg: "internal/integration", test: "TestPendingFindsWhatIsSlowAndWhatIsLate",
		old: "			u.slow = append(u.slow, r.seq)\n",
		new: "			_ = r\n",
	},
	{
		name: "held: a quick look at what is under way is enough for ever", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestAQuickLookIsNotEnoughForEver",
		old: "len(u.slow) == 0 && !overdue",
		new: "len(u.slow) == 0 && (!overdue || true)",
	},
	{
		name: "held: another server's numbers are taken for this one's", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestUnderWayOfAnotherServer",
		old: "u.from, u.exact, u.slow, u.settled, u.mark = 0, 0, nil, 0, 0",
		new: "u.slow = nil",
	},
	{
		name: "held: what may become visible late is taken to be seen", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestUnderWay",
		old: "u.exact, u.all, u.pause = min(s.oldest, to)",
		new: "u.exact, u.all, u.pause = to",
	},
	{
		name: "held: nobody looks for what became visible late", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestUnderWay",
		old: "		return u.exact, true\n",
		new: "		return u.from, true\n",
	},
	{
		name: "held: another server with nothing under way is not noticed", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestAnotherServerIsNoticedByAQuickLook",
		old: "sqlAnyAttempted = `SELECT ` + sqlIncarnation + ` <> $2::bigint OR",
		new: "sqlAnyAttempted = `SELECT $2::bigint < 0 OR",
	},
	{
		name: "held: what a rolled back Prune had found waits", file: "store/postgres/oldest.go", pkg: "internal/integration", test: "TestAPruneThatIsRolledBackFindsItAgain",
		old: "\tif err != nil {\n\t\ts.forgetOldest()\n\t}\n\treturn err\n",
		new: "\treturn err\n",
	},
	{
		name: "held: the monitor's rows are looked for from the beginning", file: "store/postgres/underway.go", pkg: "internal/integration", test: "TestCallsUnderAHeldSnapshot",
		old: "	u.from, u.slow = to, nil\n",
		new: "	to, u.slow = u.from, nil\n",
	},
	{
		name: "held: what is old is looked for from the beginning", file: "store/postgres/oldest.go", pkg: "internal/integration", test: "TestCallsUnderAHeldSnapshot",
		old: "	}\n	return o.at\n",
		new: "	}\n	return math.MinInt64\n",
	},
	{
		name: "held: rows are looked up in whatever index is there", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestCallsUnderAHeldSnapshot",
		old: "LEFT JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.seq = b.seq OFFSET 0) a ON true\n	LEFT JOIN LATERAL (SELECT * FROM {outcomes} r WHERE r.seq = b.seq OFFSET 0) f ON true\n	LEFT JOIN LATERAL (SELECT * FROM {waiting_batches} r WHERE r.service_id = b.service_id AND r.created_at = b.created_at\n		AND r.seq = b.seq OFFSET 0) w ON true`",
		new: "LEFT JOIN {attempted_batches} a ON a.seq = b.seq LEFT JOIN {outcomes} f ON f.seq = b.seq\n	LEFT JOIN {waiting_batches} w ON w.service_id = b.service_id AND w.created_at = b.created_at AND w.seq = b.seq`",
	},
	{
		name: "held: where a lane begins is believed whatever was put back", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestWhatIsPutBackIsCounted",
		old: "WHERE l.turn = u.turn AND u.clock",
		new: "WHERE u.clock",
	},
	{
		name: "held: a scan that takes long is made again at once", file: "queuer/scan.go", pkg: "queuer", test: "TestAScanThatTakesLongIsMadeLessOften",
		old: "max(p.o.ScanInterval, share)",
		new: "p.o.ScanInterval + 0*share",
	},
	{
		name: "held: claims wait for a scan", file: "queuer/queuer.go", pkg: "queuer", test: "TestNamedLanesGoOnWhileAScanLasts",
		old: "			q.scan.begin(ctx)\n",
		new: "			q.scan.begin(ctx)\n			q.scan.end(ctx, <-q.scan.ended)\n",
	},
	{
		name: "held: a scan does not look between the lanes that are remembered", file: "store/postgres/lanes.go", pkg: "internal/integration", test: "TestScansFindTheSameLanesWhateverIsRemembered",
		old: "			if l.between {\n",
		new: "			if l.between && first {\n",
	},
	{
		name: "held: a scan does not look behind the last lane that is remembered", file: "store/postgres/lanes.go", pkg: "internal/integration", test: "TestScansFindTheSameLanesWhateverIsRemembered",
		old: "int64(q.Limit-len(lanes)), string(last))",
		new: "int64(0), string(last))",
	},
	{
		name: "held: a scan begins with the lane that it is to begin after", file: "store/postgres/lanes.go", pkg: "internal/integration", test: "TestScansFindTheSameLanesWhateverIsRemembered",
		old: "l.open && !(first && i == 0)",
		new: "l.open && (i >= 0 || first)",
	},
	{
		name: "held: what is claimed only counts as nothing open", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestScansFindTheSameLanesWhateverIsRemembered",
		old: "(SELECT true FROM {attempted_batches} a WHERE a.service_id = u.s AND a.created_at >= u.low LIMIT 1), false),",
		new: "false),",
	},
	{
		name: "held: a scan that takes long fails", file: "store/postgres/lanes.go", pkg: "internal/integration", test: "TestAScanThatTakesLongLooksAtRememberedLanes",
		old: "sqlState(err) != queryCanceled",
		new: "sqlState(err) != \"\" || queryCanceled != \"\"",
	},
	{
		name: "held: scans pass over all that is dead", file: "store/postgres/lanes.go", pkg: "internal/integration", test: "TestCallsUnderAHeldSnapshot",
		old: "		if known == 0 {\n",
		new: "		if known >= 0 {\n",
	},
	{
		name: "held: a server that recovered from a crash is taken to go on", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestUnderWayOfAnotherServer",
		old: "s.started != u.started || s.later < u.later",
		new: "s.started != u.started",
	},
	{
		name: "held: nobody looks from the beginning", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestUnderWay",
		old: "now.Sub(u.whole) >= lookWhole || lost",
		new: "lost",
	},
	{
		name: "held: a look that hangs holds up all others", file: "store/postgres/underway.go", pkg: "store/postgres", test: "TestALookThatHangs",
		old: "u.looking && now.Sub(u.began) < lookFor",
		new: "u.looking",
	},
	{
		name: "held: no scan finds a hidden row in a lane that nobody claims from", file: "internal/position/known.go", pkg: "internal/position", test: "TestScanFloors",
		old: "			l.scanned = now.Add(wholeEvery)\n			floors[i].From = math.MinInt64\n",
		new: "			l.scanned = now.Add(wholeEvery)\n			floors[i].From = max(floors[i].From, math.MinInt64)\n",
	},
}
