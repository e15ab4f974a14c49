package autobatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// partiesPage is the largest number of idle parties in one answer of the store.
const partiesPage = 500

// lingerTime is the shortest time between two passes of a loop, so that orders that come together
// are in one batch, and batches that end together are settled together.
const lingerTime = 2 * time.Millisecond

// batchLoop starts one new batch for each idle party in each cycle (docs/glossary.md#auto-batch).
func (e *Engine) batchLoop(ctx context.Context) error {
	for {
		start := time.Now()
		next := e.options.BatchInterval
		err := e.retry(ctx, "", func() (err error) { next, err = e.startDueParties(ctx); return err })
		if err != nil {
			return err
		}
		// Under load the passes take at most half of the time.
		if !waitForWake(ctx, e.findParties, next, start, max(lingerTime, 2*time.Since(start))) {
			return nil
		}
	}
}

// startDueParties starts work on all idle parties once, and returns the longest time until the
// next pass.
func (e *Engine) startDueParties(ctx context.Context) (time.Duration, error) {
	next := e.options.BatchInterval
	begin := time.Now()
	q := order.PartiesQuery{Start: true, Limit: partiesPage, Cap: e.options.MaxSize}
	for {
		loads, err := e.partyLoads(ctx, q)
		if ctx.Err() != nil {
			return next, nil //nolint:nilerr // a stop is no error
		}
		if err != nil {
			return 0, fmt.Errorf("autobatch: parties: %w", err)
		}
		for _, l := range loads {
			wait := e.options.waitLeft(l)
			if wait <= 0 {
				wait = e.startParty(ctx, l.Party)
			}
			if wait > 0 {
				next = min(next, wait)
			}
		}
		if len(loads) < q.Limit {
			e.parties.forget(begin)
			return next, nil
		}
		q.Start, q.After = false, loads[len(loads)-1].Party
	}
}

func (e *Engine) partyLoads(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	ctx, cancel := context.WithTimeout(ctx, e.options.StoreTimeout)
	defer cancel()
	return e.orders.Parties(ctx, q)
}

// startParty works on a party in a goroutine of its own, or returns the time until the next try.
func (e *Engine) startParty(ctx context.Context, party batch.ServiceID) time.Duration {
	if wait := e.parties.take(party); wait > 0 {
		return wait
	}
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		e.parties.release(party, false)
		return 0
	}
	e.builds.Go(func() {
		err := loop.Contain(func() error { return e.makeNextBatch(ctx, party) })
		<-e.slots
		stopped := err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
		if err != nil && !stopped {
			e.trouble(ctx, party, err)
		}
		if e.parties.release(party, err != nil) {
			loop.Poke(e.findParties)
		}
	})
	return 0
}

// makeNextBatch makes and stores the party's next batch.
func (e *Engine) makeNextBatch(ctx context.Context, party batch.ServiceID) error {
	orders, err := e.nextOrders(ctx, party)
	if err != nil || len(orders) == 0 {
		return err
	}
	conflict, err := e.prepare(ctx, party, orders, roundOf(orders))
	if _, rounds := e.builder.(order.RoundBuilder); conflict && rounds {
		// These orders were added again after retention had removed them and their batch, whose
		// tombstone still has the id. Without another round the party would never get a batch.
		_, err = e.prepare(ctx, party, orders, roundAgain(orders))
	}
	return err
}

