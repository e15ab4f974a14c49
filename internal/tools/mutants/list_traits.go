package main

// traitsList is about retention, the traits of ledgers, and several ledgers on one store.
var traitsList = []mutant{
	{
		name: "retention: ids of streams are not counted", file: "store/prune.go", pkg: ".", test: "TestRetentionKeepsUp/100_ids.*",
		old: "max(p.Batches, p.Orders, p.StreamIDs, p.LaneActs)", new: "max(p.Batches, p.Orders, p.LaneActs)",
	},
	{
		name: "retention: orders make nothing of few batches", file: "store/prune.go", pkg: ".", test: "TestRetentionKeepsUp/1,500_orders.*",
		old: "return max(p.Batches, p.Orders, p.StreamIDs, p.LaneActs) >= q.Bounded().Limit", new: "return p.Batches+p.Orders == q.Bounded().Limit",
	},
	{
		name: "retention: acts on lanes are not counted", file: "store/memory/prune.go", pkg: "store/memory", test: "TestStore/prune",
		old: "LaneActs: s.pruneSteered(until, q.Limit), ", new: "LaneActs: 0 * s.pruneSteered(until, q.Limit), ",
	},
	{
		name: "retention: one service decides for all tombstones", file: "internal/sqlstore/prune.go", pkg: "store/sqlite", test: "TestStore/prune/services.*",
		old: "r.Tombstone(batch.ServiceID(b.ServiceID), ", new: `r.Tombstone(batch.ServiceID(""), `,
	},
	{
		name: "traits: what says more than it can is taken", file: "runner.go", pkg: ".", test: "TestNewRefusesALedgerThatCannotWhatItSays",
		old: "if err := dlt.CheckAbilities(l, traits); err != nil {", new: "if err := dlt.CheckAbilities(l, traits); err != nil && opts.Strategy == nil {",
	},
	{
		name: "traits: a wrapped ledger checks nothing", file: "dlt/wrap.go", pkg: "dlt", test: "TestWrapKeepsExactlyWhatIsThere",
		old: "has, c = has|checks, wrappedChecker{inner, h}", new: "c = wrappedChecker{inner, h}",
	},
	{
		name: "traits: what they deny is prepared", file: "submitter/prepare.go", pkg: "submitter", test: "TestWhatIsDeniedIsNotPrepared",
		old: "return t.Prepares && (", new: "return (",
	},
	{
		name: "abilities: a store without controls is to carry out a policy", file: "abilities.go", pkg: ".", test: "TestNewRefusesAStoreThatCannot",
		old: "case o.Policy != batch.PolicyContinue && !is[store.Controls](s):", new: "case o.Policy != batch.PolicyContinue && s == nil:",
	},
	{
		name: "abilities: the bytes of a route are prepared and not kept", file: "gate.go", pkg: ".", test: "TestAServiceThatTheStoreCannotServeIsHeld",
		old: "if err := checkNeeds(st, traits); err != nil {", new: "if err := checkNeeds(st, traits); err != nil && st == nil {",
	},
	{
		name: "abilities: who waits for a batch that is not stored waits for ever", file: "abilities.go", pkg: ".", test: "TestTheCoreDelivers",
		old: "missing = append(missing, key)", new: "missing = append(missing[:0:0], missing...)",
	},
	{
		name: "abilities: a store that is not whole loses all it has", file: "internal/whole/whole.go", pkg: "store/storetest", test: "TestPartial/about_lanes/control",
		old: "if has, ok := s.(T); ok {", new: "if has, ok := s.(T); ok && s == nil {",
	},
	{
		name: "checks: AddTx checks nothing", file: "addtx.go", pkg: ".", test: "TestAddTxStoresNothingThatTheLocalCheckRefuses",
		old: "if err := r.checkAll(batches); err != nil {", new: "if err := r.checkAll(nil); err != nil {",
	},
	{
		name: "checks: a built batch is not checked", file: "batch/autobatch/batching.go", pkg: "batch/autobatch", test: "TestABatchThatFailsItsCheckIsNotStored",
		old: "return e.o.Check(b) }); err != nil {", new: "return e.o.Check(b) }); err != nil && b.ID == \"\" {",
	},
	{
		name: "routes: one service decides for all tombstones", file: "retention.go", pkg: ".", test: "TestTombstonesGoByService",
		old: "!traits.AddAgainHarmless", new: `!r.ledger.Traits("").AddAgainHarmless`,
	},
	{
		name: "routes: another ledger's batches leave no tombstones", file: "retention.go", pkg: ".", test: "TestRetentionOfAnotherLedgersBatches",
		old: "return otherLedger(ledger, traits.Name) != nil || !traits", new: "return !traits",
	},
	{
		name: "routes: the store does not say whose batches it removes", file: "internal/sqlstore/prune.go", pkg: "store/sqlite", test: "TestStore/prune/a_tombstone_may.*",
		old: "known[b.ServiceID]) {", new: "known[\"\"]) {",
	},
	{
		name: "routes: another ledger that cannot serve a service is asked about its batches", file: "gate.go", pkg: ".", test: "TestAnotherLedgerThatCannotServeIsNotAsked",
		old: "if t.Name != \"\" {\n			ask", new: "if t.Name != \"\" && err == nil {\n			ask",
	},
	{
		name: "routes: another ledger prepares", file: "engine.go", pkg: ".", test: "TestAnotherLedgerPreparesNothing",
		old: "preparer = gatedPreparer{watchedPreparer{p, e.vitals}, e.gate}", new: "preparer = watchedPreparer{p, e.vitals}",
	},
	{
		name: "routes: a requeue goes by another ledger's quiet time", file: "operate.go", pkg: ".", test: "TestRequeueWhereAnotherLedgerServes",
		old: "cmp.Or(err, unserved)", new: "func() error { _ = unserved; return cmp.Or(err) }()",
	},
	{
		name: "routes: what is held is claimed", file: "gate.go", pkg: ".", test: "TestAServiceThatCannotBeServedIsHeld",
		old: "return s.gate.held(l) != nil })", new: "return false })",
	},
	{
		name: "routes: another ledger is asked", file: "gate.go", pkg: ".", test: "TestAnotherLedgersBatchIsNotAskedAbout",
		old: "return errors.Is(g.held(s), ErrOtherLedger) }", new: "return errors.Is(g.held(s), ErrDrain) }",
	},
	{
		name: "routes: a known service goes elsewhere", file: "store/served.go", pkg: "store/memory", test: "TestStore/ledger/what_was_attempted.*",
		old: "if attempted && databases != \"\" {", new: "if attempted && wanted == \"\" {",
	},
	{
		name: "routes: what was attempted is looked for where it means nothing", file: "internal/sqlstore/served.go", pkg: "store/sqlite", test: "TestStore/ledger",
		old: "return want.Ledger != database", new: "return want.Ledger == database",
	},
	{
		name: "routes: who was faster is not read", file: "internal/sqlstore/served.go", pkg: "store/sqlite", test: "TestStore/ledger",
		old: "if err != nil || int(did) == len(services) {", new: "if err != nil || did >= 0 {",
	},
	{
		name: "routes: who serves is forgotten", file: "gate.go", pkg: ".", test: "TestRoutesOfAnOlderDatabase",
		old: "if recorded == \"\" || recorded == wanted {", new: "if recorded != wanted || recorded == wanted {",
	},
	{
		name: "routes: a full one stops the others", file: "submitter/submitter.go", pkg: ".", test: "TestARouteThatIsDownHoldsUpNoOther",
		old: ` && !s.ledger.Traits("").Routed {`, new: " {",
	},
	{
		name: "routes: statuses are asked of the first", file: "dlt/router.go", pkg: "dlt/memory", test: "TestConformanceOfARouter",
		old: "if l := r.route(service); l != nil && !slices", new: "if l := r.route(service); l != nil || !slices",
	},
	{
		name: "routes: live before all are", file: "dlt/router.go", pkg: "dlt", test: "TestRoutesAreLiveTogether",
		old: "case !is:\n\t\t\t\t\treturn nil\n", new: "case !is:\n",
	},
	{
		name: "routes: other traits replace those recorded, and nobody is told", file: "relied.go", pkg: ".", test: "TestTraitsAreRecordedByRoute",
		old: "\t\tg.differ(fmt.Errorf(", new: "\t\t_ = error(fmt.Errorf(",
	},
	{
		name: "routes: other traits are told and not recorded", file: "relied.go", pkg: ".", test: "TestTraitsAreRecordedByRoute",
		old: "\t\twant, seen = next, there\n", new: "\t\t_ = next\n\t\treturn nil\n",
	},
	{
		name: "routes: traits of one service are those of all", file: "relied.go", pkg: ".", test: "TestTraitsThatDifferByServiceAreComparedByService",
		old: "\t\tmine = its\n", new: "\t\t_ = its\n",
	},
}
