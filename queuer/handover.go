package queuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// errPayloads marks a claim that was made, and put back because its payloads did not load.
var errPayloads = errors.New("load payloads")

// handOver gives the claimed runs to the submitter, and loads the payloads that did not come
// with the claim. If they cannot be loaded, it puts the claims back.
func (q *Queuer) handOver(ctx context.Context, claimed store.Claimed, until time.Time) error {
	var refs []store.Ref
	for _, r := range claimed.Runs {
		q.o.Claimed(r)
		for _, c := range r.Batches {
			if _, has := claimed.Payloads[c.Row]; !has {
				refs = append(refs, c.Ref)
			}
		}
	}
	loaded, err := q.load(ctx, refs)
	if err != nil {
		q.putBack(claimed.Runs)
		return fmt.Errorf("%w: %w", errPayloads, err)
	}
	payloads := merge(claimed, loaded)
	for _, r := range claimed.Runs {
		mine := payloads[:len(r.Batches)]
		payloads = payloads[len(r.Batches):]
		for i, c := range r.Batches {
			if mine[i] == nil { // the payload is gone, or was never complete: only its own lane waits
				q.o.Held(r.Service, fmt.Errorf("payload of %s: %w", c.Key, batch.ErrNotFound))
			}
		}
		q.sub.Post(r, mine, until)
	}
	return nil
}

// putBack returns the batches of runs that will not be posted.
func (q *Queuer) putBack(runs []store.ClaimedRun) {
	for _, r := range runs {
		q.sub.Return(r.Batches)
	}
}

// merge returns the payloads of the claimed batches, in order: from the claim, or from loaded.
func merge(claimed store.Claimed, loaded [][]byte) [][]byte {
	if len(claimed.Payloads) == 0 {
		return loaded
	}
	all := make([][]byte, 0, len(claimed.Payloads)+len(loaded))
	for _, r := range claimed.Runs {
		for _, c := range r.Batches {
			payload, has := claimed.Payloads[c.Row]
			if !has {
				payload, loaded = loaded[0], loaded[1:]
			}
			all = append(all, payload)
		}
	}
	return all
}

// load returns payloads in the order of refs.
func (q *Queuer) load(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	payloads, err := q.store.Payloads(ctx, refs)
	if err == nil && len(payloads) != len(refs) {
		err = fmt.Errorf("%d payloads for %d claims", len(payloads), len(refs))
	}
	return payloads, err
}
