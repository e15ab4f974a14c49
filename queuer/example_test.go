package queuer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The ledger takes a quarter of a second for a commit, and keeps the order of submission. Eight
// batches at a time are under way, and are committed in order.
func ExamplePipelined() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 250 * time.Millisecond})
	runner, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(8)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 8 {
		b := batch.Batch{Service: "shipments", ID: batch.ID(fmt.Sprintf("b%d", i)), Payload: []byte("x")}
		if err := runner.Add(ctx, b); err != nil {
			fmt.Println(err)
			return
		}
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runner.Run(running) }()
	if err := runner.Idle(ctx); err != nil {
		fmt.Println(err)
	}
	stop()
	fmt.Println(ledger.Log("shipments"), <-done)

	_, err = dltbatch.New(memory.New(), unorderedLedger{ledger}, &dltbatch.Options{Strategy: queuer.Pipelined(8)})
	fmt.Println(errors.Is(err, batch.ErrInvalidInput))
	// Output:
	// [b0 b1 b2 b3 b4 b5 b6 b7] <nil>
	// true
}

// unorderedLedger is a ledger that executes batches in any order.
type unorderedLedger struct{ *ledgermem.Ledger }

func (l unorderedLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	t.KeepsOrder = false
	return t
}
