package main

// ordersList breaks auto-batching, and the part of Canton's client that serves it.
var ordersList = []mutant{
	{
		name: "orders: released on doubt, the budget being used up", file: "monitor/decide.go", pkg: "dlt/canton/cantontest", test: "TestNothingIsReleasedInDoubt",
		old: "if d.r.AssumeNotCommitted {", new: "if d.r.AssumeNotCommitted || d.f.Budget.Exhausted(d.f.Spent) {",
	},
	{
		name: "orders: released on doubt, refused while an earlier attempt is open", file: "store/outcome.go", pkg: "dlt/canton/cantontest", test: "TestNothingIsReleasedInDoubt",
		old: "\tif r.DoubtAttempt != 0 {\n\t\to.Last = true\n\t\tr.doubt(now, o)\n\t\treturn\n", new: "\tif r.DoubtAttempt > 1<<30 {\n\t\to.Last = true\n\t\tr.doubt(now, o)\n\t\treturn\n",
	},
	{
		name: "orders: a second batch for a busy party", file: "store/memory/batching.go", pkg: "store/memory", test: "TestOrders/prepare/once_for_a_party",
		old: "if o == nil || o.party.batch != nil {", new: "if o == nil {",
	},
	{
		name: "orders: a second batch for a busy party (SQLite)", file: "internal/sqlstore/orders.go", pkg: "store/sqlite", test: "TestOrders/prepare/once_for_a_party",
		old: "if free == 0 {\n\t\t\treturn ErrFenced", new: "if free < 0 {\n\t\t\treturn ErrFenced",
	},
	{
		name: "orders: a second batch for a busy party (PostgreSQL)", file: "internal/sqlstore/orders.go", pkg: "internal/integration", test: "TestOrders/native$/prepare/once_for_a_party",
		old: "if free == 0 {\n\t\t\treturn ErrFenced", new: "if free < 0 {\n\t\t\treturn ErrFenced",
	},
	{
		name: "orders: attempts spent after the call", file: "store/lane.go", pkg: "batch/autobatch", test: "TestSimulation",
		old: "\t\t\t\tr.Row.Spent++ // before", new: "\t\t\t\t// before",
	},
	{
		name: "orders: attempts spent after the call, under kill -9", file: "store/lane.go", pkg: "internal/crash", test: "TestKillOrders",
		old: "\t\t\t\tr.Row.Spent++ // before", new: "\t\t\t\t// before",
	},
	{
		name: "orders: a new command id for each attempt", file: "dlt/canton/command.go", pkg: "dlt/canton", test: "TestDeduplication",
		old: `add("commandId", a.ID)`, new: `add("commandId", submissionID(a.ID, a.Number))`,
	},
	{
		name: "orders: a new command id for each attempt but the first, under kill -9", file: "dlt/canton/command.go", pkg: "internal/crash", test: "TestKillOrders",
		old: "\tadd(\"commandId\", a.ID)\n", new: "\tadd(\"commandId\", a.ID)\n\tif a.Number > 1 {\n\t\tadd(\"commandId\", string(a.ID)+\"again\")\n\t}\n",
	},
	{
		name: "orders: dequeued without a batch", file: "store/memory/batching.go", pkg: "batch/autobatch", test: "TestDeathAtEveryStep",
		old: "\ts.insertAll(fresh)\n\te := fresh[0]\n", new: "\te := fresh[0]\n",
	},
	{
		name: "orders: batch and orders in two transactions, under kill -9", file: "internal/sqlstore/orders.go", pkg: "internal/crash", test: "TestKillOrders", args: []string{"-crash.orders=4"},
		old: "\treturn done(s.d.Adding(ctx, op, func(ctx context.Context, t Tx) error {\n\t\tn, err := t.Add(ctx, b)\n\t\tif errors.Is(err, batch.ErrEnded) {\n\t\t\terr = store.PrepareEnded(b.Key(), err)\n\t\t}\n" +
			"\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n" +
			"\t\tif n == 0 { // it is known\n\t\t\treturn prepared(ctx, t, b, refs)\n\t\t}\n",
		new: "\tvar n int64\n\tif err := s.d.Adding(ctx, op, func(ctx context.Context, t Tx) (err error) {\n\t\tif n, err = t.Add(ctx, b); err == nil && n == 0 {\n" +
			"\t\t\terr = prepared(ctx, t, b, refs)\n\t\t}\n\t\treturn err\n\t}); err != nil || n == 0 {\n\t\treturn err == nil, err\n\t}\n" +
			"\treturn done(s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {\n",
	},
	{
		name: "orders: halving drops one side", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestHalving",
		old: "State: batch.OrderQueued, Group: group + half}\n", new: "State: batch.OrderQueued, Group: group + half}\n\t\tif half == \"1\" {\n\t\t\tout[i].State, out[i].Group = batch.OrderFailed, \"\"\n\t\t}\n",
	},
	{
		name: "orders: quarantined by inference, on a participant", file: "batch/autobatch/decide.go", pkg: "dlt/canton/cantontest", test: "TestPoisonous",
		old: "if len(b.Orders) == 1 {\n\t\t\treturn all(batch.OrderQuarantined", new: "if len(b.Orders) <= 2 {\n\t\t\treturn all(batch.OrderQuarantined",
	},
	{
		name: "orders: a refusal that names nobody spoils them all", file: "batch/autobatch/decide.go", pkg: "internal/crash", test: "TestKillOrders",
		old: "if len(b.Orders) == 1 {\n\t\t\treturn all(batch.OrderQuarantined", new: "if len(b.Orders) >= 1 {\n\t\t\treturn all(batch.OrderQuarantined",
	},
	{
		name: "orders: split on misconfiguration, at the door", file: "dlt/canton/classify.go", pkg: "dlt/canton/cantontest", test: "TestMisconfigurationNeverSplits",
		old: "\tcase setup:\n\t\treturn dlt.ErrMisconfigured\n", new: "\tcase setup:\n\t\treturn dlt.ErrRejected\n",
	},
	{
		name: "orders: sent again past the deduplication period", file: "dlt/canton/client.go", pkg: "dlt/canton/cantontest", test: "TestDowntime",
		old: "ResendHarmlessFor: c.DeduplicationPeriod,", new: "ResendHarmlessFor: dlt.Forever,",
	},
	{
		name: "canton: the completion of any attempt is evidence", file: "dlt/canton/resolve.go", pkg: "dlt/canton", test: "TestEvidenceOfALaterAttempt",
		old: "q.last.attempt >= d.Number", new: "q.last.attempt > 0",
	},
	{
		name: "canton: a completion that is not clear is evidence", file: "dlt/canton/resolve.go", pkg: "dlt/canton", test: "TestEvidenceOfALaterAttempt",
		old: " && q.last.certain:", new: ":",
	},
	{
		name: "canton: evidence of completions that were not all read", file: "dlt/canton/resolve.go", pkg: "dlt/canton", test: "TestEvidence",
		old: "case !complete || q.bounded || q.lost:", new: "case !complete:",
	},
	{
		name: "what one client prepared is kept for its neighbour", file: "internal/keeper/keeper.go", pkg: "internal/keeper", test: "TestWhatHasMovedOn",
		old: "answer{err == nil && did[i], err}", new: "answer{err == nil && did[i/len(group)], err}",
	},
	{
		name: "what was told while an acceptance was written is forgotten", file: "internal/inhand/entry.go", pkg: "monitor", test: "TestAnEventWhileTheAcceptanceIsWritten",
		old: "missed := !f.Heard.Before(e.Began) || ", new: "missed := ",
	},
}
