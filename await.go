package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Await returns the record of a batch once it is final. It works in any process, whether or
// not Run runs there. Invalid and Rejected are records, not errors. Await returns
// [batch.ErrNotFound], the store's error, or ctx's error.
//
// At ctx's deadline Await reads the record once more, for 500 ms at most, and returns it with
// ctx's error: so the caller sees how far the batch has come. Where the store does not give it in
// that time, the record has the key alone.
//
// Any number of Awaits may wait. Together they ask the store once in an Options.PollInterval,
// and at once about each batch that this process sees become final.
func (r *Runner) Await(ctx context.Context, key batch.Key) (batch.Record, error) {
	rec, err := r.waiters.Wait(ctx, key)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if rec = r.lastRecord(ctx, key); rec.Final() {
			return rec, nil
		}
	}
	if err != nil {
		return rec, fmt.Errorf("await %s: %w", key, err)
	}
	return rec, nil
}

// lastReadTime bounds the last read of the record in an Await whose deadline has passed.
const lastReadTime = 500 * time.Millisecond

// lastRecord reads the record of a batch after ctx has ended. It returns the key alone if the read
// fails.
func (r *Runner) lastRecord(ctx context.Context, key batch.Key) batch.Record {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReadTime)
	defer cancel()
	rec, err := r.engine.Store().Get(ctx, key)
	if err != nil {
		return batch.Record{Key: key}
	}
	return rec
}

// Idle returns nil once every stored batch is final, for tests and jobs. A batch that needs a
// decision keeps Idle waiting. A store that lacks [store.CanList] gives [store.ErrUnsupported].
// Idle looks once in an Options.PollInterval, and when this process, or another one that tells of
// it, sees a batch become final; it looks for a tenth of the time at most.
func (r *Runner) Idle(ctx context.Context) error {
	tick := time.NewTicker(r.options.PollInterval)
	defer tick.Stop()
	hearing, stop := context.WithCancel(ctx)
	defer stop()
	for first := true; ; first = false {
		final := r.idleWaiters.Next() // taken before the read, so that no batch becomes final unseen between the two
		began := time.Now()
		open, _, err := r.engine.Store().List(ctx, store.ListQuery{Open: true, Limit: 1})
		if err != nil {
			return fmt.Errorf("idle: %w", err)
		}
		if len(open) == 0 {
			return nil
		}
		rest := min(idleRest*time.Since(began), r.options.PollInterval)
		if first {
			go r.engine.HearEnds(hearing, func([]uint64, bool) { r.idleWaiters.Notify() }, r.idleWaiters.Notify)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("idle: %w", ctx.Err())
		case <-final:
			if !loop.Sleep(ctx, rest) {
				return fmt.Errorf("idle: %w", ctx.Err())
			}
		case <-tick.C:
		}
	}
}

// idleRest is the pause of Idle after a read, as a multiple of the time that the read took:
// batches may become final much faster than the store can list them. So Idle spends a tenth of the
// time on reads at most.
const idleRest = 9

// onFinal wakes the waiters for a batch that this process saw become final, in this process and in
// others.
func (r *Runner) onFinal(key batch.Key) {
	r.engine.Ended(key)
	r.waiters.Final(key)
	r.idleWaiters.Notify()
}
