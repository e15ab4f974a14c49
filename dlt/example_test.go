package dlt_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// notary is a client with the three methods that every client has. Its ledger commits at once, and
// executes each batch once, however often it is sent. examples/customledger has a complete client.
type notary struct {
	dlt.Unimplemented
	mu       sync.Mutex
	executed map[batch.ID]bool
}

func (*notary) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "notary", ResendHarmlessFor: dlt.Forever}
}

func (n *notary) Submit(_ context.Context, a batch.Attempt) error {
	if len(a.Payload) == 0 {
		return dlt.ErrRejected // refused for good: an empty batch is never accepted
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.executed[a.ID] = true
	return nil
}

func (n *notary) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range attempts {
		s := batch.Status{ID: a.ID, Reported: batch.ReportedUnknown}
		if n.executed[a.ID] {
			s.Reported = batch.ReportedCommitted
		}
		all = append(all, s)
	}
	return all, nil
}

func Example() {
	var ledger dlt.Ledger = &notary{executed: map[batch.ID]bool{}}
	ctx, key := context.Background(), batch.Key{Service: "deeds", ID: "b1"}
	err := ledger.Submit(ctx, batch.Attempt{Key: key, Number: 1})
	fmt.Println("without a payload:", dlt.Kind(err))
	fmt.Println("with one:", ledger.Submit(ctx, batch.Attempt{Key: key, Number: 2, Payload: []byte("deed")}))
	statuses, err := ledger.BatchStatuses(ctx, "deeds", []batch.Attempt{{Key: key, Number: 2}})
	fmt.Println(statuses[0].Reported, err)
	// An error without a kind is doubt: the attempt may have taken effect.
	fmt.Println(dlt.Kind(errors.New("connection reset")))
	// Output:
	// without a payload: rejected
	// with one: <nil>
	// committed <nil>
	// doubt
}
