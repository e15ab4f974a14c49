package operator_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// printCauses prints the groups of waiting batches, the largest first, and what would move each of
// them.
func printCauses(ctx context.Context, desk *operator.Desk) error {
	causes, err := desk.Causes(ctx, operator.CausesQuery{})
	if err != nil {
		return err
	}
	for _, g := range causes.Groups {
		fmt.Println(g.Batches, "batches in", g.Lanes, "lanes:", g.Cause, "->", g.Remedy)
		fmt.Println("  for example", g.Example.ID, g.Example.Text)
	}
	return nil
}

// cancelAll cancels the batches that a filter selects, after a person has agreed to the preview.
func cancelAll(ctx context.Context, desk *operator.Desk, f operator.Filter, by batch.By, agree func(operator.Selection) bool) error {
	seen, err := desk.Preview(ctx, operator.Bulk{Action: batch.ActionCancel, Filter: f})
	if err != nil || !agree(seen) {
		return err
	}
	report, err := desk.Run(ctx, seen, by, nil)
	fmt.Println(report.Done, "cancelled")
	for _, b := range report.NotDone {
		fmt.Println("not", b.ID, b.Why)
	}
	return err
}

// A person who has only the store finds out that a service was paused, and cancels the batches
// that nobody needs any more.
func Example() {
	ctx, by := context.Background(), batch.By{Actor: "ada", Reason: "ticket 17"}
	st := memory.New()
	desk, err := operator.New(st)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []batch.ID{"b1", "b2", "b3"} {
		if err := st.Add(ctx, batch.Batch{Service: "shipments", ID: id, Payload: []byte("x")}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := desk.Pause(ctx, batch.Only("shipments"), by); err != nil {
		fmt.Println(err)
		return
	}
	if err := printCauses(ctx, desk); err != nil {
		fmt.Println(err)
	}
	for rec, err := range desk.All(ctx, store.ListQuery{Open: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec)
	}
	paused := operator.Filter{Causes: []batch.Cause{batch.CausePaused}}
	if err := cancelAll(ctx, desk, paused, by, func(s operator.Selection) bool { return len(s.Batches) == 3 }); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 3 batches in 1 lanes: paused -> resume
	//   for example b1 queued: service "shipments" was paused by ada (ticket 17); resume it
	// shipments/b1: queued
	// shipments/b2: queued
	// shipments/b3: queued
	// 3 cancelled
}
