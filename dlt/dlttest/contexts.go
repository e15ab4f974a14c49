package dlttest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// hangTimeout is how long a call may hang before its context ends.
const hangTimeout = 50 * time.Millisecond

func contextChecks() []Check {
	return []Check{
		{
			Name:        "Context/deadline",
			Promise:     "Submit returns soon after its deadline, in doubt",
			neededFault: Hang,
			run:         func(e *checkRun) { checkHangingSubmit(e, context.WithTimeout) },
		},
		{
			Name:        "Context/cancel",
			Promise:     "Submit returns soon after its context is cancelled, in doubt",
			neededFault: Hang,
			run: func(e *checkRun) {
				checkHangingSubmit(e, func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(ctx)
					timer := time.AfterFunc(d, cancel)
					return ctx, func() { timer.Stop(); cancel() }
				})
			},
		},
		{
			Name:        "Context/statuses",
			Promise:     "BatchStatuses returns soon after its deadline, with an error",
			neededFault: StatusHang,
			run: func(e *checkRun) {
				b := e.committedBatch()
				e.Set(StatusHang)
				ctx, cancel := context.WithTimeout(e.Context(), hangTimeout)
				defer cancel()
				e.requirePrompt(ctx, func() error {
					statuses, err := e.Ledger.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key(), Number: 1}})
					assert.Empty(e, statuses)
					return err
				})
				e.Set(None)
				e.requireBecomes(b, batch.ReportedCommitted)
			},
		},
		{
			Name:    "Context/done",
			Promise: "calls whose context is done already return at once, with a true error",
			run: func(e *checkRun) {
				b := e.newBatch()
				ctx, cancel := context.WithCancel(e.Context())
				cancel()
				err := e.requirePrompt(ctx, func() error { return e.Ledger.Submit(ctx, attempt(b)) })
				e.requirePrompt(ctx, func() error {
					_, err := e.Ledger.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key(), Number: 1}})
					return err
				})
				switch dlt.Kind(err) {
				case batch.KindDoubt:
				case batch.KindUnavailable, batch.KindBusy:
					e.requireNotTaken(b)
					e.requirePosted(b, 0, 0)
				default:
					assert.Fail(e, "a done context says nothing about the batch or the client", "%v", err)
				}
			},
		},
	}
}

func checkHangingSubmit(e *checkRun, bound func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	e.committedBatch()
	e.Set(Hang)
	b := e.newBatch()
	var err error
	for d := hangTimeout; d <= e.CommitTimeout; d *= 4 {
		ctx, cancel := bound(e.Context(), d)
		err = e.requirePrompt(ctx, func() error { return e.Ledger.Submit(ctx, attempt(b)) })
		cancel()
		if k := dlt.Kind(err); k != batch.KindUnavailable && k != batch.KindNotYet {
			break
		}
		e.requirePosted(b, 0, 0) // on a busy machine the deadline may pass before the POST
	}
	assert.Equal(e, batch.KindDoubt, dlt.Kind(err), "the kind of: %v", err)
	e.Set(None)
	e.committedBatch()
	e.requirePosted(b, 0, 1)
}

// requirePrompt requires that call returns an error within CancelTimeout of the end of ctx.
func (e *checkRun) requirePrompt(ctx context.Context, call func() error) error {
	e.Helper()
	returned := make(chan error, 1)
	go func() { returned <- call() }()
	<-ctx.Done()
	late := time.NewTimer(e.CancelTimeout)
	defer late.Stop()
	select {
	case err := <-returned:
		require.Error(e, err)
		return err
	case <-late.C:
		e.Fatalf("a call did not return within %s of the end of its context", e.CancelTimeout)
		return nil
	}
}