// prepare makes and stores a batch of these orders. conflict is true if the id or the DataChangeID
// of the batch is known already.
func (e *Engine) prepare(ctx context.Context, party batch.ServiceID, orders []order.Waiting, round int64) (conflict bool, err error) {
	b, refused, err := e.build(ctx, party, orders, round)
	switch {
	case refused:
		return false, e.writeRefusal(ctx, party, orders, err)
	case err != nil:
		return false, fmt.Errorf("autobatch: build: %w", err)
	}
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	var ok bool
	err = e.retry(ctx, party, func() (err error) {
		ok, err = e.orders.PrepareBatch(ctx, b, refs(orders))
		return err
	})
	if ok || err != nil { // after an error the batch may be stored
		defer e.options.Wake(party) // last, since it may panic
	}
	if err != nil {
		return errors.Is(err, batch.ErrConflict), fmt.Errorf("autobatch: prepare batch %s: %w", b.Key(), err)
	}
	if ok {
		vs := make([]order.Verdict, len(orders))
		for i, ref := range refs(orders) {
			vs[i] = order.Verdict{Ref: ref, State: order.Dequeued, Group: orders[i].Group}
		}
		e.report(ctx, OrderEvent{Kind: EventPrepared, Party: party, Batch: b.ID, TraceParent: b.TraceParent, Orders: vs})
	}
	return false, nil // another instance was faster
}

func (e *Engine) nextOrders(ctx context.Context, party batch.ServiceID) ([]order.Waiting, error) {
	ctx, cancel := context.WithTimeout(ctx, e.options.StoreTimeout)
	defer cancel()
	var orders []order.Waiting
	err := e.retry(ctx, party, func() (err error) {
		orders, err = e.orders.NextOrders(ctx, party, order.NextQuery{Max: e.options.MaxSize, MaxBytes: max(0, e.options.MaxBytes)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("autobatch: next orders: %w", err)
	}
	return orders, nil
}

// build calls the Builder. refused is true if no batch can be made of these orders. A batch that
// cannot be stored is not refused: the Builder is at fault, and dividing the orders would
// quarantine every one of them.
func (e *Engine) build(ctx context.Context, party batch.ServiceID, orders []order.Waiting, round int64) (b batch.Batch, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.options.BuildTimeout)
	defer cancel()
	plain := make([]order.Order, len(orders))
	for i, o := range orders {
		plain[i] = o.Order
	}
	panicked := loop.Contain(func() error {
		if r, ok := e.builder.(order.RoundBuilder); ok {
			b, err = r.BuildRound(ctx, party, plain, round)
		} else {
			b, err = e.builder.Build(ctx, party, plain)
		}
		return nil
	})
	switch {
	case panicked != nil:
		return b, false, panicked
	case err != nil:
		return b, errors.Is(err, batch.ErrInvalidInput), err
	case b.Service != party:
		return b, false, &builderError{&batch.InputError{Key: b.Key(), Field: "Service", Value: batch.Excerpt(string(b.Service), 64), Want: "the party of the orders"}}
	}
	if b.Budget == (batch.Budget{}) {
		b.Budget = e.options.budget()
	}
	b.TraceParent = e.traceParentOf(ctx, b, plain)
	if err := b.Validate(); err != nil {
		return b, false, &builderError{err}
	}
	if err := loop.Contain(func() error { return e.options.Check(b) }); err != nil {
		return b, false, &builderError{err}
	}
	return b, false, nil
}

// builderError is the error of a Builder that returned no valid batch.
type builderError struct{ err error }

func (e *builderError) Error() string { return "the builder returned no batch: " + e.err.Error() }
func (e *builderError) Unwrap() error { return e.err }

// writeRefusal writes the new states of orders that the Builder refused.
func (e *Engine) writeRefusal(ctx context.Context, party batch.ServiceID, orders []order.Waiting, cause error) error {
	ctx, cancel := e.writeContext(ctx)
	defer cancel()
	alone, split := refusalOf(orders, cause)
	var ok bool
	err := e.retry(ctx, party, func() (err error) {
		if len(alone) > 0 {
			var done []bool
			done, err = e.orders.FailOrders(ctx, alone)
			ok = len(done) == 1 && done[0]
		} else {
			ok, err = e.orders.SplitOrders(ctx, split)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("autobatch: orders that the builder refused: %w", err)
	}
	verdicts := slices.Concat(alone, split)
	if ok {
		e.report(ctx, OrderEvent{Kind: EventRefused, Party: party, Orders: verdicts, Err: cause})
	}
	e.onSettled(verdicts)    // called even if ok is false, because an earlier answer may have been lost
	loop.Poke(e.findParties) // more orders wait
	return nil
}
