package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/store"
)

// AddTx is Add in the application's own transaction: tx is what the Tx method of the Runner's store
// makes of it. It checks batches locally, as the ledger would. The Tx method's documentation states
// the rules for the transaction. Call Wake after the commit. After an error nothing of this call is
// part of the transaction.
func (r *Runner) AddTx(ctx context.Context, tx store.Tx, batches ...batch.Batch) error {
	if isnil.Is(tx) {
		return fmt.Errorf("add in a transaction: %w", &batch.InputError{Field: "tx", Value: "nil", Want: "what the Tx method of the store returns"})
	}
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	batches = r.events.Traced(ctx, batches)
	return r.engine.Call(ctx, "add_tx", len(batches), func() error { return tx.Add(ctx, batches...) })
}

// Check is the local check of Add and AddTx. It returns a [*batch.InputError] for a batch that
// the ledger would refuse or fail to process. It returns nil where the ledger's traits declare
// no check. It stores and sends nothing.
func (r *Runner) Check(b batch.Batch) error { return r.engine.Check(b) }

// checkAll returns the first error of Check.
func (r *Runner) checkAll(batches []batch.Batch) error {
	for _, b := range batches {
		if err := r.Check(b); err != nil {
			return err
		}
	}
	return nil
}
