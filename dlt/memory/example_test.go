package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	store "github.com/dltbatch/dltbatch/store/memory"
)

// A ledger for the tests of a service. It executes every batch that it gets, so a batch that is
// sent twice is twice in its log. Here the answer about b1 is lost, and the ledger decides
// against b2.
func Example() {
	traits := memory.Unforgiving(20 * time.Millisecond)
	ledger := memory.New(&memory.Options{Traits: &traits, Fault: func(a batch.Attempt) memory.Fault {
		switch {
		case a.ID == "b1" && a.Number == 1:
			return memory.Fault{Kind: memory.LostReply}
		case a.ID == "b2":
			return memory.Fault{DecideAgainst: true}
		}
		return memory.Fault{}
	}})
	runner, err := dltbatch.New(store.New(), ledger, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	for _, id := range []batch.ID{"b1", "b2", "b3"} {
		b := batch.Batch{Service: "shipments", ID: id, Payload: []byte("tea")}
		if err := runner.Add(ctx, b); err != nil {
			fmt.Println(err)
		}
		rec, err := runner.Await(ctx, b.Key())
		fmt.Println(rec.ID, rec.State, "after", rec.Attempt, "attempt,", err)
	}
	fmt.Println(ledger.Log("shipments"), ledger.Verify(nil))
	stop()
	fmt.Println(<-ended)
	// Output:
	// b1 committed after 1 attempt, <nil>
	// b2 invalid after 1 attempt, <nil>
	// b3 committed after 1 attempt, <nil>
	// [b1 b3] <nil>
	// <nil>
}
