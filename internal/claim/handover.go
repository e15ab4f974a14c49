package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/wall"
	"github.com/dltbatch/dltbatch/store"
)

// errNotLoaded marks a claim that was put back because its payloads could not be loaded.
var errNotLoaded = errors.New("load payloads")

// errTooLate marks a claim that was put back because no request fits into the rest of its time.
var errTooLate = errors.New("put back")

// handOver loads the payloads that did not come with the claim, and gives the claimed runs to the
// submitter. It returns how many batches it gave. If the payloads cannot be loaded, or no request
// fits any more, it puts the claims back. It loads before it calls Claimed, which may take long:
// otherwise the load could fail because ctx has ended, and the same batches would be claimed and
// put back for ever.
func (c *claimer) handOver(ctx context.Context, claimed store.Claimed, until time.Time) (n int, err error) {
	var refs []store.Ref
	for _, r := range claimed.Runs {
		n += len(r.Batches)
		for _, b := range r.Batches {
			if _, has := claimed.Payloads[b.Row]; !has {
				refs = append(refs, b.Ref)
			}
		}
	}
	loaded, err := c.loadPayloads(ctx, refs)
	if err != nil {
		c.putBack(claimed.Runs)
		return 0, fmt.Errorf("%w: %w", errNotLoaded, err)
	}
	for _, r := range claimed.Runs {
		c.options.Claimed(ctx, r)
	}
	if n > 0 && wall.Until(until) < c.options.RequestTime {
		// The submitter would put the run back without a report, and the lane would be claimed
		// again at once.
		c.putBack(claimed.Runs)
		return 0, fmt.Errorf("%w: the claim took so long that no request fits into the rest of it: a longer ClaimTTL than %s is needed, or a quicker database", errTooLate, c.options.Query.TTL)
	}
	payloads := make([][]byte, 0, n) // those of all runs
	for _, r := range claimed.Runs {
		from := len(payloads)
		for _, b := range r.Batches {
			payload, has := claimed.Payloads[b.Row]
			if !has {
				payload, loaded = loaded[0], loaded[1:]
			}
			if payload == nil { // the payload is lost or was never complete: only its own lane waits
				c.options.Held(r.Service, fmt.Errorf("payload of %s: %w", b.Key, batch.ErrNotFound))
			}
			payloads = append(payloads, payload)
		}
		c.submitter.Post(r, payloads[from:], until)
	}
	return n, nil
}

// putBack returns the batches of runs that will not be posted.
func (c *claimer) putBack(runs []store.ClaimedRun) {
	for _, r := range runs {
		c.submitter.Return(r.Batches)
	}
}

// loadPayloads returns payloads in the order of refs.
func (c *claimer) loadPayloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	payloads, err := c.store.Payloads(ctx, refs)
	if err == nil && len(payloads) != len(refs) {
		err = fmt.Errorf("%d payloads for %d claims", len(payloads), len(refs))
	}
	return payloads, err
}
