package sqlite

import (
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func chooseSerially(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

func newBatch(service string, n int) batch.Batch {
	return batch.Batch{
		ID: batch.ID(fmt.Sprintf("%0128x", n)), Service: batch.ServiceID(service), Payload: fmt.Appendf(nil, "payload %d", n),
		Transactions: []batch.Transaction{{ID: fmt.Sprintf("%0127xf", n), FamilyName: "intkey", FamilyVersion: "1.0", SignerPublicKey: "02"}},
	}
}

var resendForEver = store.Resend{HarmlessFor: 1<<63 - 1}

func claimQuery(lanes ...batch.ServiceID) store.ClaimQuery {
	return store.ClaimQuery{Lanes: lanes, Limit: 100, Window: 4, TTL: time.Minute,
		Resend: func(batch.ServiceID) store.Resend { return resendForEver }}
}
