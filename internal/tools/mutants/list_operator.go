package main

// operatorList breaks the actions of operators and the effects of policies, where the
// conformance suite and the rules' own tests are known to catch it.
var operatorList = []mutant{
	{
		name: "operator: a claim does not heed a pause", file: "store/memory/claim.go", pkg: "store/memory", test: "TestStore/control/nothing_leaves_a_paused_lane",
		old: "len(rows) == 0 || s.closed(service)",
		new: "len(rows) == 0",
	},
	{
		name: "operator: a pause of everything holds those only that are paused alone", file: "store/memory/control.go", pkg: "store/memory", test: "TestStore/control/nothing_leaves_at_all",
		old: "s.controls[batch.Everything()].Closed() || s.controls",
		new: "s.controls",
	},
	{
		name: "operator: scans find paused lanes", file: "store/memory/lanes.go", pkg: "store/memory", test: "TestStore/control/paused_lanes_are_not_in_the_way_of_others",
		old: "return !s.closed(service)",
		new: "return true",
	},
	{
		name: "operator: nobody may do it", file: "batch/by.go", pkg: "store/memory", test: "TestStore/operate/nobody_is_no_operator",
		old: "if b.Actor == \"\" {",
		new: "if false {",
	},
	{
		name: "operator: a cancel is not in the history", file: "store/memory/operate.go", pkg: "store/memory", test: "TestStore/history/who_did_what_to_a_batch,_and_why",
		old: "\te.acts = store.KeepAct(e.acts, store.BatchAct(act, key, e.row, next, now))\n",
		new: "\tif act.Action != batch.ActionCancel {\n\t\te.acts = store.KeepAct(e.acts, store.BatchAct(act, key, e.row, next, now))\n\t}\n",
	},
	{
		name: "operator: a requeue to the end keeps its key", file: "store/memory/operate.go", pkg: "store/memory", test: "TestStore/place/at_the_end_is_behind_all_that_waits",
		old: "if act.AtEnd {",
		new: "if false {",
	},
	{
		name: "operator: at the end, and still ahead as one that was attempted", file: "store/row.go", pkg: "store/memory", test: "TestStore/place/at_the_end_is_behind_all_that_waits",
		old: "r.Attempt > 0 && !r.AtEnd",
		new: "r.Attempt > 0",
	},
	{
		name: "operator: at the end for ever", file: "store/row.go", pkg: "store/memory", test: "TestStore/place/once_it_is_claimed_it_is_an_attempted_batch",
		old: "\tr.AtEnd = false\n",
		new: "",
	},
	{
		name: "operator: a late outcome halts", file: "store/control.go", pkg: "store", test: "TestEnforce",
		old: "return a.Result == Written && a.Row.Final()",
		new: "return a.Row.Final()",
	},
	{
		name: "operator: an unsettled invalid halts", file: "store/control.go", pkg: "store/memory", test: "TestStore/policy/an_invalid_batch_halts_once_it_is_settled",
		old: "a.Result == Written && a.Row.Final() && ",
		new: "a.Result == Written && ",
	},
	{
		name: "operator: the Runner's policy wins over the lane's", file: "store/control.go", pkg: "store/memory", test: "TestStore/policy/what_is_set_for_the_lane_wins",
		old: "if c.Policy != batch.PolicyDefault {",
		new: "if by == batch.PolicyDefault {",
	},
	{
		name: "operator: a halt is not written", file: "store/memory/record.go", pkg: "store/memory", test: "TestStore/policy/a_lane_is_halted_until_it_is_released",
		old: "s.setControl(scope, control)",
		new: ";",
	},
	{
		name: "operator: a halt is written after the end, not with it", file: "store/memory/record.go", pkg: "store/memory", test: "TestStore/policy/no_claim_slips_between_an_end_and_its_halt",
		old:  "\t\t\ts.setControl(scope, control)\n\t\t\ts.put(e, a.Row)\n",
		new:  "\t\t\ts.put(e, a.Row)\n\t\t\ts.mu.Unlock()\n\t\t\t<-slow()\n\t\t\ts.mu.Lock()\n\t\t\ts.setControl(scope, control)\n",
		more: "func slow() <-chan struct{} {\n\tc, cancel := context.WithTimeout(context.Background(), 1e6)\n\t_ = cancel\n\treturn c.Done()\n}\n",
	},
	{
		name: "operator: retention removes what is in quarantine", file: "store/memory/entry.go", pkg: "store/memory", test: "TestStore/quarantine/it_is_kept_until_somebody_acts",
		old: "return r.Final() && !r.Quarantined",
		new: "return r.Final()",
	},
	{
		name: "operator: a requeue leaves the quarantine's mark", file: "store/operate.go", pkg: "store/memory", test: "TestStore/quarantine/a_requeue_ends_it",
		old: "r.Requeued, r.Quarantined = true, false",
		new: "r.Requeued = true",
	},
	{
		name: "operator: a late commit leaves the quarantine's mark", file: "store/outcome.go", pkg: "store/memory", test: "TestStore/quarantine/a_late_commit_ends_it",
		old: "r.AtEnd, r.Quarantined, r.ClaimedBy = false, false, \"\"",
		new: "r.AtEnd, r.ClaimedBy = false, \"\"",
	},
	{
		name: "operator: the first attempt is forgotten", file: "store/report.go", pkg: "store/memory", test: "TestStore/attempts/the_first_and_the_newest_are_kept",
		old: "slices.Delete(kept, 1, 1+over)",
		new: "slices.Delete(kept, 0, over)",
	},
	{
		name: "operator: a report of what was fenced", file: "store/report.go", pkg: "store", test: "TestReports",
		old: "a.Result != Written || a.From",
		new: "a.From",
	},
	{
		name: "operator: a password in an endpoint", file: "batch/report.go", pkg: "store/memory", test: "TestStore/attempts/texts_are_stored_clean_and_bounded",
		old: "strings.LastIndexByte(authority, '@'); i >= 0",
		new: "strings.LastIndexByte(authority, '@'); i < -1",
	},
	{
		name: "operator: whose claim it is is not kept", file: "store/lane.go", pkg: "store/memory", test: "TestStore/look/who_claimed_it",
		old: "r.Row.ClaimedBy = q.Instance",
		new: ";",
	},
	{
		name: "operator: the Runner's policy is not asked", file: "engine.go", pkg: ".", test: "TestHaltAndRelease",
		old: "	o.Policy = e.r.o.Policy\n",
		new: "",
	},
	{
		name: "operator: a service's budget is not counted", file: "store/claim.go", pkg: ".", test: "TestRetryPolicyOfAService",
		old: "		return q.Budget(s)\n",
		new: "		return own\n",
	},
	{
		name: "operator: a report of what simply worked", file: "submitter/report.go", pkg: ".", test: "TestNothingIsKeptOfWhatSimplyWorked",
		old: "if err == nil && c.Failures == 0 && !c.Doubt {",
		new: "if err == nil && c.Failures < 0 {",
	},
	{
		name: "operator: Explain does not see what is under way", file: "internal/explain/explain.go", pkg: ".", test: "TestExplainMovesWhateverStands",
		old: "		if !r.Row.State.Claimable() {\n			return r.Key",
		new: "		if r.Row.State.Claimable() {\n			return r.Key",
	},
	{
		name: "operator: Explain forgets a halt", file: "internal/explain/explain.go", pkg: ".", test: "TestExplainMovesWhateverStands",
		old: "case !x.l.Service.HaltedAt.IsZero():",
		new: "case false:",
	},
	{
		name: "operator: a claim of a hinted lane does not see its pause", file: "store/memory/claim.go", pkg: "internal/sim", test: "TestDecisions",
		old: "if len(rows) == 0 || s.closed(service) {",
		new: "if len(rows) == 0 {",
	},
	{
		name: "operator: a halt is not written with the end", file: "store/control.go", pkg: "internal/sim", test: "TestDecisions",
		old: "if c.HaltedAt.IsZero() { // else",
		new: "if false { // else",
	},
	{
		name: "operator: a batch in doubt is cancelled", file: "store/operate.go", pkg: "internal/sim", test: "TestDecisions", args: sim("1000"),
		old: "case r.State == batch.Submitting || r.DoubtAttempt != 0:",
		new: "case r.State == batch.Submitting:",
	},
}
