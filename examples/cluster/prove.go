package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// connectionTolerance is how much later than the kill the node may notice that the killed worker's
// connection has ended.
const connectionTolerance = 50 * time.Millisecond

// prove compares the node's journal with the batches that were added. It uses no record of the
// workers.
func prove(out io.Writer, journal []sawtoothtest.Entry, added []batch.Batch, kills int, took time.Duration) error {
	lane, order := map[batch.ID]string{}, map[string][]batch.ID{}
	for _, b := range added {
		lane[b.ID] = string(b.Service)
		order[string(b.Service)] = append(order[string(b.Service)], b.ID)
	}
	posted, waited, posts := map[batch.ID]time.Time{}, []time.Duration{}, 0
	for _, e := range journal {
		for _, id := range e.Batches {
			switch e.Kind {
			case sawtoothtest.PostStart:
				posts++
				if _, again := posted[id]; !again {
					posted[id] = e.Time
				}
			case sawtoothtest.BlockCommitted:
				waited = append(waited, e.Time.Sub(posted[id]))
			}
		}
	}
	fmt.Fprintf(out, "\nThe node's journal, which no worker writes, after %d kills:\n", kills)
	fmt.Fprintf(out, "  committed  %d of %d\n", len(waited), len(added))
	fmt.Fprintf(out, "  sent       %d times, %d of them again: what had died on the way, as the node said when it was asked\n", posts, posts-len(posted))
	if err := sawtoothtest.Check(journal, sawtoothtest.Expectation{
		Lane: func(id batch.ID) string { return lane[id] }, Order: order, TimeTolerance: connectionTolerance,
	}); err != nil {
		return fmt.Errorf("THE PROOF FAILS: %w", err)
	}
	slices.Sort(waited)
	at := func(q float64) time.Duration { return waited[int(q*float64(len(waited)-1))].Round(time.Millisecond) }
	fmt.Fprintf(out, "  rate       %.0f batches/s over %.1f s; from the first POST to the block %s p50, %s p99\n",
		float64(len(added))/took.Seconds(), took.Seconds(), at(.5), at(.99))
	fmt.Fprintf(out, "PROVED: every batch exactly once, all %d lanes in order, none lost\n", len(order))
	return nil
}
