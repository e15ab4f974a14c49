package main

// tracesList breaks the way of a trace context, from the caller of Add to the spans.
var tracesList = []mutant{
	{
		name: "traces: SQLite does not write the context", file: "store/sqlite/add.go", pkg: "store/sqlite", test: "TestStore/add/the_trace_context_comes_with_the_batch",
		old: "if b.TraceParent != \"\" && t.texts.Traced() {", new: "if b.TraceParent == \"?\" && t.texts.Traced() {",
	},
	{
		name: "traces: PostgreSQL does not write the context", file: "store/postgres/insert.go", pkg: "internal/integration", test: "TestStore/native$/add/the_trace_context_comes_with_the_batch",
		old: "return t.s.texts.Traced() && slices", new: "return !t.s.texts.Traced() && slices",
	},
	{
		name: "traces: PostgreSQL writes a text for no context", file: "store/postgres/queries.go", pkg: "internal/integration", test: "TestStore/native$/add/the_trace_context_comes_with_the_batch",
		old: "nullif(u.trace_parent, '')", new: "u.trace_parent",
	},
	{
		name: "traces: memory forgets the context", file: "store/memory/add.go", pkg: "store/memory", test: "TestStore/add/the_trace_context_comes_with_the_batch",
		old: ", traceParent: strings.Clone(b.TraceParent),", new: ", traceParent: strings.Clone(\"\"),",
	},
	{
		name: "traces: a claim by another process loses the context (SQLite)", file: "store/sqlite/windows.go", pkg: "store/sqlite", test: "TestStore/add/the_trace_context_comes_with_the_batch",
		old: "\t\tr.BatchCols, r.size = c.BatchCols, c.size\n", new: "\t\tr.BatchCols, r.size = c.BatchCols, c.size\n\t\tr.TraceParent = \"\"\n",
	},
	{
		name: "traces: a claim by another process loses the context (PostgreSQL)", file: "store/postgres/claim.go", pkg: "internal/integration", test: "TestStore/native$/add/the_trace_context_comes_with_the_batch",
		old: "r.footprint, r.size, r.TraceParent = s.footprint, s.size, s.TraceParent", new: "r.footprint, r.size = s.footprint, s.size",
	},
	{
		name: "traces: a claim of what this process has added loses the context (SQLite)", file: "store/sqlite/windows.go", pkg: "store/sqlite", test: "TestStore/add/order_within_a_call_and_across_calls",
		old: "\t\tr.TraceParent, r.size = b.TraceParent, b.Size\n", new: "\t\tr.size = b.Size\n",
	},
	{
		name: "traces: an attempted batch has no context", file: "internal/sqlstore/row.go", pkg: "store/sqlite", test: "TestStore/add/the_trace_context_comes_with_the_batch",
		old: "TraceParent: c.TraceParent, Created:", new: "Created:",
	},
	{
		name: "traces: a database without the column is asked for it", file: "store/sqlite/migrate.go", pkg: "store/sqlite", test: "TestTraceUpgradeUnderLoad",
		old: "s.texts.Has(v >= traceVersion, v", new: "s.texts.Has(v > 0, v",
	},
	{
		name: "traces: a running process does not see the column", file: "store/sqlite/migrate.go", pkg: "store/sqlite", test: "TestTraceUpgradeUnderLoad",
		old: "if v >= endsVersion {", new: "if v > 0 {",
	},
	{
		name: "traces: PostgreSQL asks for a column that is not there", file: "store/postgres/positions.go", pkg: "internal/integration", test: "TestTraceUpgradeUnderLoad",
		old: "s.texts.Has(version >= traceVersion, ", new: "s.texts.Has(true, ",
	},
	{
		name: "traces: a bad context refuses the batch", file: "trace.go", pkg: ".", test: "TestTraceContextsOfABatch",
		old: "want = r.validTrace(own)", new: "want = own",
	},
	{
		name: "traces: what is dropped is not counted", file: "trace.go", pkg: ".", test: "TestTraceContextsOfABatch",
		old: "\tr.droppedTraces.Add(1)\n\treturn \"\"\n", new: "\treturn \"\"\n",
	},
	{
		name: "traces: the caller's slice is changed", file: "trace.go", pkg: ".", test: "TestTraceContextsOfABatch",
		old: "out, mine = slices.Clone(batches), true", new: "out, mine = slices.Clip(batches), true",
	},
	{
		name: "traces: ids of zeros are ids", file: "batch/traceparent.go", pkg: "batch", test: "TestValidTraceParent",
		old: "\treturn false\n}\n\nfunc isHex", new: "\treturn true\n}\n\nfunc isHex",
	},
	{
		name: "traces: a parent that was not sampled is", file: "otelbatch/traces.go", pkg: "otelbatch", test: "TestSamplingIsTheParents",
		old: " || !trace.TraceFlags(flags).IsSampled()", new: "",
	},
	{
		name: "traces: a span is a root of its own", file: "otelbatch/traces.go", pkg: "otelbatch", test: "TestSpansOfABatch",
		old: "ctx := trace.ContextWithRemoteSpanContext(nowhere, caller)", new: "ctx := nowhere",
	},
	{
		name: "traces: a span has no link", file: "otelbatch/traces.go", pkg: "otelbatch", test: "TestSpansAfterACrash",
		old: ", trace.WithLinks(trace.Link{SpanContext: caller})", new: "",
	},
	{
		name: "traces: the outcome that another instance finds has no context", file: "notify.go", pkg: "otelbatch", test: "TestSpansAfterACrash",
		old: "\t\tTraceParent: w.Applied.TraceParent,\n", new: "",
	},
	{
		name: "traces: an attempt ends when it is written", file: "otelbatch/traces.go", pkg: "otelbatch", test: "TestSpansOfABatch",
		old: "end := e.At.Add(-e.SinceAnswered)", new: "end := e.At",
	},
	{
		name: "traces: a span names the lane", file: "otelbatch/traces.go", pkg: "otelbatch", test: "TestSpansOfEvents",
		old: "attribute.String(\"dltbatch.result\", result)", new: "attribute.String(\"dltbatch.result\", result), attribute.String(\"dltbatch.service\", string(e.Key.Service))",
	},
	{
		name: "traces: the query that finds an outcome is as long as its write", file: "notify.go", pkg: "otelbatch", test: "TestSpansOfABatch",
		old: "time.Since(w.Query.Answered)", new: "0",
	},
	{
		name: "traces: nobody knows how long the query took", file: "monitor/ledger.go", pkg: "otelbatch", test: "TestSpansOfABatch",
		old: "store.Query{Took: end.Sub(start), Answered: end}", new: "store.Query{Took: start.Sub(start), Answered: end}",
	},
	{
		name: "traces: a list's request has a link to its first batch only", file: "otelbatch/requests.go", pkg: "otelbatch", test: "TestSpanOfAList",
		old: "trace.WithLinks(links...)", new: "trace.WithLinks(links[0])",
	},
	{
		name: "traces: a ledger gets the header unasked", file: "otelbatch/requests.go", pkg: "otelbatch", test: "TestSpanOfAList",
		old: "\t_, end := t.request(traceParents)\n\treturn ctx, end\n", new: "\treturn t.SendRequest(ctx, traceParents)\n",
	},
	{
		name: "traces: a list sends the context of its first batch", file: "otelbatch/requests.go", pkg: "otelbatch", test: "TestAListSendsTheContextOfItsRequest",
		old: "return TraceParent(ctx), func", new: "_ = ctx\n\treturn traceParents[0], func",
	},
	{
		name: "traces: a TraceRequest that panics is not contained", file: "trace.go", pkg: ".", test: "TestTraceRequest",
		old: "if err := loop.Contain(func() error { call(); return nil }); err != nil {", new: "call()\n\tif err := error(nil); err != nil {",
	},
	{
		name: "traces: Splinter's client sends no header", file: "dlt/splinter/exchange.go", pkg: "dlt/splinter", test: "TestSubmitOnTheWire",
		old: "\twire.SendTraceParent(req.Context(), req.Header)\n", new: "",
	},
	{
		name: "traces: Canton's client sends no header", file: "dlt/canton/exchange.go", pkg: "dlt/canton", test: "TestTraceParentIsSent",
		old: "\twire.SendTraceParent(req.Context(), req.Header)\n", new: "",
	},
	{
		name: "traces: EVM's client sends no header", file: "dlt/evm/rpc.go", pkg: "dlt/evm", test: "TestTraceParentIsSent",
		old: "\twire.SendTraceParent(ctx, req.Header)\n", new: "",
	},
	{
		name: "traces: SQLite does not write the context of an order", file: "store/sqlite/orders.go", pkg: "store/sqlite", test: "TestOrders/add/the_trace_context_comes_with_the_order",
		old: "if o.TraceParent != \"\" && t.texts.TracedOrders() {", new: "if o.TraceParent == \"?\" && t.texts.TracedOrders() {",
	},
	{
		name: "traces: PostgreSQL writes a text for no context of an order", file: "store/postgres/orderqueries.go", pkg: "internal/integration", test: "TestOrders/native$/add/the_trace_context_comes_with_the_order",
		old: "nullif(u.trace_parent, '')", new: "u.trace_parent",
	},
	{
		name: "traces: a batch to settle has no contexts of its orders", file: "internal/sqlstore/order.go", pkg: "store/sqlite", test: "TestOrders/add/the_trace_context_comes_with_the_order",
		old: "TraceParent: c.traceParent, Created: FromMicro(c.createdAt)}", new: "Created: FromMicro(c.createdAt)}",
	},
	{
		name: "traces: a database without the column of orders is asked for it", file: "store/sqlite/migrate.go", pkg: "store/sqlite", test: "TestTraceUpgradeUnderLoad",
		old: "v >= traceVersion, v >= orderTraceVersion, v", new: "v >= traceVersion, v >= traceVersion, v",
	},
	{
		name: "traces: an order's span has no link to its batch", file: "otelbatch/orders.go", pkg: "otelbatch", test: "TestSpansOfOrders",
		old: "link(nil, e.TraceParent)", new: "link(nil, \"\")",
	},
	{
		name: "traces: a settled order knows no context of its batch", file: "batch/autobatch/settling.go", pkg: "otelbatch", test: "TestSpansOfOrders",
		old: ", TraceParent: s.TraceParent, Orders: s.Orders})", new: ", Orders: s.Orders})",
	},
	{
		name: "traces: a bad context refuses the order", file: "batch/autobatch/trace.go", pkg: "batch/autobatch", test: "TestTraceContextsOfOrders",
		old: "want = t.valid(own)", new: "want = own",
	},
	{
		name: "traces: a question from memory is no query", file: "monitor/memory.go", pkg: "otelbatch", test: "TestSpansInAnotherProcess",
		old: "found = append(found, said.outcome(*v.Outcome))", new: "found = append(found, *v.Outcome)",
	},
	{
		name: "traces: an order that expires has no span", file: "batch/autobatch/settling.go", pkg: "otelbatch", test: "TestSpanOfAnExpiredOrder",
		old: "Count: len(expired), Orders: expired}", new: "Count: len(expired)}",
	},
}
