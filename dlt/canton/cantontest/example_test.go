package cantontest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// A transfer takes effect in the participant's book once its submission is completed. In a test
// the first line is cantontest.Start(t, nil), and nothing has to be closed.
func Example() {
	participant, err := cantontest.Listen(&cantontest.Options{Balance: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer participant.Close()
	ledger, err := canton.New(participant.URL(), &canton.Options{UserID: "app"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.CloseIdleConnections()
	key := batch.Key{Service: "Alice::1220", ID: "batch-1"}
	payload := cantontest.Payload(cantontest.Transfer{To: "Bob::1220", Amount: 5})
	fmt.Println(ledger.Submit(context.Background(), batch.Attempt{Key: key, Number: 1, Payload: payload}))
	for participant.Balance("Bob::1220") == 100 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(participant.Balance("Alice::1220"), participant.Balance("Bob::1220"))
	fmt.Println(participant.Check(map[batch.ServiceID][]batch.ID{key.Service: {key.ID}}))
	// Output:
	// <nil>
	// 95 105
	// <nil>
}
