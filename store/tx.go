package store

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// Tx is a transaction of the application, in which batches are added together with the
// application's own rows. It is made by the Tx method of a store, st.Tx(tx), and is passed to
// Runner.AddTx. The argument has the type of transaction that the store takes, so that the
// compiler refuses any other: a *sql.Tx for store/postgres and store/sqlite, a pgx.Tx for
// store/postgres/native, a *memory.Tx for store/memory.
type Tx interface {
	// Add is [Store].Add in the transaction: the batches are stored when it commits, and gone when
	// it is rolled back. It does not know which batches the ledger can read: call the AddTx of a
	// Runner, which checks that first. A batch that the ledger cannot read is refused when it is
	// sent, or blocks its lane until a person cancels it.
	// After an error nothing of this call is part of the transaction. Call the Runner's Wake after
	// the commit.
	Add(ctx context.Context, batches ...batch.Batch) error
}
