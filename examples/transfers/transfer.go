package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// openingBalance is the balance of each party at the beginning.
const openingBalance = 1_000_000

// transfer is what a customer asks for.
type transfer struct {
	id   order.ID
	from batch.ServiceID
	cantontest.Transfer
}

// order returns the transfer as an order. The caller chooses its id, so that it is harmless to add
// the order again after a call with an unknown result.
func (t transfer) order() (order.Order, error) {
	payload, err := json.Marshal(t.Transfer)
	return order.Order{ID: t.id, Party: t.from, Payload: payload}, err
}

func partyName(i int) string { return fmt.Sprintf("party-%02d::1220", i) }

// drawTransfers makes the transfers, the same ones each time. Only the participant recognizes an
// invalid transfer. It refuses a submission with one: half of them at once, and half after it
// accepted the submission.
func drawTransfers(c config) []transfer {
	rng := rand.New(rand.NewPCG(uint64(c.transfers), uint64(c.parties)))
	all := make([]transfer, c.transfers)
	bad := -1
	for i := range all {
		if c.poisonInterval > 0 && i%c.poisonInterval == 0 {
			bad = i + rng.IntN(c.poisonInterval)
		}
		from := i % c.parties
		to := (from + 1 + rng.IntN(c.parties-1)) % c.parties
		t := transfer{id: order.ID(fmt.Sprintf("transfer-%05d", i)), from: batch.ServiceID(partyName(from))}
		t.Transfer = cantontest.Transfer{To: partyName(to), Amount: 1 + rng.Int64N(100), Note: string(t.id)}
		if i == bad {
			t.Poison = cantontest.PoisonSync
			if i/c.poisonInterval%2 == 1 {
				t.Poison = cantontest.PoisonAsync
			}
		}
		all[i] = t
	}
	return all
}

func countPoisonous(all []transfer) (n int) {
	for _, t := range all {
		if t.Poison != "" {
			n++
		}
	}
	return n
}
