package memory_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// In a test, a transaction of the store stands for the application's. A batch is stored when the
// transaction is committed.
func Example() {
	ctx := context.Background()
	st := memory.New()
	runner, err := dltbatch.New(st, ledger.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("tea")}
	tx := st.Begin()
	if err := runner.AddTx(ctx, st.Tx(tx), b); err != nil {
		fmt.Println(err)
		return
	}
	_, err = runner.Get(ctx, b.Key())
	fmt.Println("before the commit:", err)
	if err := tx.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	rec, err := runner.Get(ctx, b.Key())
	fmt.Println("after it:", rec, err)
	// Output:
	// before the commit: get: dltbatch: no such batch: shipments/b1
	// after it: shipments/b1: queued <nil>
}
