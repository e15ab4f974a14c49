package batch

import (
	"context"
	"time"
)

// Call is a call that a Runner made to its store or to its ledger, after it has ended: for its own
// work, or because the application called the Runner. Streams of events are no calls.
type Call struct {
	// Part is "store" or "ledger".
	Part string
	// Op is the operation. Of the ledger: prepare, resolve, statuses, submit, submit_list. Of the
	// store: acquit, add, add_tx, attempts, cancel, checked, claim, control, count_open, decide,
	// finals, get, history, keep_prepared, lane_history, lanes, list, list_texts, look, payloads,
	// pending, prune, read_texts, record, requeue, steer, swap_texts, tell, upkeep, withdraw,
	// witnesses.
	Op string
	// Items is the number of things in the call. For claim (batches), lanes, list, pending, prune,
	// list_texts, upkeep (warnings) and witnesses it is the number returned; for the others
	// the number passed in, which is 1 for one batch, lane or name.
	Items int
	// Took is the time from the call to its end, on this process's clock.
	Took time.Duration
	// Err is the error that the call gave; nil where it succeeded. That the ledger is busy or
	// refuses a batch is an error, too.
	Err error
}

// CallObserver observes calls (dltbatch.Options.Calls). ObserveCall is called after each call, by
// the goroutine that made it and with its context, from several goroutines at once. It must be
// quick. A panic in it is contained and logged.
type CallObserver interface {
	ObserveCall(ctx context.Context, c Call)
}
