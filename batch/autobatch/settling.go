package autobatch

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// The largest number of batches that one call settles, and of orders that one call expires.
const (
	settlePage = 100
	expirePage = 500
)

// settler settles orders, and expires orders whose deadline has passed.
type settler struct {
	*orderCore
	readVerdicts chan struct{} // wakes the reading of verdicts
}

// settleLoop reads verdicts from the database, where any instance may have recorded them, and
// writes the new states of the orders.
func (t *settler) settleLoop(ctx context.Context) error {
	held := map[batch.ID]int64{}
	for {
		start := time.Now()
		var more bool
		err := t.retry(ctx, "", func() (err error) { more, err = t.settleSome(ctx, held); return err })
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no error
		}
		if err != nil {
			return err
		}
		if !more && !waitForWake(ctx, t.readVerdicts, t.options.MonitorInterval, start, lingerTime) {
			return nil
		}
	}
}

// settleSome settles the oldest batches, and reports whether there may be more. held has, by
// version, the batches that were read before and cannot be settled.
func (t *settler) settleSome(ctx context.Context, held map[batch.ID]int64) (more bool, err error) {
	limit := settlePage + len(held) // held batches must not hide the others
	batches, err := t.settleable(ctx, limit)
	if err != nil {
		return false, fmt.Errorf("autobatch: settleable batches: %w", err)
	}
	seen := make(map[batch.ID]bool, len(batches))
	settled := make([]order.Settlement, 0, len(batches))
	for _, b := range batches {
		key := b.Record.Key
		seen[key.ID] = true
		s, ok := settlementOf(b)
		if ok {
			settled = append(settled, s)
			continue
		}
		if v, known := held[key.ID]; !known || v != b.Record.Version {
			held[key.ID] = b.Record.Version
			t.report(ctx, OrderEvent{Kind: EventHeld, Party: key.Service, Batch: key.ID, Count: len(b.Orders), Err: fmt.Errorf("it is %s, and not certain to stay so", b.Record.State)})
		}
	}
	for id := range held {
		if !seen[id] {
			delete(held, id)
		}
	}
	n, err := t.settleAll(ctx, settled)
	return n > 0 && len(batches) == limit, err
}

func (t *settler) settleable(ctx context.Context, limit int) ([]order.Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, t.options.StoreTimeout)
	defer cancel()
	return t.orders.SettleableBatches(ctx, limit)
}

// settleAll writes settlements together. If that fails it writes them one by one, so that a bad
// settlement does not delay the others. It returns the number of settlements written.
func (t *settler) settleAll(ctx context.Context, settled []order.Settlement) (int, error) {
	if len(settled) == 0 {
		return 0, nil
	}
	n, err := t.settleOnce(ctx, settled)
	if err == nil || len(settled) == 1 {
		return n, err
	}
	passed := 0
	for _, s := range settled {
		if ctx.Err() != nil {
			return n, nil //nolint:nilerr // a stop is no error
		}
		one, err := t.settleOnce(ctx, []order.Settlement{s})
		n += one
		if err == nil {
			passed++
			continue
		}
		t.trouble(ctx, s.Batch.Service, err)
	}
	if passed > 0 {
		return n, nil // the others will be read again
	}
	return n, err
}

func (t *settler) settleOnce(ctx context.Context, settled []order.Settlement) (n int, err error) {
	ctx, cancel := t.writeContext(ctx)
	defer cancel()
	done, err := t.orders.SettleOrders(ctx, settled)
	if err != nil {
		for _, s := range settled { // they may be settled nevertheless, so their waiters read again
			t.onSettled(s.Orders)
			t.restParty(s)
		}
		loop.Poke(t.findParties)
		return 0, fmt.Errorf("autobatch: settle orders: %w", err)
	}
	for i, s := range settled {
		if i >= len(done) || !done[i] {
			continue // the batch has changed, and will be read again
		}
		n++
		t.restParty(s)
		t.report(ctx, OrderEvent{Kind: EventSettled, Party: s.Batch.Service, Batch: s.Batch.ID, TraceParent: s.TraceParent, Orders: s.Orders})
		t.onSettled(s.Orders)
	}
	if n > 0 {
		loop.Poke(t.findParties) // the parties are idle now
	}
	return n, nil
}

// restParty pauses a party whose batch used up its budget.
func (t *settler) restParty(s order.Settlement) {
	if s.Orders[0].State == order.Queued && s.Orders[0].Group == s.Orders[len(s.Orders)-1].Group {
		t.parties.pause(s.Batch.Service, t.options.RetryInterval)
	}
}

// expireLoop fails orders whose deadline passed before they were part of a batch.
func (t *settler) expireLoop(ctx context.Context) error {
	for {
		var expired []order.Verdict
		err := t.retry(ctx, "", func() (err error) { expired, err = t.expire(ctx); return err })
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no error
		}
		if err != nil {
			return fmt.Errorf("autobatch: expire orders: %w", err)
		}
		if len(expired) > 0 {
			t.report(ctx, OrderEvent{Kind: EventExpired, Count: len(expired), Orders: expired})
			t.onSettled(expired)
		}
		if len(expired) < expirePage && !loop.Sleep(ctx, t.options.BatchInterval) {
			return nil
		}
	}
}

func (t *settler) expire(ctx context.Context) ([]order.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, t.options.StoreTimeout)
	defer cancel()
	return t.orders.ExpireOrders(ctx, expirePage)
}
