package main

import (
	"crypto/rand"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// builder signs batches for the lanes in turn. The first batch of a lane sets a counter and
// the others add to it, so that a missing order or a duplicate would show.
type builder struct {
	key   sawtooth.Signer
	lanes int
	built []batch.Batch
}

func newBuilder(lanes int) (*builder, error) {
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		return nil, err
	}
	return &builder{key: key, lanes: lanes}, nil
}

// next builds n more.
func (b *builder) next(n int) ([]batch.Batch, error) {
	from := len(b.built)
	for i := from; i < from+n; i++ {
		lane := fmt.Sprintf("lane-%03d", i%b.lanes)
		payload, address := sawtoothtest.Inc(lane, 1)
		if i < b.lanes {
			payload, address = sawtoothtest.Set(lane, 1)
		}
		one, err := sawtooth.Build(b.key, batch.ServiceID(lane), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			return nil, err
		}
		b.built = append(b.built, one)
	}
	return b.built[from:], nil
}
