package evm_test

import (
	"context"
	"fmt"
	"math/big"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// A Runner's calls of a client, step by step: a signed payment is committed once a block that is
// deep enough contains it. The examples of the root package have a Runner, alternatives and
// intents.
func Example() {
	node, err := evmtest.Listen(&evmtest.Options{BlockTime: -1}) // your own node may be at http://localhost:8545
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ledger, err := evm.New(node.URL(), 1337, &evm.Options{Finality: evm.After(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.CloseIdleConnections()

	signed, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(1).Address(), Value: big.NewInt(5)})
	b, err := evm.NewBatch(signed) // its id is the hash, and its service the account that signed
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println("check:", ledger.Check(b))
	fmt.Println("submit:", ledger.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
	for range 3 {
		node.Mine()
		statuses, err := ledger.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key(), Number: 1}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(statuses[0].Reported)
	}
	// Output:
	// check: <nil>
	// submit: <nil>
	// valid
	// valid
	// committed
}

// An intent is a payment that nobody has signed yet. The caller chooses its id.
func ExampleIntent_Batch() {
	payment := evm.Intent{To: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", Value: big.NewInt(1_000_000)}
	b, err := payment.Batch("invoice 4711", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
	fmt.Println(b.ID, "of", b.Service, err)
	fmt.Println(string(b.Payload))
	// Output:
	// invoice 4711 of 0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266 <nil>
	// {"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","value":"1000000"}
}
