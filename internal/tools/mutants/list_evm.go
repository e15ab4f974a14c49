package main

// evmList breaks the conclusions of the client of EVM chains from a node's answers.
var evmList = []mutant{
	{
		name: "evm: a busy endpoint is kept", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "case batch.KindUnavailable, batch.KindBusy, batch.KindMisconfigured:", new: "case batch.KindUnavailable, batch.KindMisconfigured:",
	},
	{
		name: "evm: an endpoint that refuses this client is kept", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "case batch.KindUnavailable, batch.KindBusy, batch.KindMisconfigured:", new: "case batch.KindUnavailable, batch.KindBusy:",
	},
	{
		name: "evm: a node's word about a transaction moves submissions to another endpoint", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "return e.Code == 0 && e.Err != nil", new: "return true",
	},
	{
		name: "evm: a call that was stopped moves submissions to another endpoint", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "if errors.Is(ctx.Err(), context.Canceled) {", new: "if errors.Is(nil, context.Canceled) {",
	},
	{
		name: "evm: an endpoint that does not answer questions is asked first for ever", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "if isEndpoints(ctx, err) && !(more && ctx.Err() != nil) {", new: "if ctx.Err() == nil && isEndpoints(ctx, err) && !(more && ctx.Err() != nil) {",
	},
	{
		name: "evm: only an endpoint whose questions take all the time is left", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestQuestionsReachTheGoodEndpoint",
		old: "if isEndpoints(ctx, err) && !(more && ctx.Err() != nil) {", new: "if e.index == 0 && isEndpoints(ctx, err) && !(more && ctx.Err() != nil) {",
	},
	{
		name: "evm: the Retry-After of an endpoint that was left delays the next one", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "dlt.Kind(err) == batch.KindBusy {", new: "dlt.Kind(err) == batch.KindRejected {",
	},
	{
		name: "evm: a busy endpoint is asked before its Retry-After, since the other is busy, too", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestEndpointsThatWereLeft",
		old: "return max(asideBusy, e.RetryAfter)", new: "return max(asideBusy, min(e.RetryAfter, 0))",
	},
	{
		name: "evm: an endpoint that refuses this client takes every second request", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestEndpointsThatWereLeft",
		old: "\t\treturn asideRefused\n", new: "\t\treturn 0\n",
	},
	{
		name: "evm: a proxy's failure is the node's word", file: "dlt/evm/endpoint.go", pkg: "dlt/evm", test: "TestWhatIsTheEndpoints",
		old: "return e.StatusCode >= http.StatusInternalServerError", new: "return e.StatusCode > http.StatusNetworkAuthenticationRequired",
	},
	{
		name: "evm: any block is deep", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "case r != nil && !p.isDeep(r.block.number):", new: "case r != nil && r.block.number > p.head.number:",
	},
	{
		name: "evm: a receipt of another chain's block counts", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "case r != nil && !p.line.has(r.block):", new: "case r != nil && r.block.hash == evmtx.Hash{}:",
	},
	{
		name: "evm: mined without a receipt is no trace", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "!isZero(*doc.Block):\n\t\treturn inBlock, nil", new: "!isZero(*doc.Block):\n\t\treturn nowhere, nil",
	},
	{
		name: "evm: reverted is committed", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "case r != nil && r.reverted:", new: "case r != nil && r.reverted && r.gasUsed == 0:",
	},
	{
		name: "evm: a node that is behind takes back what was deep", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestANodeThatIsBehindTakesNothingBack",
		old: "v.settled = c.floor.see(v, false)", new: "_ = c.floor.see(v, false)",
	},
	{
		name: "evm: an orphan of a node that is behind is deep", file: "dlt/evm/view.go", pkg: "dlt/evm", test: "TestAnOrphanOfANodeThatIsBehindIsNotDeep",
		old: "return !v.none && number <= v.deep.number }", new: "return !v.none && number <= max(v.deep.number, v.settled) }",
	},
	{
		name: "evm: nonce too low is a refusal", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestResolve",
		old: "if err != nil || proof.by != byAnother {", new: "if err != nil {",
	},
	{
		name: "evm: nonce too low asks nobody for its own hash", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestPlays/geth/SameBytesTwiceIsAccepted",
		old: "if known, err := s.isKnown(ctx); err != nil || known {", new: "if known, err := false, error(nil); err != nil || known {",
	},
	{
		name: "evm: underpriced against oneself is not now", file: "dlt/evm/classify.go", pkg: "dlt/evm", test: "TestTextNotCode",
		old: "\"replacement transaction underpriced\", ", new: "",
	},
	{
		name: "evm: a resend's refusal is taken at its word", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestAResendThatIsRefused",
		old: "if s.a.Number == 1 {", new: "if s.a.Number > 0 {",
	},
	{
		name: "evm: any hash is an acceptance", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestTheHashIsCompared",
		old: "&& hash == string(s.a.ID):", new: "&& hash != \"\":",
	},
	{
		name: "evm: a proxy's 502 is certain", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestStatusesOfProxies",
		old: "case status == http.StatusTooManyRequests:\n\t\treturn classBusy", new: "case status == http.StatusTooManyRequests || status == http.StatusBadGateway:\n\t\treturn classBusy",
	},
	{
		name: "evm: behind a gap it is posted all the same", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestNothingIsPosted",
		old: "if s.tx.Nonce > count {", new: "if s.tx.Nonce > count+1000 {",
	},
	{
		name: "evm: another chain's block 0 goes unnoticed", file: "dlt/evm/view.go", pkg: "dlt/evm", test: "TestNothingIsPosted",
		old: "known != genesis.hash {", new: "known == (evmtx.Hash{}) {",
	},
	{
		name: "evm: a new connection is trusted", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestANewConnectionIsAskedFirst",
		old: "if !b.anyway && !b.old.Load() {", new: "if !b.anyway && !b.old.Load() && b.r == nil {",
	},
	{
		name: "evm: not deep, and proof all the same", file: "dlt/evm/resolve.go", pkg: "dlt/evm", test: "TestResolve",
		old: "count, err := f.countAt(ctx, v.deep.number)", new: "count, err := f.countAt(ctx, v.head.number)",
	},
	{
		name: "evm: a busy provider is a node without state", file: "dlt/evm/finder.go", pkg: "dlt/evm", test: "TestResolve",
		old: "if a.err != nil && classify(a.err) != classBusy {", new: "if a.err != nil {",
	},
	{
		name: "evm: ours in the block is another's", file: "dlt/evm/finder.go", pkg: "dlt/evm", test: "TestResolve",
		old: "return usage{by: byOurs, block: b}, true, nil", new: "return usage{by: byAnother, block: b, hash: tx.Hash}, true, nil",
	},
	{
		name: "evm: errors keep the address", file: "dlt/evm/rpc.go", pkg: "dlt/evm", test: "TestKeysNeverShow",
		old: "\t\tif !ok {\n\t\t\treturn &wire.ShownError", new: "\t\tif !ok || u != nil {\n\t\t\treturn &wire.ShownError",
	},
	{
		name: "evm: a stranger's copy with a high s is accepted", file: "dlt/evm/internal/evmtx/tx.go", pkg: "dlt/evm/internal/evmtx", test: "TestSenderRefuses",
		old: "if s.IsOverHalfOrder() {", new: "if s.IsOverHalfOrder() && r.IsZero() {",
	},
	{
		name: "evm: a number has two encodings", file: "dlt/evm/internal/evmtx/rlp.go", pkg: "dlt/evm/internal/evmtx", test: "TestDecodeRefuses",
		old: "case len(b) > 0 && b[0] == 0:", new: "case len(b) > 8 && b[0] == 0:",
	},
	{
		name: "evm: a head that is behind is news", file: "dlt/evm/heads.go", pkg: "dlt/evm", test: "TestEachNewBlockIsAnEvent",
		old: "case live || head > last ||", new: "case live || head != last ||",
	},
	{
		name: "evm: a new head is no news", file: "dlt/evm/heads.go", pkg: "dlt/evm", test: "TestEachNewBlockIsAnEvent",
		old: "case live || head > last ||", new: "case live || head > last+1000 ||",
	},
	{
		name: "evm: a remembered receipt needs no block", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestAReceiptIsAskedForOnce",
		old: "if r == nil || !p.old[i] {", new: "if r == nil || p.old[i] {",
	},
	{
		name: "evm: receipts are not remembered", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestAReceiptIsAskedForOnce",
		old: "c.mined.remember(r)", new: "_ = r",
	},
	{
		name: "evm: behind a gap in the pool it is under way", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestPlays/geth/LostAheadOfOthersIsSentAgain",
		old: "return err == nil && asked && nonce > next", new: "return err == nil && asked && nonce > next+1000",
	},
	{
		name: "evm: nobody hears that a node holds a transaction back", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestAPooledTransactionSaysWhatItPays",
		old: "return err == nil && asked && nonce == next", new: "return err == nil && asked && nonce == next+1000",
	},
	{
		name: "evm: a short array stays short for ever", file: "dlt/evm/arrays.go", pkg: "dlt/evm", test: "TestALimitOfArraysComesAndGoes",
		old: "a.most, a.changed = 2*a.most, now", new: "a.changed = now",
	},
	{
		name: "evm: a throttled array is halved", file: "dlt/evm/rpc.go", pkg: "dlt/evm", test: "TestAThrottledArrayIsNotHalved",
		old: "if saysBusy(err.Message) && !strings", new: "if false && !strings",
	},
	{
		name: "evm: a limit of arrays has status 200 or 413", file: "dlt/evm/rpc.go", pkg: "dlt/evm", test: "TestALimitOfArraysComesAndGoes",
		old: "case n > 1 && is != nil && mayBeAboutArray(s, is):", new: "case false && mayBeAboutArray(s, is):",
	},
	{
		name: "evm: a refused client is asked in shorter arrays", file: "dlt/evm/rpc.go", pkg: "dlt/evm", test: "TestARefusedClientIsNotAskedInShorterArrays",
		old: "return classify(err) != classMisconfigured && errors", new: "return errors",
	},
	{
		name: "evm: a gateway's words reject a batch", file: "dlt/evm/submit.go", pkg: "dlt/evm", test: "TestAGatewayRefusesTheClientAndNotTheBatch",
		old: " || proxy != classDoubt) {", new: ") {",
	},
	{
		name: "evm: the block of another's transaction need not be linked to the head", file: "dlt/evm/finder.go", pkg: "dlt/evm", test: "TestASiblingOfANodeThatIsBehind.*",
		old: "err = f.standsOn(ctx, v, u.block)", new: "err = nil",
	},
	{
		name: "evm: a block that is not remembered is linked", file: "dlt/evm/ancestry.go", pkg: "dlt/evm", test: "TestALineFollowsParents",
		old: "b.number != low-1 || b.hash != l.parent ||", new: "b.number != low-1 ||",
	},
	{
		name: "evm: a zero block is a block", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "case doc.Block != nil && !isZero(*doc.Block):", new: "case doc.Block != nil:",
	},
	{
		name: "evm: a transaction without a block's hash is in the pool", file: "dlt/evm/status.go", pkg: "dlt/evm", test: "TestStatusesOfOneView",
		old: "return ok && h == evmtx.Hash{}", new: "return !ok || h == evmtx.Hash{}",
	},
}
