package autobatch

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/await"
	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// orderCore has what the making of batches and the settling of orders share.
type orderCore struct {
	orders      order.Store
	options     Options
	parties     parties
	findParties chan struct{} // wakes the search for idle parties
	waiters     *await.Waiters[order.ID, order.Record]
	hintNode    *hints.Node
}

// retry calls the store until it succeeds or ctx is done, and reports failures. An error about
// the input ends it at once.
func (c *orderCore) retry(ctx context.Context, party batch.ServiceID, f func() error) error {
	return loop.Retry(ctx, func(err error) { c.trouble(ctx, party, err) }, func() error {
		err := f()
		if errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrConflict) {
			return loop.Final(err)
		}
		return err
	})
}

// writeContext returns the context of a write, which a stop does not cut off.
func (c *orderCore) writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.options.StoreTimeout)
}

// onSettled wakes the waiters of orders that became final in this process, in this process and in
// others.
func (c *orderCore) onSettled(verdicts []order.Verdict) {
	final := make([]order.ID, 0, len(verdicts))
	for _, v := range verdicts {
		if v.State.Final() {
			final = append(final, v.ID)
		}
	}
	c.waiters.Final(final...)
	c.tellFinals(final)
}

// report passes an event to the observer and, with the values of ctx, to the log. It contains a
// panic in the observer.
func (c *orderCore) report(ctx context.Context, ev OrderEvent) {
	if ev.Orders != nil {
		ev.Count = len(ev.Orders)
	}
	if err := loop.Contain(func() error { c.options.Observer(ev); return nil }); err != nil {
		c.options.Logger.ErrorContext(ctx, "observer panicked", slog.Any("error", err))
	}
	c.logBad(ctx, ev)
	level := slog.LevelDebug
	if ev.Kind == EventTrouble || ev.Kind == EventHeld {
		level = slog.LevelWarn
	}
	if !c.options.Logger.Enabled(ctx, level) {
		return
	}
	as := []slog.Attr{slog.String("party", string(ev.Party)), slog.String("batch", string(ev.Batch)), slog.Int("orders", ev.Count)}
	if ev.Err != nil {
		as = append(as, slog.Any("error", ev.Err))
		if p, ok := errors.AsType[*loop.PanicError](ev.Err); ok {
			as = append(as, slog.String("stack", string(p.Stack)))
		}
	}
	c.options.Logger.LogAttrs(ctx, level, "auto-batch "+string(ev.Kind), as...)
}

// logBad logs each order that ended badly, with the reason, so that a person can find the order. A
// batch that was refused is tried in parts, and a line about the batch would not name the order.
func (c *orderCore) logBad(ctx context.Context, ev OrderEvent) {
	if !c.options.Logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	for _, v := range ev.Orders {
		if v.State != order.Failed && v.State != order.Quarantined {
			continue
		}
		as := []slog.Attr{slog.String("order", string(v.ID)), slog.String("state", v.State.String())}
		if ev.Party != "" {
			as = append(as, slog.String("party", string(ev.Party)))
		}
		if ev.Batch != "" {
			as = append(as, slog.String("batch", string(ev.Batch)))
		}
		if v.Error != nil {
			as = append(as, slog.Any("error", v.Error))
		}
		c.options.Logger.LogAttrs(ctx, slog.LevelInfo, "order ended badly", as...)
	}
}

func (c *orderCore) trouble(ctx context.Context, party batch.ServiceID, err error) {
	c.report(ctx, OrderEvent{Kind: EventTrouble, Party: party, Err: err})
}
