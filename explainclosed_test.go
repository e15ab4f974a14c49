package dltbatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// While a Runner posts nothing because of the ledger, Explain says so of each batch that waits for
// that, and no longer does once the Runner posts again.
func TestExplainSaysThatNothingIsPosted(t *testing.T) {
	for kind, says := range map[ledgermem.FaultKind]string{
		ledgermem.Unavailable: "Nothing is posted: the ledger is not reached.", ledgermem.Misconfigured: "Nothing is posted: the ledger refuses this client.",
		ledgermem.Busy: "Nothing is posted: the ledger is busy.",
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := false
				ledger := namedLedger("one", func(t *dlt.Traits) { t.PressureScope = dlt.ScopeEndpoint }, func(batch.Attempt) ledgermem.Fault {
					if open {
						return ledgermem.Fault{}
					}
					return ledgermem.Fault{Kind: kind}
				})
				r := newStartedRunner(t, memory.New(), ledger, nil)
				require.NoError(t, r.Add(t.Context(), newBatch("s", "a"), newBatch("s", "b")))
				time.Sleep(time.Minute)
				for _, b := range []batch.Batch{newBatch("s", "a"), newBatch("s", "b")} {
					e, err := r.Explain(t.Context(), b.Key())
					require.NoError(t, err)
					assert.Contains(t, e.Text, says)
				}
				open = true
				require.NoError(t, r.Add(t.Context(), newBatch("s", "c")))
				_, err := r.Await(t.Context(), newBatch("s", "a").Key())
				require.NoError(t, err)
				e, err := r.Explain(t.Context(), newBatch("s", "c").Key())
				require.NoError(t, err)
				assert.NotContains(t, e.Text, "Nothing is posted")
			})
		})
	}
}
