package main

// preparedList breaks the rules of prepared bytes: they grow by appending, are kept before they are
// sent, and end with a void about these very bytes. It breaks a stalled batch's resend, too.
var preparedList = []mutant{
	{
		name: "prepared: bytes replace others", file: "store/prepared.go", pkg: "store/memory", test: "TestStore/prepared/grows,_and_never_changes",
		old: "\tcase !bytes.Equal(r.Prepared, p.Was):\n\t\treturn r, false\n", new: "",
	},
	{
		name: "prepared: they are kept by nobody's claim", file: "store/prepared.go", pkg: "store", test: "TestKeepPrepared",
		old: "r.State != batch.Submitting || r.Version != p.Version", new: "r.State != batch.Submitting",
	},
	{
		name: "prepared: a lost answer fences the caller for ever", file: "store/prepared.go", pkg: "store", test: "TestKeepPrepared",
		old: "\tcase bytes.Equal(r.Prepared, p.Bytes):\n\t\treturn r, true\n", new: "",
	},
	{
		name: "prepared: what was kept is dropped", file: "store/prepared.go", pkg: "store", test: "TestWhatIsKeptOnlyGrows",
		old: "!bytes.HasPrefix(p.Bytes, p.Was)", new: "false",
	},
	{
		name: "prepared: it grows in memory only", file: "internal/sqlstore/monitored.go", pkg: "store/sqlite", test: "TestStore/prepared/grows,_and_never_changes",
		old: "len(r.Now.Prepared) != had && !", new: "had == 0 && !",
	},
	{
		name: "prepared: nothing is renewed", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsKeptGrows",
		old: "(c.Prepared == nil || t.Renews)", new: "c.Prepared == nil",
	},
	{
		name: "given up: a person's word ends the doubt of kept bytes", file: "store/operate.go", pkg: "store", test: "TestAPersonsWordAboutKeptBytes",
		old: "if !r.sameBytesForEver() {", new: "if true {",
	},
	{
		name: "given up: a person's word ends the doubt of kept bytes, and the budget the batch", file: "store/operate.go", pkg: "dlt/evm", test: "TestAWrongNotCommittedPaysOnce",
		old: "if !r.sameBytesForEver() {", new: "if true {",
	},
	{
		name: "given up: it is requeued", file: "store/operate.go", pkg: "dlt/evm", test: "TestAGivenUpIntentIsNotRequeued",
		old: "r.Error.Kind == batch.KindGivenUp {", new: "r.Error.Kind == batch.KindExhausted {",
	},
	{
		name: "given up: so is what has a limit", file: "store/asof.go", pkg: "store", test: "TestAPersonsWordAboutKeptBytes",
		old: "r.ResendUntil.Sub(r.DoubtSince) > atLeast", new: "r.ResendUntil.After(r.DoubtSince)",
	},
	{
		name: "prepared: a claim has no time for both requests", file: "gate.go", pkg: ".", test: "TestAClaimHasTimeForBothRequests",
		old: "traits.Prepares && traits.Renews && o.ClaimTTL <= least", new: "traits.Prepares && traits.Renews && o.ClaimTTL < least",
	},
	{
		name: "prepared: a client's other bytes are posted", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsKeptGrows",
		old: "case !bytes.HasPrefix(kept, c.Prepared):", new: "case false:",
	},
	{
		name: "prepared: the store does not hear what the claim saw", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsKeptGrows",
		old: "Version: c.Version, Was: c.Prepared, Bytes: kept}", new: "Version: c.Version, Bytes: kept}",
	},
	{
		name: "void: it is not fenced by the bytes", file: "store/outcome.go", pkg: "store", test: "TestVoid",
		old: "o.Finding == IsVoid && !bytes.Equal(o.Prepared, r.Prepared)", new: "o.Finding == IsVoid && bytes.Equal(nil, []byte{1})",
	},
	{
		name: "void: the bytes stay", file: "store/outcome.go", pkg: "store", test: "TestVoid",
		old: "\t\tr.Prepared = nil\n\t\tr.notCommitted(now, o)\n", new: "\t\tr.notCommitted(now, o)\n",
	},
	{
		name: "void: the bytes stay in the database", file: "internal/sqlstore/known.go", pkg: "store/sqlite", test: "TestStore/prepared/ends_when_it_is_void",
		old: "s.Was.Prepared != nil && s.Now.Prepared == nil && !s.Now.Final()", new: "false",
	},
	{
		name: "void: it is about what the row keeps by now", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideEverything$",
		old: "\t\tPrepared: d.f.Prepared,\n", new: "",
	},
	{
		name: "stalled: it costs a try", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideEverything$",
		old: "\tv.Outcome.Refund = f.Budget.EveryTry\n", new: "",
	},
	{
		name: "stalled: it is sent again at once", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideEverything$",
		old: "if early || f.State == batch.Invalid", new: "if early && f.State == batch.Invalid || f.State == batch.Invalid",
	},
	{
		name: "stalled: a refused batch is sent again", file: "monitor/decide.go", pkg: "monitor", test: "TestDecideEverything$",
		old: "f.State == batch.Invalid || !again.spendable() ||", new: "f.State == batch.Invalid || again.f.Attempt < 0 ||",
	},
}
