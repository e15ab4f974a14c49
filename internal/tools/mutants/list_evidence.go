package main

// evidenceList breaks the answers of Splinter's client about its batches after a crash of
// their node, and its requests to a node that is stalled.
var evidenceList = []mutant{
	{
		name: "splinter: any version of a family is good", file: "dlt/splinter/options.go", pkg: "dlt/splinter", test: "TestCheck",
		old: "(len(f.Versions) == 0 || slices.Contains(f.Versions, version))", new: "(true || slices.Contains(f.Versions, version))",
	},
	{
		name: "splinter: an innocent transaction's message is the cause", file: "dlt/splinter/statusdecode.go", pkg: "dlt/splinter", test: "TestStatusWords",
		old: "case r.Message != innocent && r.Message != \"\":", new: "case r.Message != \"\" && innocent != \"\":",
	},
	{
		name: "splinter: a page of receipts without it is all of them", file: "dlt/splinter/receipts.go", pkg: "dlt/splinter", test: "TestNoCursorShows",
		old: "q.missing = !full\n", new: "q.missing = true\n",
	},
	{
		name: "splinter: receipts of a store of another order", file: "dlt/splinter/receipts.go", pkg: "dlt/splinter", test: "TestReceiptsOfAnotherStore",
		old: "case id <= r.cursor:", new: "case id < \"\":",
	},
	{
		name: "splinter: receipts that broke off", file: "dlt/splinter/receipts.go", pkg: "dlt/splinter", test: "TestInquiryRefuses",
		old: "case !full && !r.ended:", new: "case false:",
	},
	{
		name: "splinter: a node that replays nothing has no receipts", file: "dlt/splinter/receipts.go", pkg: "dlt/splinter", test: "TestInquiryRefuses",
		old: "if q.missing && q.seen {", new: "if q.missing {",
	},
	{
		name: "splinter: missing receipts of a circuit of one", file: "dlt/splinter/circuit.go", pkg: "dlt/splinter", test: "TestReceiptsOfACircuitOfOne",
		old: "return others > 0, nil", new: "return true, nil",
	},
	{
		name: "splinter: missing receipts of an unknown circuit", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "absent || (k.receipts == receiptsMissing && k.agrees)", new: "absent || k.receipts == receiptsMissing",
	},
	{
		name: "splinter: the log goes on whatever the state is", file: "dlt/splinter/log.go", pkg: "dlt/splinter", test: "TestLogDoesNotGoOn",
		old: "if l.roots.known == l.after {", new: "if l.roots.known != \"\" {",
	},
	{
		name: "splinter: new batches do not wait for the log", file: "dlt/splinter/events.go", pkg: "dlt/splinter", test: "TestNewBatchesWaitForTheLog",
		old: "if err != nil && s.roots != nil {", new: "if false {",
	},
	{
		name: "splinter: new batches wait for a log that cannot go on", file: "dlt/splinter/hold.go", pkg: "dlt/splinter", test: "TestNothingWaitsInVain|TestMayGoOn",
		old: "found.Covered && found.Cursor != \"\" &&", new: "",
	},
	{
		name: "splinter: new batches wait for a log for ever", file: "dlt/splinter/hold.go", pkg: "dlt/splinter", test: "TestHold",
		old: "case now.Sub(of.answered) >= holdFor:", new: "case false:",
	},
	{
		name: "splinter: the log goes on for states that return", file: "dlt/splinter/events.go", pkg: "dlt/splinter", test: "TestLogOfAStateThatReturns",
		old: "if s.client.o.StateNeverReturns {", new: "if true {",
	},
	{
		name: "splinter: a root outlives the next event", file: "dlt/splinter/roots.go", pkg: "dlt/splinter", test: "TestRoots|TestLogOfARootBeforeTheLastEvent",
		old: "r.quiet, r.read, r.known = false, \"\", \"\"", new: "r.quiet, r.read = false, \"\"",
	},
	{
		name: "splinter: a root that nothing has settled", file: "dlt/splinter/roots.go", pkg: "dlt/splinter", test: "TestRoots",
		old: "r.read != \"\" && probe > r.probes", new: "r.read != \"\"",
	},
	{
		name: "splinter: a stalled service is asked on", file: "dlt/splinter/gate.go", pkg: "internal/sim", test: "TestStallOfAnotherCircuit",
		old: "p.rests = start.Add(stall)", new: "p.rests = start",
	},
	{
		name: "splinter: a node that hung up is left alone", file: "dlt/splinter/gate.go", pkg: "dlt/splinter", test: "TestWhoEndedASlowRequest",
		old: "now.Sub(start) < slow || !gaveUp {", new: "now.Sub(start) < slow {",
	},
	{
		name: "splinter: a POST on a connection that nobody serves", file: "dlt/splinter/submit.go", pkg: "dlt/splinter", test: "TestLookBeforeAPost",
		old: "if !c.gate(p.node).suspected(time.Now()) {", new: "if true {",
	},
	{
		name: "splinter: several requests about one service", file: "dlt/splinter/gate.go", pkg: "dlt/splinter", test: "TestOneRequestOfAService",
		old: "turn: make(chan struct{}, 1)", new: "turn: make(chan struct{}, 64)",
	},
	{
		name: "splinter: the stream of a lane in doubt is closed", file: "monitor/streams.go", pkg: "monitor", test: "TestAStreamOutlastsLateArrival",
		old: "idle: streamIdle + t.LateArrival,", new: "idle: streamIdle,",
	},
	{
		name: "splinter: a log that is a few seconds behind is no proof for ever", file: "dlt/splinter/resolve.go", pkg: "dlt/splinter", test: "TestJudge",
		old: "if !absent && k.awaits() {", new: "if false && k.awaits() {",
	},
	{
		name: "sawtooth: a dead connection of HTTP/2 keeps all requests", file: "dlt/internal/wire/options.go", pkg: "dlt/sawtooth", test: "TestADeadConnectionIsLeft",
		old: "	t.HTTP2 = ", new: "	_ = ",
	},
	{
		name: "sawtooth: a node that is behind proves that nothing is committed", file: "dlt/sawtooth/resolve.go", pkg: "dlt/sawtooth", test: "TestANodeThatIsBehindProvesNothing",
		old: "if len(d.Witnesses) == 0 {", new: "if len(d.Witnesses) >= 0 {",
	},
	{
		name: "wire: a refused certificate of the client is doubt", file: "dlt/internal/wire/wire.go", pkg: "dlt/splinter", test: "TestARefusedClientCertificateIsNoDoubt",
		old: "case sent == OnFresh && refusesCertificate(err):", new: "case sent == Unsent && refusesCertificate(err):",
	},
	{
		name: "wire: the silence of a given transport is proof", file: "dlt/internal/wire/wire.go", pkg: "dlt/splinter", test: "TestARegisteredProtocolProvesNothing",
		old: "return given == nil }", new: "return given == nil || given.Transport != nil }",
	},
	{
		name: "canton: a stream may be opening for ever", file: "dlt/canton/events.go", pkg: "dlt/canton", test: "TestOpeningOfAStreamEnds",
		old: "context.WithTimeout(ctx, handshake)", new: "context.WithTimeout(ctx, 100*handshake)",
	},
	{
		name: "canton: the error of a token source is doubt about the batch", file: "dlt/canton/exchange.go", pkg: "dlt/canton", test: "TestErrorOfATokenSourceIsNoDoubt",
		old: "cause.Err = nil", new: "_ = cause.Err",
	},
	{
		name: "canton: a batch whose first completions were pruned is read from the beginning each time", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestACommitBehindPrunedCompletionsIsFound",
		old: "t.lost || !t.bounded || a.Prepared == nil", new: "!t.bounded || a.Prepared == nil",
	},
	{
		name: "canton: that completions were pruned is forgotten", file: "dlt/canton/status.go", pkg: "dlt/canton", test: "TestPrunedCompletionsAreReported",
		old: "q.lost = t.lost && a.Prepared != nil", new: "q.lost = t.lost && a.Prepared == nil",
	},
}
