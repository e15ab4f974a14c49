package submit

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/wall"
	"github.com/dltbatch/dltbatch/store"
)

// sender makes the requests to the ledger.
type sender struct {
	ledger  dlt.Ledger
	options *Options
	gates   *gates
}

// makeAttempt makes the tries of one attempt; several claims are one request. It tries again only
// if the ledger certainly did not take the batch, soon and a few times; the first doubt ends the
// attempt. If batches are sent behind accepted ones, a ledger that cannot be reached ends the
// attempt, too: it may have lost the accepted ones, so the next try needs a new claim
// ([batch.LaneBatch.MayFollow]). post is the last request. If none was made, an error tells why,
// and is never doubt. lane has the prepared bytes of the lane's other batches, kept those that the
// row of the first claim keeps.
func (s *sender) makeAttempt(ctx context.Context, claims []store.Claim, payloads [][]byte, lane [][]byte, until time.Time, at *batchesBeforeGate) (post store.Post, kept []byte, err error) {
	first := &claims[0]
	retries, every := s.options.Retry(first.Key.Service)
	var pause *backoff.ExponentialBackOff // almost never needed
	g := s.gates.gateOf(first.Key.Service)
	prepared := first.Prepared
	ready := !s.mustPrepare(*first)
	for try := 0; ; try++ {
		turn, ok := g.admit(time.Now())
		at.passGate()
		if !ok {
			return post, prepared, err
		}
		if !ready {
			var said bool
			prepared, said, err = s.prepare(ctx, first, payloads[0], lane, until)
			stopped := ctx.Err() != nil
			if stopped || !said || (err == nil && !s.requestFits(until)) {
				g.end(turn, resultUnsure, 0, time.Now()) // tells nothing about the ledger
				if stopped {
					err = nil // the request was cut off, or too late
				}
				return store.Post{}, prepared, err
			}
			ready = err == nil
		}
		if ready {
			start := time.Now()
			err = s.postOnce(ctx, claims, payloads, prepared, lane, until)
			end := time.Now()
			post = store.Post{Batches: len(claims), Took: end.Sub(start), Answered: end}
		}
		s.gates.end(g, turn, first.Key.Service, err)
		if kind := dlt.Kind(err); kind != batch.KindBusy && (kind != batch.KindUnavailable || s.options.Reliant) {
			return post, prepared, err
		}
		if pause == nil {
			pause = loop.NewPauses(every, 15*time.Second)
		}
		// The wait lasts at least until the gate, which this answer closed, lets a probe through.
		wait := max(pause.NextBackOff(), dlt.RetryAfter(err), g.closedFor(time.Now()))
		if try >= retries || wall.Until(until)-wait < s.options.RequestTimeout || !loop.Sleep(ctx, wait) || !s.requestFits(until) {
			return post, prepared, err
		}
	}
}

// wasSent reports whether there was a request.
func wasSent(p store.Post) bool { return p.Batches > 0 }

// postOnce makes one request, bounded by the request timeout and by the claim. A stop of the
// Runner does not cut the request off: that would leave a doubt although an answer is near.
func (s *sender) postOnce(ctx context.Context, claims []store.Claim, payloads [][]byte, prepared []byte, lane [][]byte, until time.Time) (err error) {
	ctx, cancel := s.requestContext(context.WithoutCancel(ctx), until)
	defer cancel()
	if s.options.Trace != nil {
		limit, _ := ctx.Deadline()
		var end func(error)
		ctx, end = s.options.Trace(ctx, claims)
		if end != nil {
			defer func() { end(err) }()
		}
		if at, has := ctx.Deadline(); !has || at.After(limit) {
			var stop context.CancelFunc
			ctx, stop = s.requestContext(ctx, until)
			defer stop()
		}
	}
	if len(claims) == 1 {
		c := claims[0]
		return s.ledger.Submit(ctx, batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payloads[0], Prepared: prepared, Lane: lane, Withdrawn: c.Withdrawn})
	}
	return s.ledger.SubmitList(ctx, attemptsOf(claims, payloads))
}

// requestContext returns ctx with the request timeout or the claim's end as its deadline.
func (s *sender) requestContext(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(s.options.RequestTimeout, wall.Until(until)))
}

// requestFits reports whether a whole request still fits before until, even if the machine was
// suspended since until was computed.
func (s *sender) requestFits(until time.Time) bool {
	return wall.Until(until) >= s.options.RequestTimeout
}
