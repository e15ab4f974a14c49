package canton_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// A Runner's calls of a client, step by step.
func Example() {
	participant, err := cantontest.Listen(nil) // your own participant may be at http://localhost:7575
	if err != nil {
		log.Fatal(err)
	}
	defer participant.Close()
	client, err := canton.New(participant.URL(), &canton.Options{UserID: "app"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()
	ctx := context.Background()

	b := batch.Batch{ID: "batch-1", Service: "Alice::1220", Payload: cantontest.Payload(cantontest.Transfer{To: "Bob::1220", Amount: 5})}
	prepared, err := client.Prepare(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}) // stored before anything is sent
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(prepared))
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload, Prepared: prepared}
	if err := client.Submit(ctx, a); err != nil {
		log.Fatal(err)
	}
	for {
		statuses, err := client.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key(), Number: 1, Prepared: prepared}})
		if err != nil {
			log.Fatal(err)
		}
		if s := statuses[0]; s.Reported == batch.ReportedCommitted {
			fmt.Println(s.ID, s.Reported, "attempt", s.Attempt)
			return
		}
	}
	// Output:
	// {"offset":10}
	// batch-1 committed attempt 1
}
