package submitter

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// attempt makes the tries of one attempt. Only what the ledger certainly did not
// take is tried again, soon and a few times; the first doubt ends it. posted is
// false where nothing was sent at all; an error beside that is why nothing could be,
// and is never doubt. took is how long the last request did.
func (s *Submitter) attempt(ctx context.Context, c store.Claim, payload []byte, until time.Time) (posted bool, took time.Duration, err error) {
	retries, first := s.o.Retry(c.Key.Service)
	pause := loop.Backoff(first, 15*time.Second)
	g := s.gate(s.scopeOf(c.Key.Service))
	a := batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payload, Prepared: c.Prepared}
	ready := s.o.Preparer == nil || a.Prepared != nil
	for try := 0; ; try++ {
		probe, ok := g.enter(time.Now())
		if !ok {
			return posted, took, err
		}
		if !ready {
			var said bool
			a.Prepared, said, err = s.prepare(ctx, c, payload, until)
			stopped := ctx.Err() != nil
			if stopped || !said || (err == nil && !s.timeLeft(until)) {
				g.leave(probe, unsure, 0, time.Now()) // nothing was learnt about the ledger
				if stopped {
					err = nil // it was cut off, or came too late
				}
				return false, took, err
			}
			ready = err == nil
		}
		if ready {
			start := time.Now()
			posted, err = true, s.once(ctx, a, until)
			took = time.Since(start)
		}
		s.leave(g, probe, c.Key.Service, err)
		if kind := dlt.Kind(err); kind != batch.KindBusy && kind != batch.KindUnavailable {
			return posted, took, err
		}
		// Not before the gate, which this very answer closed, lets a probe through.
		wait := max(pause.NextBackOff(), retryAfter(err), g.closed(time.Now()))
		if try >= retries || time.Until(until)-wait < s.o.RequestTimeout || !loop.Sleep(ctx, wait) {
			return posted, took, err
		}
	}
}

// once makes one request, bounded by the request timeout and by the claim. A stop
// of the Runner does not cut it off: it would leave a doubt where an answer is near.
func (s *Submitter) once(ctx context.Context, a batch.Attempt, until time.Time) error {
	ctx, cancel := s.bounded(context.WithoutCancel(ctx), until)
	defer cancel()
	var err error
	panicked := loop.Contain(func() error {
		err = s.ledger.Submit(ctx, a)
		if err != nil { // an error value is the client's code, too: what it says is read here
			_, _, _ = dlt.Kind(err), err.Error(), retryAfter(err)
		}
		return nil
	})
	if panicked != nil {
		return &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, Err: fmt.Errorf("ledger client: %w", panicked)}
	}
	return err
}

// bounded is ctx until the request timeout or the claim is over.
func (s *Submitter) bounded(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(s.o.RequestTimeout)
	if until.Before(deadline) {
		deadline = until
	}
	return context.WithDeadline(ctx, deadline)
}
