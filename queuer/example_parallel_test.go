package queuer_test

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
)

// transferred declares the addresses of a transfer, on your own ledger, before the batch is
// added. A separator ends the names, so that no name is a prefix of another.
func transferred(id batch.ID, from, to string) batch.Batch {
	return batch.Batch{
		ID: id, Service: "bank", Payload: []byte("transfer " + from + " " + to),
		Footprint: batch.Footprint{
			Reads:  []string{"rates/"}, // any of them
			Writes: []string{"account/" + from + "/", "account/" + to + "/"},
		},
	}
}

// Some batches leave at once, and others wait for them.
func ExampleParallel() {
	lane := batch.Lane{Service: "bank"}
	for _, b := range []batch.Batch{
		transferred("1", "ann", "bob"),
		transferred("2", "cid", "dee"),
		transferred("3", "bob", "eve"),                                        // after 1
		transferred("4", "eve", "fay"),                                        // after 3
		{ID: "5", Footprint: batch.Footprint{Writes: []string{"rates/usd/"}}}, // after all that read rates
	} {
		lane.Batches = append(lane.Batches, batch.Waiting{ID: b.ID, State: batch.Queued, Ready: true, Footprint: b.Footprint})
	}
	for _, run := range (&queuer.Parallel{}).Select(lane) {
		fmt.Println(lane.Batches[run[0]].ID)
	}
	// Output:
	// 1
	// 2
}

// Batches as Grid's own client makes them, and the same with the addresses that they touch.
func ExampleLint() {
	const grid = "621dee" // the namespace
	var wide, narrow []batch.Batch
	for i := range 100 {
		address := fmt.Sprintf("%s%064x", grid, i)
		wide = append(wide, batch.Batch{Service: "grid", Footprint: batch.Footprint{Reads: []string{grid}, Writes: []string{grid}}})
		narrow = append(narrow, batch.Batch{Service: "grid", Footprint: batch.Footprint{Reads: []string{address}, Writes: []string{address}}})
	}
	fmt.Println(queuer.Lint(wide, nil))
	fmt.Println(queuer.Lint(narrow, nil))
	// Output:
	// 100 batches in 1 lane: 100 rounds with conflict-aware lanes, 100 one by one.
	// Nothing is gained: every batch waits for the one before it.
	// 100 declare whole namespaces. Whole namespaces gain nothing: such a batch waits for all others of the namespace, and they for it. Declare the addresses that it touches.
	// The namespace 621dee is declared by 100 and written by 100 of them: while one that writes it is open, none of the others leaves.
	//
	// 100 batches in 1 lane: 1 round with conflict-aware lanes, 100 one by one.
	// That is 100.0 times as fast, as far as waiting for the ledger goes.
	// 100 declare single addresses only.
}
