package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// openingBalance is what each party has at the beginning.
const openingBalance = 1_000_000

// transfer is what somebody asked for.
type transfer struct {
	id   batch.OrderID
	from batch.ServiceID
	cantontest.Transfer
}

// order is the transfer as it is added. Its id is the caller's, so that adding it
// again, after a call of which nobody knows how it ended, is harmless.
func (t transfer) order() (batch.Order, error) {
	payload, err := json.Marshal(t.Transfer)
	return batch.Order{ID: t.id, Party: t.from, Payload: payload}, err
}

func party(i int) string { return fmt.Sprintf("party-%02d::1220", i) }

// draw draws the transfers, the same each time. Nobody can see which are poisonous
// but the participant, which refuses a submission that has one of them: half of
// them at once, half after it was accepted.
func draw(c config) []transfer {
	rng := rand.New(rand.NewPCG(uint64(c.transfers), uint64(c.parties)))
	all := make([]transfer, c.transfers)
	bad := -1
	for i := range all {
		if c.poison > 0 && i%c.poison == 0 {
			bad = i + rng.IntN(c.poison)
		}
		from := i % c.parties
		to := (from + 1 + rng.IntN(c.parties-1)) % c.parties
		t := transfer{id: batch.OrderID(fmt.Sprintf("transfer-%05d", i)), from: batch.ServiceID(party(from))}
		t.Transfer = cantontest.Transfer{To: party(to), Amount: 1 + rng.Int64N(100), Note: string(t.id)}
		if i == bad {
			t.Poison = cantontest.PoisonSync
			if i/c.poison%2 == 1 {
				t.Poison = cantontest.PoisonAsync
			}
		}
		all[i] = t
	}
	return all
}

func poisonous(all []transfer) (n int) {
	for _, t := range all {
		if t.Poison != "" {
			n++
		}
	}
	return n
}
