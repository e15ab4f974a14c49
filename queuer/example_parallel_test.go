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

// Some batches may leave at once, and others wait for them.
func ExampleParallel() {
	lane := batch.Lane{Service: "bank"}
	for _, b := range []batch.Batch{
		transferred("1", "ann", "bob"),
		transferred("2", "cid", "dee"),
		transferred("3", "bob", "eve"),                                        // after 1
		transferred("4", "eve", "fay"),                                        // after 3
		{ID: "5", Footprint: batch.Footprint{Writes: []string{"rates/usd/"}}}, // after all that read rates
	} {
		lane.Batches = append(lane.Batches, batch.LaneBatch{ID: b.ID, State: batch.Queued, Ready: true, Footprint: b.Footprint})
	}
	for _, run := range queuer.Parallel(0).Select(lane) {
		fmt.Println(lane.Batches[run[0]].ID)
	}
	// Output:
	// 1
	// 2
}
