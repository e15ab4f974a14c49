package main

import (
	"crypto/rand"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// build signs the steps of one counter for each service: the first batch sets the counter and the
// others add to it, so that a batch out of order would show.
func build(c config) ([]batch.Batch, error) {
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		return nil, err
	}
	names := make([]string, c.services)
	for i := range names {
		names[i] = rand.Text()[:12] // intkey's names have at most 20 characters
	}
	batches := make([]batch.Batch, c.batches)
	for i := range batches {
		lane := i % c.services
		payload, address := counterStep(names[lane], i < c.services)
		batches[i], err = sawtooth.Build(key, batch.ServiceID(fmt.Sprintf("service-%02d", lane)), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			return nil, err
		}
	}
	return batches, nil
}

func counterStep(name string, first bool) (payload []byte, address string) {
	if first {
		return sawtoothtest.Set(name, 1)
	}
	return sawtoothtest.Inc(name, 1)
}
