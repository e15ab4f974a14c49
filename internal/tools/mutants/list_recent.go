package main

// recentList breaks what the client of EVM chains remembers of pools and of blocks.
var recentList = []mutant{
	{
		name: "evm recent: a block that was replaced counts", file: "dlt/evm/recent.go", pkg: "dlt/evm", test: "TestAWordOfThePool/a_block_was_replaced",
		old: "if n >= uint64(len(chain)) || chain[n].hash != w.since.hash {", new: "if n >= uint64(len(chain)) {",
	},
	{
		name: "evm recent: a word counts for ever", file: "dlt/evm/recent.go", pkg: "dlt/evm", test: "TestAWordOfThePool/a_list_leaves_it_out",
		old: "if w, ok := r.pool[h]; ok && now.Sub(w.at) < fresh {", new: "if w, ok := r.pool[h]; ok {",
	},
	{
		name: "evm recent: the block of the word is not looked at", file: "dlt/evm/recent.go", pkg: "dlt/evm", test: "TestThePoolShowsWhatTheLastBlockHas",
		old: "for _, l := range chain[:n+1] {", new: "for _, l := range chain[:n] {",
	},
	{
		name: "evm recent: a block without a list is an empty one", file: "dlt/evm/recent.go", pkg: "dlt/evm", test: "TestAWordOfThePool/a_block_has_no_list",
		old: "json.Unmarshal(b.txs, &hashes) != nil || hashes == nil {", new: "json.Unmarshal(b.txs, &hashes) != nil {",
	},
	{
		name: "evm recent: what is held back is remembered as waiting", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestWhatThePoolCannotMineIsAskedAboutEachTime",
		old: "!p.gapped(i) && !p.heldBack(i) {", new: "!p.gapped(i) {",
	},
	{
		name: "evm recent: what the node knew is new in its pool", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestAnAcceptanceIsAWordOfThePool",
		old: "if verdict.isNew && len(s.ours) == 1 {", new: "if len(s.ours) == 1 {",
	},
	{
		name: "evm recent: listed without a receipt is Pending", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestAWordOfThePool/listed,_and_no_receipt",
		old: "if p.seen[i] == inList {\n\t\t\tcontinue", new: "if p.seen[i] == inList && p.answered[i] {\n\t\t\tcontinue",
	},
	{
		name: "evm recent: blocks that were not read have nothing", file: "dlt/evm/recent.go", pkg: "dlt/evm", test: "TestAWordOfThePool/too_many_blocks_were_not_read",
		old: "if n >= uint64(len(chain)) || chain[n].hash != w.since.hash {\n\t\treturn unread", new: "if n >= uint64(len(chain)) {\n\t\treturn absent",
	},
}
