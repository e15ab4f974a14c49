package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A lease raises no version. An outcome recorded after its lease has ended applies to the
// present row, not to the row of the lease.
func TestKnownRowLeasedAgain(t *testing.T) {
	for _, finding := range []store.Finding{store.IsValid, store.IsCommitted} {
		t.Run(finding.String(), func(t *testing.T) {
			s, _, _ := fresh(t)
			ctx := t.Context()
			require.NoError(t, s.Add(ctx, newBatch("a", 1)))
			got, err := s.Claim(ctx, query("a"), serial)
			require.NoError(t, err)
			c := got.Runs[0].Batches[0]
			applied, err := s.Record(ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Accepted}})
			require.NoError(t, err)
			require.Equal(t, store.Written, applied[0].Result)
			lease := func() store.InFlight {
				var due []store.InFlight
				require.Eventually(t, func() bool {
					due, err = s.Pending(ctx, store.PendingQuery{Limit: 1, Lease: time.Microsecond})
					return err == nil && len(due) == 1
				}, time.Minute, time.Millisecond)
				return due[0]
			}
			first := lease()
			again := lease()
			for again.Was.AskedAt.Equal(first.Was.AskedAt) { // the clock has milliseconds
				again = lease()
			}
			require.Equal(t, first.Version, again.Version)
			applied, err = s.Record(ctx, []store.Outcome{{
				Ref: first.Ref, Version: first.Version, Was: first.Was, By: batch.ByMonitor, Finding: finding, Check: time.Hour,
			}})
			require.NoError(t, err)
			require.Equal(t, store.Written, applied[0].Result)
			require.Equal(t, again.Was.AskedAt, applied[0].Row.AskedAt)
			l, err := s.Look(ctx, c.Key, 1)
			require.NoError(t, err)
			require.Equal(t, again.Was.AskedAt, l.Row.AskedAt)
		})
	}
}
