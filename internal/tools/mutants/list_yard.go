package main

// yardList breaks the guards against growing slow, and the checks that separate a figure from
// an error.
var yardList = []mutant{
	{
		name: "yard: an allocation more for each batch", file: "runner.go", pkg: "internal/yard", test: "TestAllocationsOfARun",
		old: "\t\tr.observe(ctx, batch.Event{Kind: batch.EventAdded, Key: b.Key(), State: batch.Queued})\n",
		new: "\t\tr.observe(ctx, batch.Event{Kind: batch.EventAdded, Key: b.Key(), State: batch.Queued, Err: fmt.Errorf(\"added %s\", b.ID)})\n",
	},
	{
		name: "yard: a breach of order is not seen", file: "internal/yard/ledger.go", pkg: "internal/yard", test: "TestTheFakeLedgerNoticesWhatIsTwiceOrOutOfOrder",
		old: "\tif place != p.next[lane] {\n", new: "\tif place < p.next[lane] {\n",
	},
	{
		name: "yard: statements are miscounted where a write is cut", file: "internal/yard/wire.go", pkg: "internal/yard", test: "TestWireCountsStatementsHoweverTheyAreCut",
		old: "\t\tc.have, p = c.have+n, p[n:]\n", new: "\t\tc.have, p = n, p[n:]\n",
	},
	{
		name: "yard: the page forgets what is written by hand", file: "internal/yard/page.go", pkg: "internal/yard", test: "TestThePageKeepsWhatIsWrittenByHand",
		old: "\treturn before + pageBegin + \"\\n\" + part + pageEnd + after, nil\n", new: "\treturn before + pageBegin + \"\\n\" + part + pageEnd + after[:0], nil\n",
	},
}
