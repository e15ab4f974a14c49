package splintertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// Scabbard executes a batch each time that it gets it. In a test the first line is
// splintertest.Start(t, nil), and nothing has to be closed.
func Example() {
	net, err := splintertest.Listen(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer net.Close()
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
	service := net.Service(0)
	payload, address := splintertest.Set("answer", 42)
	b, err := sawtooth.Build(key, service, sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ledger.Submit(context.Background(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
	for net.Status(service, b.ID) != "Committed" {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(net.State(service)["answer"], "after", len(net.Executions(service)), "execution and", net.Posts(b.ID), "POST")
	fmt.Println(net.Check(map[batch.ServiceID][]batch.ID{service: {b.ID}}))
	// Output:
	// <nil>
	// 42 after 1 execution and 1 POST
	// <nil>
}
