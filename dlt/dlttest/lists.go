package dlttest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// lists reports whether the client's traits declare lists. If they do not, it logs that.
func (e *exam) lists() bool {
	e.Helper()
	if e.traits.MaxList < 2 {
		e.Logf("declared: no lists: Traits.MaxList is %d", e.traits.MaxList)
		return false
	}
	return true
}

// list makes n batches of Services[0], or as many as a list may hold.
func (e *exam) list(n int) (bs []batch.Batch) {
	for range min(n, e.traits.MaxList) {
		bs = append(bs, e.batch())
	}
	return bs
}

// submitList makes the first attempt of all, with a distant deadline.
func (e *exam) submitList(bs []batch.Batch) error {
	ctx, cancel := context.WithTimeout(e.Context(), e.Commit+e.Prompt)
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
			run: func(e *exam) {
				if !e.lists() {
					return
				}
				bs := e.list(5)
				require.NoError(e, e.submitList(bs), "good batches at a good backend")
				for _, b := range bs {
					e.becomes(b, batch.ReportedCommitted)
					e.posted(b, 1, 1)
				}
			},
		},
		{
			Name:    "SubmitList/refused",
			Promise: "a list that is refused because of one of its batches is refused as a whole: none is taken",
			needs:   Refused,
			run: func(e *exam) {
				if !e.lists() {
					return
				}
				good := e.batch()
				e.Set(Refused)
				bad := e.batch()
				err := e.submitList([]batch.Batch{good, bad})
				e.Set(None)
				e.kind(err, batch.KindRejected)
				e.notTaken(bad)
				e.notTaken(good)
				require.NoError(e, e.submit(good), "alone it is taken")
				e.becomes(good, batch.ReportedCommitted)
			},
		},
		{
			Name:    "SubmitList/not taken",
			Promise: "what certainly did not take one took none, and says so as Submit does",
			run: func(e *exam) {
				if !e.lists() {
					return
				}
				for f, kind := range map[Fault]batch.ErrorKind{
					Busy: batch.KindBusy, Unreachable: batch.KindUnavailable, Misconfigured: batch.KindMisconfigured,
					NotYet: batch.KindNotYet,
				} {
					if e.lacks(f) {
						continue
					}
					e.Set(f)
					bs := e.list(3)
					err := e.submitList(bs)
					e.Set(None)
					e.kind(err, kind)
					for _, b := range bs {
						e.notTaken(b)
					}
				}
			},
		},
		{
			Name:    "SubmitList/doubt",
			Promise: "a lost connection is doubt, and the client sends nothing again by itself",
			run: func(e *exam) {
				if !e.lists() {
					return
				}
				for _, f := range [...]Fault{LostRequest, LostReply} {
					if e.lacks(f) {
						continue
					}
					e.Set(f)
					bs := e.list(3)
					err := e.submitList(bs)
					e.Set(None)
					assert.Equal(e, batch.KindDoubt, dlt.Kind(err), "%s: %v", f, err)
					for _, b := range bs {
						if f == LostReply {
							e.becomes(b, batch.ReportedCommitted)
						}
						e.posted(b, 0, 1)
					}
				}
			},
		},
	}
}
