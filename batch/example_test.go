package batch_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// An Observer follows two batches of one lane. The Runner calls it after each write, so the events
// of a lane come in order. It must be quick and safe for concurrent calls.
func ExampleObserver() {
	observer := batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		switch {
		case e.Kind == batch.EventAdded, e.Kind == batch.EventFinal:
			fmt.Println(e.Kind, e.Key, e.State)
		case e.Err != nil: // errors for a log or a counter: a trouble, a breach of order
			fmt.Println(e.Kind, e.Err)
		}
	})
	runner, err := dltbatch.New(memory.New(), ledger.New(nil), &dltbatch.Options{Observer: observer})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = runner.Add(ctx,
		batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("tea")},
		batch.Batch{Service: "shipments", ID: "b2", Payload: []byte("invalid")}) // this ledger answers Invalid about it
	if err != nil {
		fmt.Println(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	if err := runner.Idle(ctx); err != nil {
		fmt.Println(err)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// added shipments/b1 queued
	// added shipments/b2 queued
	// final shipments/b1 committed
	// final shipments/b2 invalid
	// <nil>
}
