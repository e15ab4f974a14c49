package main

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store/memory"
)

// instantLedger is a ledger that accepts every batch, and reports it as committed at the first
// question. It allocates only its answers, one slice for each query.
type instantLedger struct{ dlt.Unimplemented }

func (instantLedger) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "instant", ResendHarmlessFor: dlt.Forever, MaxIDsPerQuery: 100}
}

func (instantLedger) Submit(context.Context, batch.Attempt) error { return nil }

func (instantLedger) BatchStatuses(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
	out := make([]batch.Status, len(as))
	for i, a := range as {
		out[i] = batch.Status{ID: a.ID, Reported: batch.ReportedCommitted}
	}
	return out, nil
}

// A batch costs at most this many allocations in this process, from Add to its commit. The figures
// are those of a run on the memory store, without a ledger's client, with a little room for groups
// of other sizes. A change that costs more has to give a reason.
func TestAllocationsOfARun(t *testing.T) {
	budget := map[string]float64{"add": 5.4, "claim": 12.0, "post": 10.4, "record": 1.5, "poll": 1.7, "rest": 0.32} // rest is mostly the start, such as the JSON of a presence
	const n, lanes = 5_000, 500
	w := newWork(1, n, lanes, minPayloadSize)
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	before := readAllocations()
	synctest.Test(t, func(t *testing.T) {
		done := newFinalCounter(w, n)
		r, err := dltbatch.New(memory.New(), instantLedger{}, &dltbatch.Options{Observer: done})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		for group := range slices.Chunk(w.batches, addGroup) {
			require.NoError(t, r.Add(ctx, group...))
		}
		<-done.allFinal
		stop()
		require.NoError(t, <-ended)
	})
	u := readAllocations().allocatedSince(before, n)
	for i, s := range allocationStages {
		if got, most := u.stages[i], budget[s.name]; got > most {
			t.Errorf("%s: %.2f allocations a batch, want at most %.2f; most of them in%s", s.name, got, most, u.largestPlaces(i))
		} else {
			t.Logf("%s: %.2f a batch; most of them in%s", s.name, got, u.largestPlaces(i))
		}
	}
}
