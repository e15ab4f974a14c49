package dltbatch

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// AddTx is Add in the application's own transaction. It checks batches locally, as the ledger
// would, and calls the store's AddTx, whose documentation states the rules for the
// transaction. Call Wake after the commit. After an error nothing of this call is part of the
// transaction. A store without an AddTx gives [store.ErrUnsupported].
//
// The AddTx of a store knows no ledger. If you call it directly, it stores even a batch that
// the ledger cannot read, and such a batch blocks its lane until a person cancels it.
func (r *Runner) AddTx(ctx context.Context, tx *sql.Tx, batches ...batch.Batch) error {
	return AddTx(ctx, r, tx, batches...)
}

// AddTx is [Runner.AddTx] in a transaction of another kind than database/sql's: Tx is the type that
// the AddTx of the Runner's store takes. So it works with pgx's transactions, for example, and package store/postgres/native. A
// store whose AddTx takes another kind gives [store.ErrUnsupported]: if tx is of a type of your
// own that implements the interface, name the interface, as in AddTx[pgx.Tx].
func AddTx[Tx any](ctx context.Context, r *Runner, tx Tx, batches ...batch.Batch) error {
	s, ok := r.engine.Given().(interface {
		AddTx(ctx context.Context, tx Tx, batches ...batch.Batch) error
	})
	if !ok {
		return fmt.Errorf("add in a transaction: %w: %T has no AddTx with a %s", store.ErrUnsupported, r.engine.Given(), reflect.TypeFor[Tx]())
	}
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add in a transaction: %w", err)
	}
	batches = r.events.Traced(ctx, batches)
	return r.engine.Call(ctx, "add_tx", len(batches), func() error { return s.AddTx(ctx, tx, batches...) })
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
