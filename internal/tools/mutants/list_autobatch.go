package main

// autobatchList is the ways of breaking the engine of orders that its own tests are
// known to catch (docs/design.md#auto-batching).
var autobatchList = []mutant{
	{
		name: "orders: an order that is added again after retention stands", file: "batch/autobatch/batching.go", pkg: "batch/autobatch", test: "TestOrdersAddedAgainAfterRetention",
		old: "conflict && rounds {", new: "conflict && !rounds {",
	},
	{
		name: "orders: an order that is added again after retention twice stands", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestOrdersAddedAgainAfterRetention",
		old: "n += o.Created.UnixMicro()", new: "n += min(1, o.Created.UnixMicro())",
	},
	{
		name: "orders: an urgent one waits for company", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestUrgent",
		old: "if l.Urgent || l.Split ||", new: "if l.Split ||",
	},
	{
		name: "orders: bytes do not flush", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestFlushByBytes",
		old: "(o.MaxBytes > 0 && l.Bytes >= o.MaxBytes)", new: "(o.MaxBytes < 0 && l.Bytes >= o.MaxBytes)",
	},
	{
		name: "orders: count does not flush", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestFlush",
		old: "l.Orders >= o.MaxSize ||", new: "l.Orders > o.MaxSize ||",
	},
	{
		name: "orders: age does not flush", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestFlush",
		old: "return o.FlushAge - l.Oldest", new: "return o.FlushAge",
	},
	{
		name: "orders: a deadline that passed fails nobody", file: "batch/autobatch/engine.go", pkg: "batch/autobatch", test: "TestDeadline",
		old: "e.settler.settling, e.settler.expiring}", new: "e.settler.settling}",
	},
	{
		name: "orders: what is past its deadline is sent all the same", file: "store/memory/batching.go", pkg: "store/memory", test: "TestOrders",
		old: "if o := p.queue.at(i); !o.row.Expired(now, o.Deadline) {", new: "if o := p.queue.at(i); o.row.Group == \"\" {",
	},
	{
		name: "orders: switched off, the loops run", file: "batch/autobatch/engine.go", pkg: "batch/autobatch", test: "TestDisabled",
		old: "if e.o.Disabled {\n\t\t<-ctx.Done()", new: "if e.o.Disabled && ctx.Err() != nil {\n\t\t<-ctx.Done()",
	},
	{
		name: "orders: switched off, they are taken", file: "batch/autobatch/engine.go", pkg: "batch/autobatch", test: "TestDisabled",
		old: "if e.o.Disabled {\n\t\treturn ErrDisabled", new: "if e.o.Disabled && len(orders) == 0 {\n\t\treturn ErrDisabled",
	},
	{
		name: "orders: without its variable the switch is on", file: "batch/autobatch/env.go", pkg: "batch/autobatch", test: "TestFromEnv",
		old: "o.Disabled = true", new: "o.Disabled = false",
	},
	{
		name: "orders: released on doubt", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestSettle",
		old: "case !rec.DoubtSince.IsZero():", new: "case !rec.DoubtSince.IsZero() && rec.State == batch.Invalid:",
	},
	{
		name: "orders: quarantined by inference", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestHalving",
		old: "if len(b.Orders) == 1 {", new: "if len(b.Orders) <= 2 {",
	},
	{
		name: "orders: a split on misconfiguration", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestSettle",
		old: "(rec.Error.Kind == batch.KindRejected || rec.Error.Kind == batch.KindInvalid))",
		new: "(rec.Error.Kind == batch.KindRejected || rec.Error.Kind == batch.KindMisconfigured || rec.Error.Kind == batch.KindInvalid))",
	},
	{
		name: "orders: halving forgets the later half", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestHalving|TestSettle",
		old: "\treturn out\n}\n\n// refuse says", new: "\treturn out[:(len(out)+1)/2]\n}\n\n// refuse says",
	},
	{
		name: "orders: the next batch of the same orders has the id of the one before", file: "batch/autobatch/batching.go", pkg: "batch/autobatch", test: "TestDeathAtEveryStep",
		old: "b, err = r.BuildRound(ctx, party, plain, round)", new: "b, err = r.BuildRound(ctx, party, plain, 0)",
	},
	{
		name: "orders: a batch has no budget", file: "batch/autobatch/batching.go", pkg: "batch/autobatch", test: "TestSimulation/seed=[1-9]$",
		old: "b.Budget = e.o.budget()", new: "b.Budget = batch.Budget{Attempts: e.o.budget().Attempts}",
	},
	{
		name: "orders: a clock that steps back delays them", file: "batch/autobatch/decide.go", pkg: "batch/autobatch", test: "TestOrdersAfterTheClockStepsBack",
		old: "if l.Oldest < -keysAhead {", new: "if false {",
	},
	{
		name: "orders: an Await hears nothing of an order that expires", file: "batch/autobatch/settling.go", pkg: "batch/autobatch", test: "TestAwaitOfWhatExpires",
		old: "			t.settled(expired)\n", new: "",
	},
	{
		name: "orders: a panic in Wake loses an event", file: "batch/autobatch/batching.go", pkg: "batch/autobatch", test: "TestAPanicInWakeLosesNoEvent",
		old: "defer e.o.Wake(party)", new: "e.o.Wake(party)",
	},
}
