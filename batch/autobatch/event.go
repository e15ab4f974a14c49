package autobatch

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// OrderEventKind is the kind of an [OrderEvent].
type OrderEventKind string

// The kinds of events.
const (
	// EventPrepared: Orders became part of Batch.
	EventPrepared OrderEventKind = "prepared"
	// EventSettled: Batch is final, and Orders have the states of their verdicts.
	EventSettled OrderEventKind = "settled"
	// EventRefused: the Builder made no batch of Orders, and they have the states of their
	// verdicts: two groups, or one Quarantined order.
	EventRefused OrderEventKind = "refused"
	// EventExpired: the deadlines of Count orders have passed.
	EventExpired OrderEventKind = "expired"
	// EventHeld: the store calls Batch final, but its orders cannot be settled.
	EventHeld OrderEventKind = "held"
	// EventTrouble: something failed and is tried again after a pause, for one party, or for
	// all if Party is "".
	EventTrouble OrderEventKind = "trouble"
)

// OrderEvent reports something that this Engine did, after it was written. After a crash the store
// is the truth.
type OrderEvent struct {
	Kind   OrderEventKind
	Party  batch.ServiceID
	Batch  batch.ID
	Count  int                  // number of orders
	Orders []store.OrderVerdict // in EventPrepared with State Dequeued; must not be changed
	Err    error
}

// report passes an event to the observer and, with the values of ctx, to the log. It contains a
// panic in the observer.
func (e *Engine) report(ctx context.Context, ev OrderEvent) {
	if ev.Orders != nil {
		ev.Count = len(ev.Orders)
	}
	if err := loop.Contain(func() error { e.o.Observer(ev); return nil }); err != nil {
		e.o.Logger.ErrorContext(ctx, "observer panicked", slog.Any("error", err))
	}
	level := slog.LevelDebug
	if ev.Kind == EventTrouble || ev.Kind == EventHeld {
		level = slog.LevelWarn
	}
	if !e.o.Logger.Enabled(ctx, level) {
		return
	}
	as := []slog.Attr{slog.String("party", string(ev.Party)), slog.String("batch", string(ev.Batch)), slog.Int("orders", ev.Count)}
	if ev.Err != nil {
		as = append(as, slog.Any("error", ev.Err))
		if p, ok := errors.AsType[*loop.PanicError](ev.Err); ok {
			as = append(as, slog.String("stack", string(p.Stack)))
		}
	}
	e.o.Logger.LogAttrs(ctx, level, "auto-batch "+string(ev.Kind), as...)
}

func (e *Engine) trouble(ctx context.Context, party batch.ServiceID, err error) {
	e.report(ctx, OrderEvent{Kind: EventTrouble, Party: party, Err: err})
}
