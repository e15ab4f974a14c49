package shards_test

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/shards"
)

// A lane belongs to one of sixteen shards, and to the same one for ever. The example of the root
// package opens the shards (Example_shards).
func ExampleNumber() {
	for _, lane := range []batch.ServiceID{"customer 17", "customer 18", "customer 19"} {
		fmt.Println(lane, "is on shard", shards.Number(lane, 16))
	}
	// Output:
	// customer 17 is on shard 9
	// customer 18 is on shard 13
	// customer 19 is on shard 3
}
