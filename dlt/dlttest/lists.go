package dlttest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// supportsLists reports whether the client's traits declare lists. If they do not, it logs that.
func (e *checkRun) supportsLists() bool {
	e.Helper()
	if e.traits.MaxList < 2 {
		e.Logf("declared: no lists: Traits.MaxList is %d", e.traits.MaxList)
		return false
	}
	return true
}

// newList returns n new batches of Services[0], or as many as a list may have.
func (e *checkRun) newList(n int) (bs []batch.Batch) {
	for range min(n, e.traits.MaxList) {
		bs = append(bs, e.newBatch())
	}
	return bs
}

// submitList makes the first attempt of all batches in one list, with a deadline far ahead.
func (e *checkRun) submitList(bs []batch.Batch) error {
	ctx, cancel := context.WithTimeout(e.Context(), e.CommitTimeout+e.CancelTimeout)
	defer cancel()
	attempts := make([]batch.Attempt, len(bs))
	for i, b := range bs {
		attempts[i] = attempt(b)
	}
	return e.Ledger.SubmitList(ctx, attempts)
}

func listChecks() []Check {
	return []Check{
		{
			Name:    "SubmitList/accepted",
			Promise: "nil means that every batch of the list is accepted, and each is posted once",
			run: func(e *checkRun) {
				if !e.supportsLists() {
					return
				}
				bs := e.newList(5)
				require.NoError(e, e.submitList(bs), "good batches at a good backend")
				for _, b := range bs {
					e.requireBecomes(b, batch.ReportedCommitted)
					e.requirePosted(b, 1, 1)
				}
			},
		},
		{
			Name:        "SubmitList/refused",
			Promise:     "a list that is refused because of one of its batches is refused as a whole: none is taken",
			neededFault: Refused,
			run: func(e *checkRun) {
				if !e.supportsLists() {
					return
				}
				good := e.newBatch()
				e.Set(Refused)
				bad := e.newBatch()
				err := e.submitList([]batch.Batch{good, bad})
				e.Set(None)
				e.requireKind(err, batch.KindRejected)
				e.requireNotTaken(bad)
				e.requireNotTaken(good)
				require.NoError(e, e.submit(good), "alone it is taken")
				e.requireBecomes(good, batch.ReportedCommitted)
			},
		},
		{
			Name:    "SubmitList/not taken",
			Promise: "what certainly did not take one took none, and says so as Submit does",
			run: func(e *checkRun) {
				if !e.supportsLists() {
					return
				}
				for f, kind := range map[Fault]batch.ErrorKind{
					Busy: batch.KindBusy, Unreachable: batch.KindUnavailable, Misconfigured: batch.KindMisconfigured,
					NotYet: batch.KindNotYet,
				} {
					if e.isLacking(f) {
						continue
					}
					e.Set(f)
					bs := e.newList(3)
					err := e.submitList(bs)
					e.Set(None)
					e.requireKind(err, kind)
					for _, b := range bs {
						e.requireNotTaken(b)
					}
				}
			},
		},
		{
			Name:    "SubmitList/doubt",
			Promise: "a lost connection is doubt, and the client sends nothing again by itself",
			run: func(e *checkRun) {
				if !e.supportsLists() {
					return
				}
				for _, f := range [...]Fault{LostRequest, LostReply} {
					if e.isLacking(f) {
						continue
					}
					e.Set(f)
					bs := e.newList(3)
					err := e.submitList(bs)
					e.Set(None)
					assert.Equal(e, batch.KindDoubt, dlt.Kind(err), "%s: %v", f, err)
					for _, b := range bs {
						if f == LostReply {
							e.requireBecomes(b, batch.ReportedCommitted)
						}
						e.requirePosted(b, 0, 1)
					}
				}
			},
		},
	}
}
