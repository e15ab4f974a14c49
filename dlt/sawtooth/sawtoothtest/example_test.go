package sawtoothtest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// In a test it is sawtoothtest.Start(t, nil), and nothing has to be closed.
func Example() {
	node, err := sawtoothtest.Listen(&sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ledger, err := sawtooth.New(node.URL(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	if err != nil {
		fmt.Println(err)
		return
	}
	payload, address := sawtoothtest.Set("answer", 42)
	b, err := sawtooth.Build(key, "", sawtooth.Transaction{
		FamilyName: sawtoothtest.IntKey.Name, FamilyVersion: sawtoothtest.IntKey.Version,
		Nonce: "1", Outputs: []string{address}, Payload: payload,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ledger.Submit(context.Background(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
	for node.Status(b.ID) != sawtoothtest.Committed {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(node.Value("answer"))
	fmt.Println(node.Check(sawtoothtest.Expectation{Order: map[string][]batch.ID{"": {b.ID}}}))
	// Output:
	// <nil>
	// 42 true
	// <nil>
}
