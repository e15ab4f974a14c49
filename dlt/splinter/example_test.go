package splinter_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// A batch goes to a scabbard service, and an event of the node reports its commit.
func Example() {
	net, err := splintertest.Listen(nil) // or use a node of your own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer net.Close()
	service := net.Service(0)

	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger, err := splinter.New(net.URL(0), &splinter.Options{Token: splinter.CylinderToken(key)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.CloseIdleConnections()

	payload, address := splintertest.Set("answer", 42)
	b, err := sawtooth.Build(key, service, sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("check:", ledger.Check(b))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = ledger.Events(ctx, []batch.ServiceID{service}, func(e dlt.Event) error {
		if e.Live {
			return ledger.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
		}
		for _, s := range e.Statuses {
			fmt.Println(s.ID == b.ID, s.Reported)
			cancel()
		}
		return nil
	})
	fmt.Println(err, net.State(service)["answer"])
	// Output:
	// check: <nil>
	// true committed
	// <nil> 42
}
