package dlttest

import (
	"bytes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

func preparerChecks() []Check {
	preparer := func(name, promise string, run func(e *checkRun)) Check {
		return Check{Name: "Prepare/" + name, Promise: promise, run: func(e *checkRun) {
			if !e.traits.Prepares {
				e.Logf("declared: its traits say that it does not prepare")
				return
			}
			run(e)
		}}
	}
	return []Check{
		preparer("sends nothing", "what it prepares fits, and nothing is sent by it", func(e *checkRun) {
			b := e.newBatch()
			kept := e.prepare(attempt(b))
			assert.LessOrEqual(e, len(kept), dlt.MaxPrepared)
			assert.Zero(e, e.Posts(b.ID))
			s, ok := e.requireAnswers(b)[b.ID]
			assert.True(e, !ok || hasNoTrace(s), "%s was never sent, and is %s", b.Key(), s.Reported)
		}),
		preparer("only adds", "where it renews, its answer begins with what is kept", func(e *checkRun) {
			if !e.traits.Renews {
				e.Logf("declared: its traits say that it does not renew")
				return
			}
			a := attempt(e.newBatch())
			for range 3 {
				kept := e.prepare(a)
				assert.True(e, bytes.HasPrefix(kept, a.Prepared), "%d bytes that do not begin with the %d that are kept", len(kept), len(a.Prepared))
				a.Number, a.Prepared = a.Number+1, kept
			}
		}),
		preparer("excludes", "of a batch that was withdrawn it adds to what is kept, and refuses one of which nothing is kept", func(e *checkRun) {
			if !e.traits.Withdraws {
				e.Logf("declared: its traits say that it does not withdraw")
				return
			}
			a, never := attempt(e.newBatch()), attempt(e.newBatch())
			a.Prepared = e.prepare(a)
			a.Number, a.Withdrawn, never.Withdrawn = 2, true, true
			more := e.prepare(a)
			assert.True(e, bytes.HasPrefix(more, a.Prepared), "%d bytes that do not begin with the %d that are kept", len(more), len(a.Prepared))
			assert.Greater(e, len(more), len(a.Prepared), "nothing excludes what was sent")
			assert.Zero(e, e.Posts(a.ID), "Prepare sends nothing")
			_, err := e.Ledger.Prepare(e.Context(), never)
			assert.ErrorIs(e, err, dlt.ErrRejected, "nothing was kept, and so nothing was sent")
		}),
	}
}

func (e *checkRun) prepare(a batch.Attempt) []byte {
	e.Helper()
	kept := bytes.Clone(a.Prepared)
	out, err := e.Ledger.Prepare(e.Context(), a)
	require.NoError(e, err)
	assert.Equal(e, kept, a.Prepared, "Prepare changed what is kept")
	return out
}
