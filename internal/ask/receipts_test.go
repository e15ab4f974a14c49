package ask_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// The receipts of a commit that was recorded without any are asked for once, each in a request of
// its own, and only a limited number of commits is remembered.
func TestReceiptsAreAskedForOnce(t *testing.T) {
	for name, c := range map[string]struct {
		isDenied    bool
		commit      int
		least, most int
	}{
		"a few":             {commit: 3, least: 3, most: 3},
		"too many":          {commit: 1200, least: 1000, most: 1001}, // one is asked about outside of the list
		"none are declared": {isDenied: true, commit: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMonitorTest()
				w.traits.Receipts = !c.isDenied
				w.answer = func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
					assert.Len(t, attempts, 1, "its receipts have the time of a request")
					assert.True(t, attempts[0].Committed)
					assert.Equal(t, []byte("prepared"), attempts[0].Prepared)
					if attempts[0].ID == "b00000" {
						return []batch.Status{{ID: attempts[0].ID, Reported: batch.ReportedUnknown}}, nil
					}
					return []batch.Status{{ID: attempts[0].ID, Reported: batch.ReportedCommitted, Receipts: []batch.Receipt{{TransactionID: "t"}}}}, nil
				}
				m, stop := w.start(t, nil)
				for i := range c.commit {
					m.Committed(store.Ref{Key: key("s", batch.ID(fmt.Sprintf("b%05d", i))), Row: int64(i + 1)}, 2, []byte("prepared"))
				}
				sleepAndWait(10*time.Second - time.Millisecond)
				require.Empty(t, w.askTimes("b00001"))
				sleepAndWait(time.Hour)
				stop()
				require.GreaterOrEqual(t, len(w.queries), c.least)
				require.LessOrEqual(t, len(w.queries), c.most)
				require.Len(t, w.outcomes, max(0, len(w.queries)-1), "the first has none")
				for _, o := range w.outcomes {
					require.Equal(t, store.HasReceipts, o.Finding)
					require.Len(t, o.Receipts, 1)
					require.NotZero(t, o.Row)
				}
			})
		})
	}
}
