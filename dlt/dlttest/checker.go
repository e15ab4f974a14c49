package dlttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func checkerChecks() []Check {
	checker := func(name, promise string, run func(e *checkRun)) Check {
		return Check{Name: "Check/" + name, Promise: promise, run: func(e *checkRun) {
			if !e.traits.Checks {
				e.Logf("declared: its traits say that it does not check")
				return
			}
			run(e)
		}}
	}
	return []Check{
		checker("good", "what the backend takes passes, before and after it is taken", func(e *checkRun) {
			b := e.newBatch()
			require.NoError(e, e.Ledger.Check(b))
			require.NoError(e, e.submit(b))
			require.NoError(e, e.Ledger.Check(b))
			e.requireBecomes(b, batch.ReportedCommitted)
		}),
		checker("pure", "it changes nothing, sends nothing, and says the same again", func(e *checkRun) {
			for _, b := range append(e.unreadableBatches(), e.newBatch()) {
				before := clone(b)
				first := fmt.Sprint(e.callCheck(b))
				assert.Equal(e, before, b, "Check changed the batch")
				assert.Equal(e, first, fmt.Sprint(e.callCheck(b)))
				assert.Zero(e, e.Posts(b.ID))
			}
		}),
		checker("garbage", "it survives anything, and what it refuses is an input error without the payload", func(e *checkRun) {
			for _, b := range e.unreadableBatches() {
				err := e.callCheck(b)
				if err == nil {
					continue // a ledger need not check payloads
				}
				var inputErr *batch.InputError
				assert.ErrorAs(e, err, &inputErr)
				assert.NotContains(e, err.Error(), "secret")
			}
			assert.Error(e, e.callCheck(batch.Batch{}), "a batch of nothing")
		}),
	}
}

// callCheck calls Check; a panic in it is a failure.
func (e *checkRun) callCheck(b batch.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			assert.Fail(e, "Check panicked", "%v on %+v", p, b)
		}
	}()
	return e.Ledger.Check(b)
}

// unreadableBatches returns batches as a bug may make them: a good batch with parts cut off,
// changed or added.
func (e *checkRun) unreadableBatches() []batch.Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	good := e.newBatch()
	out := []batch.Batch{{}, {ID: "x"}, {Payload: noise(1)}}
	bend := func(f func(b *batch.Batch)) {
		b := clone(good)
		f(&b)
		out = append(out, b)
	}
	for i := range 64 {
		bend(func(b *batch.Batch) { b.Payload = noise(i * i) })
		bend(func(b *batch.Batch) { b.Payload = b.Payload[:rng.IntN(len(b.Payload))] })
		bend(func(b *batch.Batch) { b.Payload[rng.IntN(len(b.Payload))] ^= 1 << rng.IntN(8) })
		bend(func(b *batch.Batch) { b.Payload = append(b.Payload, noise(1+i%4)...) })
	}
	bend(func(b *batch.Batch) { b.Payload = bytes.Repeat([]byte{0xff}, 1<<16) })
	bend(func(b *batch.Batch) { b.Payload = bytes.Repeat([]byte{0x0a}, 1<<16) })
	bend(func(b *batch.Batch) { b.ID = batch.ID(noise(64)) })
	bend(func(b *batch.Batch) { b.ID = batch.ID(strings.Repeat("f", 4096)) })
	bend(func(b *batch.Batch) { b.ID = batch.ID(strings.ToUpper(string(b.ID))) })
	bend(func(b *batch.Batch) { b.Service = batch.ServiceID(noise(300)) })
	bend(func(b *batch.Batch) { b.Transactions = make([]batch.Transaction, 3) })
	bend(func(b *batch.Batch) { b.Transactions = []batch.Transaction{{ID: string(noise(64))}} })
	bend(func(b *batch.Batch) { b.SignerPublicKey = string(noise(33)) })
	bend(func(b *batch.Batch) {
		b.Footprint = batch.Footprint{Reads: []string{string(noise(70))}, Writes: []string{""}}
	})
	bend(func(b *batch.Batch) { b.Budget.Attempts = -1 })
	return out
}

func clone(b batch.Batch) batch.Batch {
	b.Payload = bytes.Clone(b.Payload)
	b.Transactions = slices.Clone(b.Transactions)
	b.Footprint = batch.Footprint{Reads: slices.Clone(b.Footprint.Reads), Writes: slices.Clone(b.Footprint.Writes)}
	return b
}
