package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The example lists batches that have waited for longer than an hour, page by page, and counts the
// open batches of each lane. Every store can do this, in any process.
func Example_listAndCounts() {
	ctx, st := context.Background(), memory.New()
	for _, b := range []batch.Batch{{Service: "air", ID: "a1"}, {Service: "sea", ID: "s1"}, {Service: "sea", ID: "s2"}} {
		b.Payload = []byte("goods")
		if err := st.Add(ctx, b); err != nil {
			fmt.Println(err)
			return
		}
	}
	st.StepClock(2 * time.Hour) // only the memory store has StepClock, for tests
	if err := st.Add(ctx, batch.Batch{Service: "sea", ID: "s3", Payload: []byte("goods")}); err != nil {
		fmt.Println(err)
		return
	}

	q := store.ListQuery{States: []batch.State{batch.Queued}, OlderThan: time.Hour, Limit: 2}
	for {
		page, next, err := st.List(ctx, q)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, rec := range page {
			fmt.Println(rec.Key, rec.State)
		}
		if next == "" {
			break
		}
		q.After = next
	}

	lanes, err := st.Counts(ctx, store.CountsQuery{Start: true})
	for _, lane := range lanes {
		fmt.Println(lane.Service, lane.Waiting)
	}
	fmt.Println(err)
	// Output:
	// air/a1 queued
	// sea/s1 queued
	// sea/s2 queued
	// air 1
	// sea 3
	// <nil>
}

// Store shows how the code of a new store begins: see docs/stores.md.
type Store struct {
	store.Unimplemented
	// the maps, or the connections to a database
}

// Abilities declares the groups of methods that this store has.
func (s *Store) Abilities() store.Abilities { return store.CanList | store.CanPrune }
