package main

const evmDir = "dlt/evm"

// intentList breaks the rules by which an EVM intent is executed once.
var intentList = []mutant{
	{
		name: "intents: a nonce above what is not deep", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestIntentPlays/geth/NonceAboveUnfinalForeign",
		old: "if deep != latest || deep != pending {", new: "if deep = pending; latest > pending {",
	},
	{
		name: "intents: nonce too low is no doubt", file: evmDir + "/submit.go", pkg: evmDir, test: "TestIntentPlays/geth/UsedNonceIsDoubt",
		old: "if s.voids { // the", new: "if false { // the",
	},
	{
		name: "intents: void by a block that is not deep", file: evmDir + "/view.go", pkg: evmDir, test: "TestVoidOnlyOnProof",
		old: "v.deep.number = v.head.number - f.blocks // its", new: "v.deep.number = v.head.number // its",
	},
	{
		name: "intents: void without a trace", file: evmDir + "/slotstatus.go", pkg: evmDir, test: "TestVoidOnlyOnProof",
		old: "case proof.by == byAnother:", new: "case proof.by == byAnother || st.Reported == batch.ReportedUnknown:",
	},
	{
		name: "intents: void by an earlier transaction of its own", file: evmDir + "/finder.go", pkg: evmDir, test: "TestIntentPlays/geth/VoidKnowsItsOwn",
		old: "slices.Contains(f.ours, hash)", new: "slices.Contains(f.ours[len(f.ours):], hash)",
	},
	{
		name: "intents: only the last transaction is looked for", file: evmDir + "/status.go", pkg: evmDir, test: "TestIntentPlays/geth/ReplacedButOldOneMined",
		old: "st, ok := p.together(first, len(one.hashes))", new: "st, ok := p.together(first+len(one.hashes)-1, 1)",
	},
	{
		name: "intents: a replacement raises one fee", file: evmDir + "/slot.go", pkg: evmDir, test: "TestIntentPlays/geth/BumpBothFees",
		old: "return Fee{Tip: raised(f.Tip), FeeCap: raised(f.FeeCap)}", new: "return Fee{Tip: f.Tip, FeeCap: raised(f.FeeCap)}",
	},
	{
		name: "intents: what is mined is replaced", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestIntentPlays/geth/IntentNonceTooLowNeverRenonces",
		old: "if latest > s.nonce || !s", new: "if latest > s.nonce+1000 || !s",
	},
	{
		name: "intents: fees above the limit", file: evmDir + "/fees.go", pkg: evmDir, test: "TestIntentPlays/geth/LimitOfFeesNeedsADecision",
		old: "out.FeeCap = smallest(out.FeeCap, limit)", new: "_ = limit",
	},
	{
		name: "intents: another account's signature", file: evmDir + "/signer.go", pkg: evmDir, test: "TestSignerThatFails",
		old: "if sender != account {", new: "if false {",
	},
	{
		name: "intents: a panic of the signer", file: evmDir + "/signer.go", pkg: evmDir, test: "TestSignerThatFails/panics",
		old: "if p := recover(); p != nil {", new: "if p := any(nil); p != nil {",
	},
	{
		name: "intents: a signer that hangs holds up the claim", file: evmDir + "/signer.go", pkg: evmDir, test: "TestASignerThatHangsHoldsUpNobody",
		old: "case <-ctx.Done():\n\t\treturn entry{}, fmt", new: "case <-make(chan struct{}):\n\t\treturn entry{}, fmt",
	},
	{
		name: "intents: another payload's bytes go out", file: evmDir + "/slot.go", pkg: evmDir, test: "TestOnlyWhatIsKeptIsPosted",
		old: "hash != e.hash {", new: "hash != e.hash && in.gas == 1 {",
	},
	{
		name: "intents: unknown fields", file: evmDir + "/intent.go", pkg: evmDir, test: "TestIntentsAreStrict",
		old: "if !slices.Contains(intentFields, name) {", new: "if !slices.Contains(intentFields, strings.ToLower(name)) && name == \"\" {",
	},
	{
		name: "intents: a field twice", file: evmDir + "/intent.go", pkg: evmDir, test: "TestIntentsAreStrict",
		old: "if _, twice := fields[name]; twice {", new: "if _, twice := fields[name]; twice && name == \"\" {",
	},
	{
		name: "intents: equal intents share a transaction", file: evmDir + "/signer.go", pkg: evmDir, test: "TestIntentPlays/geth/EqualIntentsAreTwoPayments",
		old: "fee = p.salt.fee(", new: "_ = p.salt.fee(",
	},
	{
		name: "intents: equal intents share a transaction where nothing is paid", file: evmDir + "/salt.go", pkg: evmDir, test: "TestSaltStaysWithinLimits",
		old: "return top - s.forGas%min(width, top-estimate+1)", new: "return top",
	},
	{
		name: "intents: the salt makes a replacement too cheap", file: evmDir + "/salt.go", pkg: evmDir, test: "TestSaltLeavesReplacementsAlone",
		old: "floor = largest(floor, least.FeeCap)", new: "_ = least",
	},
	{
		name: "intents: the salt lowers the price", file: evmDir + "/salt.go", pkg: evmDir, test: "TestSaltStaysWithinLimits",
		old: "room := new(big.Int).Sub(f.FeeCap, floor)", new: "room := new(big.Int).Lsh(f.FeeCap, 8)",
	},
	{
		name: "intents: more gas than a block has", file: evmDir + "/salt.go", pkg: evmDir, test: "TestGasStaysBelowTheBlocksLimit",
		old: "top = min(top, most)", new: "_ = most",
	},
	{
		name: "intents: an estimate that hangs closes the endpoint", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestAQuestionTooMuchHoldsUpOneBatch",
		old: "if dlt.Kind(err) == batch.KindDoubt { // it has", new: "if false { // it has",
	},
	{
		name: "intents: old state that a node lacks closes the endpoint", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestAQuestionTooMuchHoldsUpOneBatch",
		old: "if errors.Is(err, errNoState) { // it answers", new: "if false { // it answers",
	},
	{
		name: "intents: what nodes have forgotten waits for a signer", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestIntentPlays/geth/NoHigherFeesForWhatIsForgotten",
		old: "case err != nil && forgotten:", new: "case err != nil && false:",
	},
	{
		name: "intents: a refusal of the signer is not heard", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestIntentPlays/geth/NoHigherFeesForWhatIsForgotten",
		old: "case err != nil && forgotten:", new: "case err != nil:",
	},
	{
		name: "intents: a node with hardly any blocks is believed", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestANodeWithHardlyAnyBlocksIsBehind",
		old: "settled > 0 && (v.none || v.deep.number < settled)", new: "!v.none && v.deep.number < settled",
	},
	{
		name: "intents: void by a block without its transactions", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "if doc.Transactions == nil {", new: "if false {",
	},
	{
		name: "intents: void by a block that does not show by whom", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof|TestIntentPlays/geth/BlocksWithoutTheirLists",
		old: "if !f.authorized(a) {", new: "if false {",
	},
	{
		name: "intents: void by another account's authorization", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "err == nil && signer == f.sender {", new: "err == nil && signer != (evmtx.Address{}) {",
	},
	{
		name: "intents: void by an authorization for another chain", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "chain.Uint64() != 0 && chain.Uint64() != f.chain {", new: "chain.Uint64() == f.chain+2 {",
	},
	{
		name: "intents: void by its own transaction in other letters", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "if ok && slices.Contains(f.ours, hash) {", new: "if ok && hash.String() == tx.Hash && slices.Contains(f.ours, hash) {",
	},
	{
		name: "intents: one batch's kept bytes close the endpoint", file: evmDir + "/submit.go", pkg: evmDir, test: "TestKeptBytesThatNobodyReadsHoldUpOneLane",
		old: "Kind: dlt.ErrNotYet, Message: c.show(fmt.Sprintf(\"batch %s", new: "Kind: dlt.ErrMisconfigured, Message: c.show(fmt.Sprintf(\"batch %s",
	},
	{
		name: "intents: each that is stuck is asked about by itself", file: evmDir + "/slotstatus.go", pkg: evmDir, test: "TestStuckIntentsDelayNobody",
		old: "case next > o.slot.nonce:", new: "case next >= o.slot.nonce:",
	},
	{
		name: "intents: searches take the time of the others", file: evmDir + "/slotstatus.go", pkg: evmDir, test: "TestASearchDelaysNobody",
		old: "time.Since(begun) > time.Until(end) {", new: "time.Since(begun) > time.Until(end)+time.Hour {",
	},
	{
		name: "intents: replacements without end", file: evmDir + "/slot.go", pkg: evmDir, test: "TestSlotIsBounded",
		old: "len(s.entries) < maxEntries && ", new: "",
	},
	{
		name: "intents: a service signs something else", file: evmDir + "/web3signer.go", pkg: evmDir, test: "TestWeb3SignerThatFails",
		old: "string(got) != string(tx.Bytes) {", new: "string(got) != string(tx.Bytes) && len(got) == 0 {",
	},
	{
		name: "intents: a service's errors show its credentials", file: evmDir + "/web3signer.go", pkg: evmDir, test: "TestWeb3SignerThatFails",
		old: "batch.Excerpt(w.secrets.Hide(text[:min(len(text), 64<<10)]), maxText)", new: "batch.Excerpt(text[:min(len(text), 64<<10)], maxText)",
	},
	{
		name: "intents: a service's signature under any status", file: evmDir + "/web3signer.go", pkg: evmDir, test: "TestWeb3SignerThatFails",
		old: "if err == nil && status != http.StatusOK {", new: "if err == nil && status == 0 {",
	},
	{
		name: "intents: a process that ended before it kept anything leaves the batch for ever", file: evmDir + "/slotstatus.go", pkg: evmDir, test: "TestIntentPlays/geth/CrashAtEveryStep",
		old: "out = append(out, batch.Status{ID: a.ID, Reported: batch.ReportedVoid, Message: errUnposted.Error()})", new: "_ = errUnposted",
	},
	{
		name: "intents: a node without the state of that time leaves it to a person", file: evmDir + "/search.go", pkg: evmDir, test: "TestVoidWithoutState",
		old: "if free == unknownHeight {\n\t\treturn 0, false, nil", new: "if free != unknownHeight {\n\t\treturn 0, false, nil",
	},
	{
		name: "intents: a missing block ends the search for who used a nonce", file: evmDir + "/search.go", pkg: evmDir, test: "TestASearchPassesOverMissingBlocks",
		old: "if !a.isNull() {\n\t\t\t\tu, found", new: "if len(answers) > 0 {\n\t\t\t\tu, found",
	},
	{
		name: "intents: missing blocks are never looked at again", file: evmDir + "/search.go", pkg: evmDir, test: "TestASearchPassesOverMissingBlocks",
		old: "r.height, r.gaps = 0, false", new: "r.gaps = false",
	},
	{
		name: "intents: the search for who used a nonce begins anew", file: evmDir + "/search.go", pkg: evmDir, test: "TestVoidWithoutState",
		old: "return max(height, s.by[searchedFor{a, nonce}].height)", new: "return height",
	},
	{
		name: "intents: a wait that never ends is over at once", file: evmDir + "/slot.go", pkg: evmDir, test: "TestStalledAfterSoManyBlocks",
		old: "waited := head.number >= last.height && head.number-last.height >= after // a", new: "waited := head.number >= last.height+after // a",
	},
	{
		name: "intents: a node that is behind makes a transaction stalled", file: evmDir + "/slot.go", pkg: evmDir, test: "TestStalledAfterSoManyBlocks",
		old: "waited := head.number >= last.height && head", new: "waited := head",
	},
	{
		name: "intents: Fees takes away the salt", file: evmDir + "/signer.go", pkg: evmDir, test: "TestFeesMayChangeTheNumbersOfTheMarket",
		old: "c.o.Fees(ctx, m.own())", new: "c.o.Fees(ctx, m)",
	},
	{
		name: "intents: void by a deposit that uses no nonce", file: evmDir + "/finder.go", pkg: evmDir, test: "TestADepositUsesNoNonce",
		old: "if !usesNonce(tx.Type) {", new: "if false {",
	},
	{
		name: "intents: void by a transaction of a type that nobody knows", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "(n <= lastNonceType || n == depositType)", new: "n != 0x64",
	},
	{
		name: "intents: a deposit of Optimism is no proof", file: evmDir + "/finder.go", pkg: evmDir, test: "TestOnlyAWholeBlockIsAProof",
		old: "n <= lastNonceType || n == depositType", new: "n <= lastNonceType || n == depositType+1",
	},
	{
		name: "intents: fees rise though nothing is in a pool", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestFeesStayWhileNothingIsInAPool",
		old: "if forgotten && !p.asksMore(ctx, s) {", new: "if false {",
	},
	{
		name: "intents: a pool's lowest price stands for ever", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestWhenFeesRise",
		old: "return fee.Tip.Cmp(last.Tip) > 0 || least", new: "return least",
	},
	{
		name: "intents: the salt is a higher market", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestTheSaltIsNoHigherMarket",
		old: "least := new(big.Int).Sub(fee.FeeCap, new(big.Int).Rsh(fee.FeeCap, feeShare))", new: "least := new(big.Int).Set(fee.FeeCap)",
	},
	{
		name: "intents: a provider's limit is a pool that has the transaction", file: evmDir + "/prepare.go", pkg: evmDir, test: "TestWhenFeesRise",
		old: "if a.err != nil && classify(a.err) == classBusy { // it does", new: "if false { // it does",
	},
	{
		name: "intents: a proxy's list of methods hides who used a nonce", file: evmDir + "/finder.go", pkg: evmDir, test: "TestAProxyThatListsNoSuchMethod",
		old: "return 0, false, ctx.Err() // a proxy", new: "return 0, false, err // a proxy",
	},
}
