package otelbatch

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
)

// requestBounds and the others are the bounds of histograms. requestBounds are those of the
// convention for messaging.
var (
	requestBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	storeBounds   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	batchBounds   = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
	sizeBounds    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// resultAccepted is the result of an attempt that the ledger accepted.
const resultAccepted = "accepted"

// The labels, with all their values.
var (
	results = label{key: "dltbatch.result", values: []string{
		resultAccepted, string(batch.KindRejected), string(batch.KindBusy), string(batch.KindNotYet), string(batch.KindUnavailable), string(batch.KindMisconfigured),
		string(batch.KindDoubt), string(batch.KindFailed), string(batch.KindInvalid), string(batch.KindExhausted),
	}}
	finalStates = label{key: "dltbatch.state", values: []string{"committed", "invalid", "rejected"}}
	laterStates = label{key: "dltbatch.state", values: []string{"pending", "valid", "delayed", "unknown", "committed", "invalid", "rejected"}}
	actors      = label{key: "dltbatch.by", values: []string{batch.ByMonitor.String(), batch.ByOperator.String()}}
	reasons     = label{key: "dltbatch.reason", values: []string{"paused", "halted", "held"}}
	causes      = label{key: "dltbatch.result", values: []string{string(batch.KindBusy), string(batch.KindUnavailable), string(batch.KindMisconfigured)}}
	pools       = label{key: "dltbatch.pool", values: []string{"submit", "status"}}
	parts       = label{key: "dltbatch.part", values: []string{"store", "ledger", "streams"}}
	attentions  = label{key: "dltbatch.part", values: []string{
		health.PartDatabase, health.PartLedger, health.PartStreams, health.PartPosting, health.PartBatches, health.PartLoops, health.PartWarnings,
	}}
	troubleParts = label{key: "dltbatch.part", values: []string{
		"queuer", "monitor", "hints", "recorder", "retention", "stats", "upkeep", "store", "ledger", "services", "order", "lost reply",
	}}
	loops     = label{key: "dltbatch.loop", values: []string{"queuer", "monitor", "recorder", "keeper", "retention", "submitter", "statuses"}}
	observers = label{key: "dltbatch.observer", values: []string{"0", "1", "2", "3", "4", "5", "6", "7"}}

	ledgerOps = label{key: "dltbatch.operation", values: []string{"prepare", "resolve", "statuses"}}
	storeOps  = label{key: "dltbatch.operation", values: []string{
		"acquit", "add", "add_tx", "attempts", "cancel", "checked", "claim", "control", "count_open", "decide", "finals", "get",
		"history", "keep_prepared", "lane_history", "lanes", "list", "list_texts", "look", "payloads", "pending", "prune",
		"read_texts", "record", "requeue", "steer", "swap_texts", "tell", "upkeep", "withdraw", "witnesses",
	}}
	addOps   = label{key: "dltbatch.operation", values: []string{"add", "add_tx"}}
	groupOps = label{key: "dltbatch.operation", values: []string{"add", "add_tx", "claim", "record", "checked", "pending"}}

	// messagingAttributes has the operations on a queue, by the names of the convention for
	// messaging.
	messagingAttributes = label{
		key: "messaging.operation.name", values: []string{"add", "add_tx", "claim", "submit", "submit_list", "record"},
		extraAttributes: func(op string) []attribute.KeyValue {
			kinds := map[string]string{"add": "send", "add_tx": "send", "claim": "receive", "submit": "send", "submit_list": "send", "record": "settle"}
			all := []attribute.KeyValue{attribute.String("messaging.system", "dltbatch")}
			if kind, ok := kinds[op]; ok {
				all = append(all, attribute.String("messaging.operation.type", kind))
			}
			return all
		},
	}

	// In storeErrors and ledgerErrors the value "" means success, and makes no attribute.
	storeErrors  = label{key: "error.type", values: append([]string{""}, storeKinds()...)}
	ledgerErrors = label{key: "error.type", values: append([]string{"", canceledError}, ledgerKinds...)}
	anyErrors    = label{key: "error.type", values: append(append([]string{""}, storeKinds()...), ledgerKinds...)}
)

// instruments has all metrics.
type instruments struct {
	added, attempts, finals, resends, takeovers, doubts, resolvedDoubts, decisions counter
	breaches, vanished, halts, quarantined, held, pauses, emptyClaims, troubles    counter
	pruned                                                                         counter

	counters []counter // all counters

	operation, waitTime, attemptTime, outcomeTime, batchTime, queryTime, storeTime, requestTime, groupItems histogram

	running, poolSize, poolBusy, claims, streams, closed, warnings gauge
	attention, failing, ledgerClosed, success                      gauge
	lostEvents, droppedTraces                                      gauge

	stats storeGauges
}

// newInstruments makes all metrics, in the order of docs/metrics.md.
func newInstruments(b *instrumentBuilder) (i instruments) {
	i.operation = b.histogram("messaging.client.operation.duration", "s",
		"How long an operation upon a batch's way took: add and add_tx (type send), claim (receive), submit and submit_list (send, to the ledger), record (settle). "+
			"With messaging.system and messaging.operation.type.", requestBounds, messagingAttributes, anyErrors)

	i.added = b.counter("dltbatch.batches.added", "{batch}",
		"Batches that Runners of this process added. With add_tx also those whose transaction was rolled back. Without the batches that auto-batching makes.", addOps)
	i.attempts = b.counter("dltbatch.attempts", "{attempt}",
		"Attempts that were posted and whose outcome was written, by the ledger's answer.", results)
	i.finals = b.counter("dltbatch.batches.final", "{batch}",
		"Batches that became final, by their state. A batch that was final and was committed after all counts again, as committed.", finalStates)
	i.resends = b.counter("dltbatch.resends", "{attempt}",
		"Batches that were claimed again although the ledger had accepted them before, or may have.")
	i.takeovers = b.counter("dltbatch.takeovers", "{attempt}",
		"Attempts that another instance left without an outcome, and about which this process has found out: it died, or its claim expired.")
	i.doubts = b.counter("dltbatch.doubts", "{attempt}",
		"Attempts after which a batch was in doubt: no clear answer, or a refusal while an earlier attempt is open. Attempts that were taken over do not count.")
	i.resolvedDoubts = b.counter("dltbatch.doubts.resolved", "{attempt}",
		"Doubts that the monitor or an operator ended, of attempts that were taken over, too, by the batch's state after that. unknown: it is sent again.", laterStates, actors)
	i.decisions = b.counter("dltbatch.decisions", "{batch}", "Batches that cannot go on until a person decides.")
	i.breaches = b.counter("dltbatch.order.breaches", "{breach}", "Breaches of order: a batch took effect behind one that it should have preceded, or may have.")
	i.vanished = b.counter("dltbatch.vanished", "{batch}", "Committed batches that the ledger no longer has.")
	i.halts = b.counter("dltbatch.lanes.halted", "{lane}", "Lanes that were halted, until an operator releases them.")
	i.held = b.counter("dltbatch.lanes.held", "{lane}", "How often a lane was held: its strategy failed, or its ledger cannot serve it.")
	i.quarantined = b.counter("dltbatch.batches.quarantined", "{batch}", "Batches that were set aside.")
	i.pauses = b.counter("dltbatch.pauses", "{pause}", "How often nothing was posted for a while, for a service or at all, by the ledger's answer.", causes)
	i.emptyClaims = b.counter("dltbatch.claims.empty", "{claim}", "Claims that found nothing to claim.")
	i.troubles = b.counter("dltbatch.troubles", "{failure}", "Failures of the Runner's parts, which go on after a pause. In store also the store's warnings, and in services other traits.", troubleParts)
	i.pruned = b.counter("dltbatch.pruned", "{row}", "What retention removed: batches, orders, ids of the journal, acts of operators.")
	i.lostEvents = b.total("dltbatch.observer.lost", "{event}", "Events that found the queue of one of Options.Observers full, by its index. These metrics lose none.", observers)
	i.droppedTraces = b.total("dltbatch.traces.dropped", "{context}", "Trace contexts that were dropped because they were not valid. Their batches were added without; likewise the orders of Engines that the Metrics watches.")

	i.waitTime = b.histogram("dltbatch.batch.wait.duration", "s", "From Add to the first attempt.", batchBounds)
	i.attemptTime = b.histogram("dltbatch.attempt.duration", "s", "How long the POST of an attempt took, for each batch in it.", requestBounds, results)
	i.outcomeTime = b.histogram("dltbatch.batch.outcome.duration", "s", "From the end of the POST to the final outcome, by state.", batchBounds, finalStates)
	i.batchTime = b.histogram("dltbatch.batch.duration", "s", "From Add to the final outcome, by state.", batchBounds, finalStates)
	i.queryTime = b.histogram("dltbatch.ledger.operation.duration", "s", "How long a call to the ledger took that is no POST. statuses and resolve are the questions about batches. POSTs are in messaging.client.operation.duration.", requestBounds, ledgerOps, ledgerErrors)
	i.storeTime = b.histogram("dltbatch.store.operation.duration", "s", "How long a call to the store took.", storeBounds, storeOps, storeErrors)
	i.requestTime = b.histogram("dltbatch.request.batches", "{batch}", "Batches in a POST.", sizeBounds)
	i.groupItems = b.histogram("dltbatch.store.operation.batches", "{batch}", "Batches in a call to the store that succeeded. Without claims that were empty.", sizeBounds, groupOps)

	i.running = b.number("dltbatch.runners", "{runner}", "Runners whose Run runs.")
	i.poolSize = b.number("dltbatch.pool.size", "{request}", "Requests that may be under way: submit is Options.Pool, status is Options.StatusConnections.", pools)
	i.poolBusy = b.number("dltbatch.pool.busy", "{request}", "Requests under way. Those that hang give their places to others, so that it may be above the size.", pools)
	i.claims = b.number("dltbatch.claims.held", "{batch}", "Batches that are claimed, and whose outcome is not written yet.")
	i.streams = b.number("dltbatch.streams", "{stream}", "Streams of the ledger's events that are open.")
	i.closed = b.number("dltbatch.services.closed", "{service}", "Services of which nothing is posted, as this process knows: the ledger is busy or out of reach (paused), took a batch back again and again (halted), or cannot serve it (held).", reasons)
	i.warnings = b.number("dltbatch.warnings", "{warning}", "Warnings of the store that stand (Health.Warnings).")
	i.attention = b.number("dltbatch.attention", "{cause}", "Causes for which a Runner does not do all that it should (Health.Attention), by what they are about.", attentions)
	i.ledgerClosed = b.age("dltbatch.ledger.closed.duration", "For how long nothing has been posted to a ledger, because it is busy, out of reach or refuses this client: of several the longest. 0 while all are open.")
	i.failing = b.age("dltbatch.failing.duration", "For how long a part has failed; 0 while it works.", parts)
	i.success = b.age("dltbatch.loop.success.age", "Time since the last success of a loop. queuer and monitor look at the database all the time; the others wait for work.", loops)
	i.stats = newStoreGauges(b)
	i.counters = b.counters
	return i
}
