package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/store"
)

// AddTx is Add in the application's own transaction: tx is what the Tx method of the Runner's store
// makes of it, st.Tx(tx). [store.Tx] lists the kinds of transactions. A nil tx, and the Tx of another
// store, give a [*batch.InputError]. AddTx checks batches locally, as the ledger would. The Tx method's documentation states
// the rules for the transaction. Call Wake after the commit. After an error nothing of this call is
// part of the transaction.
func (r *Runner) AddTx(ctx context.Context, tx store.Tx, batches ...batch.Batch) error {
	if err := r.checkTx(tx); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	batches = r.events.Traced(ctx, batches)
	return r.engine.Call(ctx, "add_tx", len(batches), func() error { return tx.Add(ctx, batches...) })
}

// checkTx refuses a Tx that would store the batches where this Runner does not look for them.
func (r *Runner) checkTx(tx store.Tx) error {
	const want = "st.Tx(tx), where st is the store of this Runner and tx your transaction: a *sql.Tx for store/postgres and store/sqlite, " +
		"a pgx.Tx for store/postgres/native, a *memory.Tx for store/memory"
	switch {
	case isnil.Is(tx):
		return &batch.InputError{Field: "tx", Value: "nil", Want: want}
	case !r.engine.Store().Owns(tx):
		return &batch.InputError{Field: "tx", Value: fmt.Sprintf("%T of another store", tx), Want: want}
	}
	return nil
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
