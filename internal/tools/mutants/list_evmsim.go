package main

// evmSimList is about the simulated EVM node, which is useful only as far as it behaves as real
// nodes do.
var evmSimList = []mutant{
	{
		name: "evmsim: nine percent replace", file: "dlt/evm/evmtest/admit.go", pkg: "dlt/evm/evmtest", test: "TestRecords/geth-dev.txt",
		old: "bumpPercent = 10", new: "bumpPercent = 9",
	},
	{
		name: "evmsim: the same tip replaces where a tenth is nothing", file: "dlt/evm/evmtest/admit.go", pkg: "dlt/evm/evmtest", test: "TestReplacementOfTinyFees",
		old: "fee.Cmp(old) > 0 && fee.Cmp(threshold) >= 0", new: "fee.Cmp(threshold) >= 0",
	},
	{
		name: "evmsim: a kill un-mines nothing", file: "dlt/evm/evmtest/node.go", pkg: "dlt/evm/evmtest", test: "TestKillUnmines",
		old: "n.unmine(now, n.c.rewind(head-min(head, uint64(n.o.KillUnmines))))", new: "_ = head",
	},
	{
		name: "evmsim: a kill leaves the pool", file: "dlt/evm/evmtest/node.go", pkg: "dlt/evm/evmtest", test: "TestKillUnmines",
		old: "\t\tn.p = newPool(n.r.lax)\n\t\tn.late = nil", new: "\t\tn.late = nil",
	},
	{
		name: "evmsim: what was late arrives after a kill", file: "dlt/evm/evmtest/node.go", pkg: "dlt/evm/evmtest", test: "TestKillLosesWhatIsUnderWay",
		old: "\t\tn.late = nil\n", new: "",
	},
	{
		name: "evmsim: a node answers for its last life", file: "dlt/evm/evmtest/rpc.go", pkg: "dlt/evm/evmtest", test: "TestKillLosesWhatIsUnderWay",
		old: "alive = n.lives == life && !n.down", new: "alive = !n.down",
	},
	{
		name: "evmsim: the tracker looks once", file: "dlt/evm/evmtest/node.go", pkg: "dlt/evm/evmtest", test: "TestTrackerLooksAgain",
		old: "n.nextLook = at.Add(trackerInterval)", new: "n.nextLook = time.Time{}",
	},
	{
		name: "evmsim: a pool keeps all behind a gap", file: "dlt/evm/evmtest/admit.go", pkg: "dlt/evm/evmtest", test: "TestRecords/geth-gapped-120.txt",
		old: "queued > n.o.QueuedSlots {", new: "queued > 1000 {",
	},
	{
		name: "evmsim: both backends have each receipt", file: "dlt/evm/evmtest/call.go", pkg: "dlt/evm/evmtest", test: "TestProviderLags",
		old: "m != nil && m.block.number <= c.v.head {", new: "m != nil {",
	},
	{
		name: "evmsim: a revert moves the value", file: "dlt/evm/evmtest/chain.go", pkg: "dlt/evm/evmtest", test: "TestRevertMovesNothing",
		old: "\tif !ok {\n\t\tb.writes = before\n", new: "\tif !ok && before == nil {\n",
	},
	{
		name: "evmsim: of equal tips any comes first", file: "dlt/evm/evmtest/mine.go", pkg: "dlt/evm/evmtest", test: "TestFirstComesFirst",
		old: "d > 0 || d == 0 && x.seq < y.seq", new: "d > 0",
	},
	{
		name: "evmsim: anvil looks at readiness again", file: "dlt/evm/evmtest/pool.go", pkg: "dlt/evm/evmtest", test: "TestAnvilRandomly",
		old: "p.lax && x.ready ||", new: "p.lax && x.Nonce < until ||",
	},
}
