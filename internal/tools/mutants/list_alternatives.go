package main

// alternativeList breaks the rules by which one of several signed transactions of a nonce is the payment.
var alternativeList = []mutant{
	{
		name: "alternatives: only the first is looked for", file: evmDir + "/status.go", pkg: evmDir, test: "TestAllAlternativesAreLookedFor",
		old: "one.hashes, one.slot = s.hashes(), s", new: "one.slot = s",
	},
	{
		name: "alternatives: evidence is about the first", file: evmDir + "/resolve.go", pkg: evmDir, test: "TestAllAlternativesAreLookedFor",
		old: "hashes: p.hashes}}, nil)", new: "hashes: p.hashes[:1]}}, nil)",
	},
	{
		name: "alternatives: a refusal asks for the one that was sent", file: evmDir + "/submit.go", pkg: evmDir, test: "TestAllAlternativesAreLookedFor",
		old: "ours: p.hashes}", new: "ours: p.hashes[at : at+1]}",
	},
	{
		name: "alternatives: one of them proves that another used the nonce", file: evmDir + "/resolve.go", pkg: evmDir, test: "TestWhoUsedTheNonceOfAlternatives",
		old: "unknownHeight, p.hashes)", new: "unknownHeight, p.hashes[:1])",
	},
	{
		name: "alternatives: what is kept for another payload is sent", file: evmDir + "/raise.go", pkg: evmDir, test: "TestAlternativesAreKeptFirst",
		old: "err == nil && !slices.Equal(s.hashes(), p.hashes)", new: "err == nil && len(s.entries) == 0",
	},
	{
		name: "alternatives: what is mined is raised", file: evmDir + "/raise.go", pkg: evmDir, test: "TestPrepareChoosesTheAlternative",
		old: "if latest > s.nonce || !s", new: "if latest > s.nonce+1000 || !s",
	},
	{
		name: "alternatives: they rise at once", file: evmDir + "/raise.go", pkg: evmDir, test: "TestPrepareChoosesTheAlternative",
		old: "|| !s.stalled(head, after) {", new: "|| !s.stalled(head, 0) {",
	},
	{
		name: "alternatives: a pool that has forgotten all gets a higher one", file: evmDir + "/raise.go", pkg: evmDir, test: "TestAlternativePlays/geth/PoolForgetsAlternatives",
		old: "if again, err = forgotten(); err != nil {", new: "if _, err = forgotten(); err != nil {",
	},
	{
		name: "alternatives: the dearest goes out", file: evmDir + "/slot.go", pkg: evmDir, test: "TestAlternativePlays/geth/AlternativesRise",
		old: "if s.entries[i].fee.pays(head) {", new: "if s.entries[i].fee.pays(head) && i+1 == len(s.entries) {",
	},
	{
		name: "alternatives: one that cannot be mined goes out", file: evmDir + "/raise.go", pkg: evmDir, test: "TestPrepareChoosesTheAlternative",
		old: "at, changes = s.above(s.turn()+1, head)", new: "at, changes = s.turn()+1, s.turn()+1 < len(s.entries)",
	},
	{
		name: "alternatives: nobody hears that a higher one helps", file: evmDir + "/status.go", pkg: evmDir, test: "TestAlternativePlays/geth/AlternativesRise",
		old: "case higher, latest < s.nonce", new: "case higher && latest > s.nonce, latest < s.nonce",
	},
	{
		name: "alternatives: one that is behind holds up the one before it", file: evmDir + "/status.go", pkg: evmDir, test: "TestAlternativePlays/geth/AlternativesRiseInALane",
		old: "case higher, latest < s.nonce && s.mayTurn():", new: "case higher:",
	},
	{
		name: "alternatives: resends leave no room to rise", file: evmDir + "/slot.go", pkg: evmDir, test: "TestPrepareChoosesTheAlternative",
		old: "len(s.turns)+MaxAlternatives < maxTurns", new: "len(s.turns) < maxTurns",
	},
	{
		name: "alternatives: one fee rises", file: evmDir + "/alternatives.go", pkg: evmDir, test: "TestAlternativesRefuse",
		old: "tx.Tip, before.Tip}} {", new: "tx.FeeCap, before.Tip}} {",
	},
	{
		name: "alternatives: they pay two amounts", file: evmDir + "/alternatives.go", pkg: evmDir, test: "TestAlternativesRefuse",
		old: "{\"value\", tx.Value.String(), first.Value.String()}", new: "{\"value\", \"\", \"\"}",
	},
	{
		name: "alternatives: of two accounts", file: evmDir + "/alternatives.go", pkg: evmDir, test: "TestAlternativesRefuse",
		old: "if p.senders[i] != p.sender {", new: "if p.senders[i] != p.senders[i] {",
	},
	{
		name: "alternatives: any number", file: evmDir + "/alternatives.go", pkg: evmDir, test: "TestAlternativesRefuse",
		old: "n < 2 || n > MaxAlternatives {", new: "n < 2 {",
	},
	{
		name: "alternatives: bytes behind the list", file: evmDir + "/internal/evmtx/strings.go", pkg: evmDir, test: "TestCheckOfAlternatives",
		old: "if len(rest) > 0 {", new: "if len(rest) > 1 {",
	},
	{
		name: "vanish: asked without what was prepared", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestACommitThatVanishesIsReportedOnce",
		old: "\t\te.Row.Prepared = o.Prepared\n", new: "",
	},
	{
		name: "vanish: the commit is joined without what was prepared", file: "internal/inhand/entry.go", pkg: "internal/inhand", test: "TestACommitNamesWhatWasPrepared",
		old: "\taccepted.Prepared = committed.Prepared\n", new: "",
	},
	{
		name: "prepared: the row as it was before the bytes were kept", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsKeptGrows",
		old: "\tc.Was = nil // the prepared bytes", new: "\t// the prepared bytes",
	},
}
