package main

import (
	"crypto/rand"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// buildBatches signs n batches for the lanes in turn. The first batch of a lane sets a counter and
// the others add to it, so that a wrong order or a duplicate would show.
func buildBatches(n, lanes int) ([]batch.Batch, error) {
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		return nil, err
	}
	all := make([]batch.Batch, n)
	for i := range all {
		lane := fmt.Sprintf("lane-%03d", i%lanes)
		payload, address := sawtoothtest.Inc(lane, 1)
		if i < lanes {
			payload, address = sawtoothtest.Set(lane, 1)
		}
		all[i], err = sawtooth.Build(key, batch.ServiceID(lane), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
