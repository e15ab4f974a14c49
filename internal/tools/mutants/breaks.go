package main

// breakage is a change, written by hand, that breaks a promise of docs/design.md. No mutation
// operator makes such a change: it changes several lines, or adds code.
type breakage struct {
	name     string // the promise in a word, and how it is broken
	file     string
	old, new string // old occurs once in the file
	test     test   // this test must fail
}

var promiseBreaks = []breakage{
	// Promise 1: durable.
	{
		name: "durable: a call is stored as far as it went", file: "store/memory/add.go", test: test{"store/memory", "^(TestStore)$/^(add)$/^(all_or_none)$", true},
		old: "\tfresh, err := s.notStored(entries, nil)\n\tif err != nil {\n\t\treturn err\n\t}\n\ts.insertAll(fresh)\n\treturn nil\n",
		new: "\tfor i := range entries {\n\t\tfresh, err := s.notStored(entries[i:i+1], nil)\n\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\ts.insertAll(fresh)\n\t}\n\treturn nil\n",
	},
	{
		name: "durable: a batch is left out as known, and it is stored nowhere", file: "store/sqlite/add.go", test: test{"store/sqlite", "^(TestStore)$/^(idempotency)$/^(a_key_in_a_call_that_is_stored_nowhere_hides_no_batch)$", true},
		old: "\tb.Seq, b.At = last+1, nextKey(b.Service)\n",
		new: "\tif b.Twin {\n\t\t_, err := t.compareKnown(ctx, b)\n\t\treturn 0, err\n\t}\n\tb.Seq, b.At = last+1, nextKey(b.Service)\n",
	},
	{
		name: "durable: what was rolled back is posted from memory", file: "store/sqlite/add.go", test: test{"store/sqlite", "^(TestNothingGivenUpIsClaimed)$/^(an_Add_with_a_conflict)$", true},
		old: "\treturn 1, t.addTransactions(ctx, b)",
		new: "\tt.fresh.Put(b.Seq, b.At, b.Batch)\n\treturn 1, t.addTransactions(ctx, b)",
	},
	{
		name: "durable: a ledger refuses a list, and takes its rest", file: "dlt/memory/ledger.go", test: test{"dlt/memory", "^(TestConformance)$", true},
		old: "return faultError(dlt.ErrRejected, \"refused\")\n\t\t}",
		new: "return faultError(dlt.ErrRejected, \"refused\")\n\t\t}\n\t\tl.accept(a, faults[i], 0)",
	},
	// Promise 2: lane order.
	{
		name: "order: two batches of a lane leave at once", file: "queuer/strategy.go", test: test{"queuer", "^(TestSerial.*)$", true},
		old: "return []batch.Run{{0}}",
		new: "return []batch.Run{{0}, {len(lane.Batches) - 1}}",
	},
	{
		name: "order: what waits is chosen before what was attempted", file: "store/memory/claim.go", test: test{"store/memory", "^(TestStore)$/^(claim)$/^(no_more_is_shown_than_is_wanted)$", true},
		old: "show(l.attempted.first(l.attempted.len()))\n\tshow(l.queued.first(wanted(rows)))",
		new: "show(l.queued.first(wanted(rows)))\n\tshow(l.attempted.first(l.attempted.len()))",
	},
	{
		name: "order: what becomes visible late takes the time at which it is seen", file: "store/memory/tx.go", test: test{"store/memory", "^(TestStore)$/^((harness|late)$)$", true},
		old: "t.store.insertAt(e, e.created)",
		new: "t.store.insert(e, t.store.now())",
	},
	{
		name: "order: a run goes on behind the batch that failed", file: "internal/submit/submitter.go", test: test{".", "^(TestPipelinedStopsAtAFailure)$", true},
		old: "if err != nil {\n\t\t\ts.Return(r.Batches[i+known:])",
		new: "if err != nil && i == len(r.Batches)-1 {\n\t\t\ts.Return(r.Batches[i+known:])",
	},
	{
		name: "order: an Add reads the clock before others can see that it is under way", file: "store/postgres/queries.go", test: test{"internal/integration", "^(TestSlowAddersAreSeen)$/^(Add)$/^(native)$", true},
		old: "IN ROW EXCLUSIVE MODE; SELECT txid_current()",
		new: "IN ROW EXCLUSIVE MODE",
	},
	{
		name: "order: a position is believed that was sealed while the claim ran", file: "internal/position/claim.go", test: test{"internal/position", "^(TestModel)$/^(ids_two_claims$)$", true},
		old: "\tg := m.sealing\n\tswitch {\n\tcase g == nil:",
		new: "\tm.closeGeneration(now)\n\tg := m.sealing\n\tif g != nil {\n\t\tc.closedGeneration = g.id\n\t}\n\tswitch {\n\tcase g == nil:",
	},
	{
		name: "order: of batches of one moment some are not read", file: "store/postgres/queries.go", test: test{"internal/integration", "^(TestTiesBreakByID)$", true},
		old: "FETCH FIRST (u.n) ROWS WITH TIES",
		new: "FETCH FIRST (u.n) ROWS ONLY",
	},
	// Promise 3: at most once.
	{
		name: "once: a second attempt is another command to the ledger", file: "dlt/canton/command.go", test: test{"internal/crash", "^(TestKillOrders)$", true},
		old: "\tadd(\"commandId\", a.ID)\n",
		new: "\tadd(\"commandId\", a.ID)\n\tif a.Number > 1 {\n\t\tadd(\"commandId\", string(a.ID)+\"again\")\n\t}\n",
	},
	{
		name: "once: a server's failure proves that nothing was taken", file: "dlt/internal/wire/status.go", test: test{"dlt/internal/wire", "^(TestVerdictRefuses)$", true},
		old: "http.StatusRequestHeaderFieldsTooLarge:",
		new: "http.StatusRequestHeaderFieldsTooLarge, http.StatusServiceUnavailable:",
	},
	{
		name: "once: a doubt gets younger with each resend", file: "store/row.go", test: test{"store/memory", "^(TestStore)$/^(pending)$/^(ages_and_times_left)$", true},
		old: "\t\tr.Resends++\n",
		new: "\t\tr.Resends++\n\t\tr.DoubtSince = now\n",
	},
	{
		name: "once: a used nonce is taken for another's", file: "dlt/evm/submit.go", test: test{"dlt/evm", "^(TestScenarios)$/^(geth)$/^(SameBytesTwiceIsAccepted)$", true},
		old: "if known, err := s.isKnownToNode(ctx); err != nil || known {",
		new: "if known, err := false, error(nil); err != nil || known {",
	},
	{
		name: "once: alternatives pay different amounts", file: "dlt/evm/alternatives.go", test: test{"dlt/evm", "^(TestAlternativesRefusesBadTransactions)$", true},
		old: `{"value", tx.Value.String(), first.Value.String()}`,
		new: `{"value", "", ""}`,
	},
	{
		name: "once: what closes a nonce decides in a block that is not deep", file: "dlt/evm/withdrawn.go", test: test{"dlt/evm", "^(TestAMinedTransactionDecidesAWithdrawal)$", true},
		old: "return batch.Status{Reported: batch.ReportedPending, Message: text}, true, ok && answered",
		new: "return batch.Status{Reported: batch.ReportedVoid, Message: text}, true, ok && answered",
	},
	{
		name: "once: what closes a nonce is counted as the batch's own", file: "dlt/evm/withdrawn.go", test: test{"dlt/evm", "^(TestAnIntentIsWithdrawn)$", true},
		old: "if e.closingGas == 0 && !seen[e.hash] {",
		new: "if !seen[e.hash] {",
	},
	// Promise 4: claims.
	{
		name: "claims: what may have been claimed is posted although the answer was lost", file: "internal/claim/claim.go", test: test{"internal/flaky", "^(TestOneCallInTenFails)$", true},
		old: "\t\tc.putBack(claimed.Runs)\n\t\treturn 0, fmt.Errorf(\"claim: %w\", err)",
		new: "\t\tc.putBack(claimed.Runs)\n\t\t_, _ = c.handOver(ctx, claimed, until)\n\t\treturn 0, fmt.Errorf(\"claim: %w\", err)",
	},
	{
		name: "claims: they expire on the worker's clock", file: "store/postgres/claim.go", test: test{"internal/integration", "^(TestClaimsExpireOnTheDatabasesClock)$", true},
		old: "\t\tnow := sqlstore.FromMicro(us)\n",
		new: "\t\tnow := sqlstore.FromMicro(us * 0).Add(time.Duration(time.Now().UnixMicro()) * time.Microsecond)\n",
	},
	{
		name: "claims: two of one batch have one version", file: "internal/claim/claim.go", test: test{"internal/claim", "^(TestWhatMayBeClaimedIsPutBack)$", true},
		old: "c.wantedBatches, rand.Uint32()",
		new: "c.wantedBatches, rand.Uint32()&0",
	},
	// Promise 5: fencing.
	{
		name: "fencing: an answer is written over what another has leased since", file: "store/sqlite/queries.go", test: test{"store/sqlite", "^(TestKnownRowLeasedAgain)$/^(is_valid)$", true},
		old: "= advance + ofOne + ` AND ` + isKnown",
		new: "= advance + ofOne + ` AND version = ? AND ? IS NOT NULL AND receipts = 0`",
	},
	{
		name: "fencing: an end is written over what another has leased since", file: "store/sqlite/queries.go", test: test{"store/sqlite", "^(TestKnownRowLeasedAgain)$/^(is_committed)$", true},
		old: "= finish + ofOne + ` AND ` + isKnown",
		new: "= finish + ofOne + ` AND version = ? AND ? IS NOT NULL AND receipts = 0`",
	},
	{
		name: "fencing: a person decides about an attempt that the person has not seen", file: "store/memory/operate.go", test: test{".", "^(TestADecisionIsAboutTheAttemptThatWasSeen)$", true},
		old: "if err := store.Unmoved(seen, e.record()); err != nil {",
		new: "if err := store.Unmoved(seen, e.record()); err != nil && act.Action != batch.ActionDecide {",
	},
	{
		name: "fencing: a person releases a halt that the person has not seen", file: "internal/sqlstore/controls.go", test: test{"store/sqlite", "^(TestStore)$/^(fence)$/^(a_halt_that_nobody_saw_is_not_released)$", true},
		old: "if next, act, changed, err = st.Apply(was, FromMicro(now));",
		new: "st.Seen = was.Version\n\t\tif next, act, changed, err = st.Apply(was, FromMicro(now));",
	},
	// Promise 6: nothing lost.
	{
		name: "nothing lost: a commit that waited for a claim's end is dropped", file: "internal/inhand/entry.go", test: test{"internal/inhand", "^(TestACommitThatIsHeldBack)$", true},
		old: "\te.startWrite(out)\n\tearly, streamed := e.takeUnwritten()\n",
		new: "\te.startWrite(out)\n\tearly, streamed := store.Outcome{}, false\n\tif e.Phase != Committing {\n\t\tearly, streamed = e.takeUnwritten()\n\t}\n",
	},
	{
		name: "nothing lost: what was claimed and not posted is not put back", file: "internal/submit/submitter.go", test: test{"internal/submit", "^(Test.*)$", true},
		old: "\tfor _, r := range queue {\n\t\ts.releasePayloads(r)\n\t\ts.Return(r.Batches)\n\t}\n",
		new: "\t_ = queue\n",
	},
	{
		name: "nothing lost: one half of a spoilt batch's orders ends with it", file: "batch/autobatch/decide.go", test: test{"batch/autobatch", "^(TestHalving)$", true},
		old: "State: order.Queued, Group: group + half}\n",
		new: "State: order.Queued, Group: group + half}\n\t\tif half == \"1\" {\n\t\t\tout[i].State, out[i].Group = order.Failed, \"\"\n\t\t}\n",
	},
	{
		name: "nothing lost: orders past their deadline wait for ever", file: "batch/autobatch/engine.go", test: test{"batch/autobatch", "^(TestDeadline)$", true},
		old: "e.settler.settleLoop, e.settler.expireLoop,",
		new: "e.settler.settleLoop,",
	},
	{
		name: "nothing lost: a refusal ends the attempts of a withdrawn batch", file: "store/outcome.go", test: test{"store", "^(TestRefusalOfWithdrawn)$", false},
		old: "r.Refused = r.Refused || o.Last && !r.Withdrawn",
		new: "r.Refused = r.Refused || o.Last",
	},
	// Promise 7: fair.
	{
		name: "fair: a lane that a claim did not reach is forgotten", file: "internal/sqlstore/claim.go", test: test{"store/sqlite", "^(TestStore)$/^(claim)$", true},
		old: "\t\tservice, _ := w.Wants()\n\t\tout.Left = append(out.Left, service)\n",
		new: "\t\t_ = w\n",
	},
	{
		name: "fair: a deep lane goes before those that were left out", file: "internal/claim/claim.go", test: test{"internal/claim", "^(TestADeepLaneTakesTurns)$", true},
		old: "\tvar cut []batch.ServiceID\n",
		new: "\tvar cut []batch.ServiceID\n\tfor _, r := range claimed.Runs {\n\t\tc.lanes.Rest(r.Service, now.Add(-time.Hour))\n\t\tc.lanes.Name(now.Add(-time.Hour), r.Service)\n\t}\n",
	},
	{
		name: "fair: lanes with work wait while scans fail", file: "internal/claim/scan.go", test: test{"internal/claim", "^(TestNamedLanesGoOnWhileScansFail)$", true},
		old: "\t\tp.dueAt = now.Add(max(p.pause.NextBackOff(), share))\n",
		new: "\t\tp.dueAt = now.Add(max(p.pause.NextBackOff(), share))\n\t\ttime.Sleep(time.Until(p.dueAt))\n",
	},
	{
		name: "fair: claims wait for a scan", file: "internal/claim/queuer.go", test: test{"internal/claim", "^(TestNamedLanesGoOnWhileAScanLasts)$", true},
		old: "\t\t\tq.scan.begin(ctx)\n",
		new: "\t\t\tq.scan.begin(ctx)\n\t\t\tq.scan.end(ctx, <-q.scan.ended)\n",
	},
	{
		name: "fair: one lane's \"not yet\" pauses all lanes", file: "internal/submit/gates.go", test: test{".", "^(TestNotYetHoldsItsLaneOnly)$", true},
		old: "case \"\", batch.KindRejected, batch.KindNotYet:\n\t\tres = resultTaken\n\tcase batch.KindBusy, batch.KindUnavailable:",
		new: "case \"\", batch.KindRejected:\n\t\tres = resultTaken\n\tcase batch.KindBusy, batch.KindUnavailable, batch.KindNotYet:",
	},
	// Promise 8, short transactions, has no breakage, because no call of a store leaves a
	// transaction open. Promise 9: cost.
	{
		name: "cost: each Add writes the row of its lane", file: "store/postgres/add.go", test: test{"internal/integration", "^(TestOpenAddTxHoldsUpNoClaim)$/^(native)$", true},
		old: "func (t *session) add(ctx context.Context, in []addition, fresh bool) error {\n",
		new: "func (t *session) add(ctx context.Context, in []addition, fresh bool) error {\n\tif _, err := t.Exec(ctx, `INSERT INTO {services} (service_id) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING`, textArray(len(in), func(i int) string { return string(in[i].Service) })); err != nil {\n\t\treturn err\n\t}\n",
	},
	{
		name: "cost: Prune reads all that it has removed", file: "internal/position/removed.go", test: test{"internal/integration", "^(TestCallsUnderAHeldSnapshot)$", true},
		old: "\t}\n\treturn o.lastRemovedTime\n",
		new: "\t}\n\treturn math.MinInt64\n",
	},
	// Promise 10: honest statuses.
	{
		name: "honest: answers of Splinter are matched by place", file: "dlt/splinter/statusdecode.go", test: test{"dlt/splinter", "^(TestStatus.*)$", true},
		old: "\treturn d.answers, errors.Join(err, d.firstErr)\n",
		new: "\tfor i := range d.answers {\n\t\td.answers[i].ID = ids[i]\n\t}\n\treturn d.answers, errors.Join(err, d.firstErr)\n",
	},
	{
		name: "honest: a word that nobody knows is Pending", file: "dlt/splinter/statusdecode.go", test: test{"dlt/splinter", "^(TestStatus.*)$", true},
		old: "\t\td.keepError(fmt.Errorf(\"unknown status %s of batch %s\", wire.QuoteWord(e.status), e.id))\n\t\treturn\n",
		new: "\t\ta.Reported = batch.ReportedPending\n\t\t_ = fmt.Sprint(wire.QuoteWord(e.id))\n",
	},
	{
		name: "honest: answers are matched by place", file: "internal/ask/ledger.go", test: test{"internal/ask", "^(Test.*)$", true},
		old: "byID[statuses[i].ID] = &statuses[i]",
		new: "byID[g.rows[min(i, len(g.rows)-1)].Row.Key.ID] = &statuses[i]",
	},
	{
		name: "honest: what a participant has lost is still reported", file: "dlt/canton/status.go", test: test{"dlt/canton", "^(TestAfterAParticipantWasPutBack)$", true},
		old: "\t\tfor _, q := range questions {\n\t\t\tc.traces.forget(q.key)\n\t\t}\n",
		new: "",
	},
	{
		name: "honest: a block that was not read shows that nothing happened", file: "dlt/evm/recent.go", test: test{"dlt/evm", "^(TestMemoryOfThePoolEndsNothing)$/^(too_many_blocks_were_not_read)$", true},
		old: "if n >= uint64(len(chain)) || chain[n].hash != w.head.hash {\n\t\treturn sightingUnread",
		new: "if n >= uint64(len(chain)) {\n\t\treturn sightingAbsent",
	},
}
