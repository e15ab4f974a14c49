package main

import (
	"crypto/rand"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// The circuits of the example. With version 2 only the coordinator is used, as package splinter
// advises. With version 1 both services are used: sometimes they propose at the same time, and
// then one proposal is rolled back.
var (
	circuits = []splintertest.Circuit{
		{ID: "aaaaa-bbbbb", Version: 2, Services: []string{"a000", "a001"}},
		{ID: "ccccc-ddddd", Version: 1, Services: []string{"a000", "a001"}},
	}
	lanes = []batch.ServiceID{"aaaaa-bbbbb::a000", "ccccc-ddddd::a000", "ccccc-ddddd::a001"}
)

// build signs the steps of one counter for each service. A step that is executed twice counts
// twice, so that a duplicate would show.
func build(key sawtooth.Signer, n int) ([]batch.Batch, error) {
	batches := make([]batch.Batch, n)
	for i := range batches {
		lane := i % len(lanes)
		payload, address := splintertest.Inc(fmt.Sprintf("counter-%d", lane), 1)
		b, err := sawtooth.Build(key, lanes[lane], sawtooth.Transaction{
			FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: rand.Text(),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			return nil, err
		}
		batches[i] = b
	}
	return batches, nil
}

// faults loses one POST or answer in thirty. A third of these are lost before the node gets the
// batch, and a third after. For the last third the connection ends first, and the node gets the
// batch a moment later.
func faults(asked *queryCounter) *splintertest.Faults {
	return &splintertest.Faults{
		ResetBefore: 0.011, ResetAfter: 0.011, Late: 0.011, MaxLateDelay: lateArrival / 2,
		Request: asked.countQuery,
	}
}
