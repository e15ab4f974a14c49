package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/store"
)

// AddTx is Add in the application's own transaction: tx is what the Tx method of the Runner's
// store makes of it, st.Tx(tx). [store.Tx] lists the kinds of transactions. A nil tx, the Tx
// of another store, and a transaction of another database give a [*batch.InputError]. AddTx checks
// batches locally, as the ledger would. The Tx method's documentation states the rules for the
// transaction. After an error nothing of this call is part of the transaction.
//
// Call Wake after the commit, so that the batches leave at once. Without it they are looked for
// once, Options.ScanInterval after AddTx, and found later by a scan (docs/design.md#idle).
func (r *Runner) AddTx(ctx context.Context, tx store.Tx, batches ...batch.Batch) error {
	if isnil.Is(tx) {
		return fmt.Errorf("add in a transaction: %w", badTxError("nil"))
	}
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	batches = r.events.Traced(ctx, batches)
	err := r.engine.Call(ctx, "add_tx", len(batches), func() error {
		if !r.engine.Store().Owns(tx) {
			return badTxError(fmt.Sprintf("%T of another store", tx))
		}
		return tx.Add(ctx, batches...)
	})
	if err == nil {
		r.engine.AddedTx(batches)
	}
	return err
}

// badTxError returns the error about a Tx that would store the batches where this Runner does not
// look for them.
func badTxError(value string) error {
	return &batch.InputError{
		Field: "tx", Value: value,
		Want: "st.Tx(tx), where st is the store of this Runner and tx your transaction: a *sql.Tx for store/postgres and store/sqlite, " +
			"a pgx.Tx for store/postgres/native, a *memory.Tx for store/memory",
	}
}

// Check is the local check of Add and AddTx. It returns a [*batch.InputError] for a batch that
// the ledger would refuse or fail to process. It returns nil where the ledger's traits declare
// no check. It stores and sends nothing.
func (r *Runner) Check(b batch.Batch) error { return r.engine.Check(b) }

// checkAll returns the first error of Check, or the reason why no batch may be added at all.
func (r *Runner) checkAll(batches []batch.Batch) error {
	if err := r.engine.TakesBatches(); err != nil {
		return err
	}
	for i, b := range batches {
		err := r.Check(b)
		if err != nil && len(batches) > 1 { // the error of a batch without an id names none
			err = fmt.Errorf("batches[%d]: %w", i, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
