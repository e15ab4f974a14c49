package autobatch_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// An Engine beside a Runner, on one store. Each gives the other hints; neither needs them.
func Example() {
	st := memory.New() // a database, so that nothing is lost with the process
	build := func(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
		var ids, lines []string
		for _, o := range orders {
			ids, lines = append(ids, string(o.ID)), append(lines, string(o.Payload))
		}
		// dlt/sawtooth and dlt/canton have Builders for their ledgers.
		return batch.Batch{ID: batch.ID(strings.Join(ids, "+")), Service: party, Payload: []byte(strings.Join(lines, "\n"))}, nil
	}
	var runner *dltbatch.Runner
	engine, err := autobatch.New(st, order.BuilderFunc(build), &autobatch.Options{
		MaxSize: 3,
		Wake:    func(party batch.ServiceID) { runner.Wake(party) },
	})
	if err != nil {
		log.Fatal(err)
	}
	runner, err = dltbatch.New(st, ledger.New(nil), &dltbatch.Options{Observer: engine})
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	err = engine.Add(ctx,
		order.Order{ID: "o1", Party: "Alice", Payload: []byte("5 to Bob")},
		order.Order{ID: "o2", Party: "Alice", Payload: []byte("7 to Carol")},
		order.Order{ID: "o3", Party: "Dave", Payload: []byte("1 to Bob")},
	)
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = runner.Run(ctx) })
	running.Go(func() { _ = engine.Run(ctx) })
	for _, id := range []order.ID{"o1", "o2", "o3"} {
		rec, err := engine.Await(ctx, id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rec.ID, rec.State, "in", rec.Batch)
	}
	cancel()
	running.Wait()
	// Output:
	// o1 confirmed in o1+o2
	// o2 confirmed in o1+o2
	// o3 confirmed in o3
}
