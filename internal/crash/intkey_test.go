package crash

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// countingBatches returns n batches that set names and count them up, in turns. Each name is a
// service, unless service is the service of all names.
func countingBatches(t *testing.T, n, names int, service batch.ServiceID) ([]batch.Batch, sawtoothtest.Expectation) {
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	batches := make([]batch.Batch, n)
	nameOf, order := map[batch.ID]string{}, map[string][]batch.ID{}
	for i := range batches {
		name := fmt.Sprint("name", i%names)
		payload, address := sawtoothtest.Inc(name, 1)
		if i < names {
			payload, address = sawtoothtest.Set(name, 1)
		}
		to := service
		if to == "" {
			to = batch.ServiceID(name)
		}
		b, err := sawtooth.Build(key, to, sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		batches[i], nameOf[b.ID] = b, name
		order[name] = append(order[name], b.ID)
	}
	// The node notices only some time after a client's death that the connection is closed. On a
	// busy machine this delay is a large part of claimTTL, after which another child sends again.
	return batches, sawtoothtest.Expectation{
		Lane: func(id batch.ID) string { return nameOf[id] }, Order: order, TimeTolerance: claimTTL / 2,
	}
}
