package main

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// prove compares the nodes' journal with the batches. It uses no record of the Runner.
func prove(network *splintertest.Network, batches []batch.Batch) error {
	order := map[batch.ServiceID][]batch.ID{}
	for _, b := range batches {
		order[b.Service] = append(order[b.Service], b.ID)
	}
	if err := network.Check(order); err != nil { // executed twice, or out of order
		return fmt.Errorf("the nodes' journal says: %w", err)
	}
	for service, ids := range order {
		executed := map[batch.ID]bool{}
		for _, id := range network.Executions(service) {
			executed[id] = true
		}
		for _, id := range ids {
			if !executed[id] {
				return fmt.Errorf("the nodes' journal says: %s/%.12s was never executed", service, id)
			}
		}
	}
	return nil
}

// countRolledBack counts the proposals that were rolled back because two proposals were made at
// the same time.
func countRolledBack(network *splintertest.Network) (n int) {
	for _, e := range network.Journal() {
		if e.Kind == splintertest.Executed && e.Word == "Rejected" {
			n++
		}
	}
	return n
}
