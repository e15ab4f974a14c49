package dltbatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"
)

// Call is a call that a Runner made to its store or to its ledger, after it has ended: for its own
// work, or because the application called the Runner. Streams of events are no calls.
type Call struct {
	// Part is "store" or "ledger".
	Part string
	// Op is the operation. Of the ledger: prepare, resolve, statuses, submit, submit_list. Of the
	// store: acquit, add, add_tx, attempts, cancel, checked, claim, control, decide, finals, get,
	// history, keep_instance, keep_prepared, keep_traits, lane_history, lanes, ledger, list, look,
	// payloads, pending, prune, record, refresh_stats, requeue, serve, stats, steer, upkeep,
	// witnesses.
	Op string
	// Items is the number of things in the call. For claim (batches), lanes, list, pending, prune,
	// stats (instances), upkeep (warnings) and witnesses it is the number returned; for the others
	// the number passed in, which is 1 for one batch, lane or name.
	Items int
	// Took is the time from the call to its end, on this process's clock.
	Took time.Duration
	// Err is the error that the call gave; nil where it succeeded. That the ledger is busy or
	// refuses a batch is an error, too.
	Err error
}

// CallObserver observes calls. ObserveCall is called after each call, by the goroutine that made
// it and with its context, from several goroutines at once. It must be quick. A panic in it is
// contained and logged.
type CallObserver interface {
	ObserveCall(ctx context.Context, c Call)
}

// calls reports calls to Options.Calls; nil reports to nobody.
type calls func(context.Context, Call)

// newCalls returns nil where nobody wants to know.
func (r *Runner) newCalls() calls {
	o := r.o.Calls
	if o == nil {
		return nil
	}
	return func(ctx context.Context, c Call) {
		if err := loop.Contain(func() error { o.ObserveCall(ctx, c); return nil }); err != nil {
			r.say(ctx, slog.LevelError, topic{text: linePanicked, where: "Calls"}, err, slog.String("observer", "Calls"))
		}
	}
}

// time makes a call and reports it. call sets c.Err, and c.Items if they are not known before.
func (to calls) time(ctx context.Context, c *Call, call func()) {
	if to == nil {
		call()
		return
	}
	began := time.Now()
	c.Err = errPanicked // unless it comes back
	defer func() { to.report(ctx, c, time.Since(began)) }()
	call()
}

func (to calls) report(ctx context.Context, c *Call, took time.Duration) {
	if to != nil {
		c.Took = took
		to(ctx, *c)
	}
}

var errPanicked = errors.New("panic")
