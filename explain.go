package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
)

// Explain returns why a batch does not move and how it would. It works in any process, whether
// or not Run runs there. It reads and changes nothing; its answer was true at one moment, and
// assumes this Runner's strategy. While its Run posts nothing, because of the ledger, it says so
// of a batch that waits for that. Explain returns [batch.ErrNotFound] or the store's error, which
// is [store.ErrUnsupported] where the store lacks [store.CanInspect].
func (r *Runner) Explain(ctx context.Context, key batch.Key) (batch.Explanation, error) {
	q := r.engine.ClaimQuery()
	look, err := r.engine.Store().Look(ctx, key, q.Window)
	if err != nil {
		return batch.Explanation{Key: key}, fmt.Errorf("explain %s: %w", key, err)
	}
	e := explain.Explain(look, q, r.engine.Choose())
	if look.Row.Final() {
		return e, nil
	}
	if why, kind := r.engine.Closed(key.Service); why != "" && explain.ByLedger(e.Cause, kind) {
		e.Text = explain.WithCause(e, why)
	}
	if e.Cause == batch.CauseClaimed {
		return e, nil
	}
	unserved, err := r.engine.Serves(ctx, key.Service)
	if err != nil {
		return e, fmt.Errorf("explain %s: %w", key, err)
	}
	if unserved != nil {
		e.Owner, e.Cause, e.Remedy, e.Decision = batch.ByOperator, batch.CauseUnserved, batch.RemedyLedger, unserved.Error()
		e.Text = explain.Sentence(e)
	}
	return e, nil
}
