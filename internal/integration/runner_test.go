package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
)

// Two Runners on one schema, as two instances have them, deliver everything once and
// in order to a ledger that would execute a batch as often as it is sent.
func TestTwoRunners(t *testing.T) {
	for _, d := range []driver{pgx, libpq, pgxSimple, pqBounced} {
		t.Run(d.name, func(t *testing.T) {
			const lanes, each = 12, 8
			s := newSpace(t, d)
			s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
			s.store()
			traits := memory.Unforgiving(10 * time.Millisecond)
			ledger := memory.New(&memory.Options{Traits: &traits, CommitAfter: 5 * time.Millisecond})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var runners []*dltbatch.Runner
			done := make(chan error, 2)
			for range 2 {
				st, _ := s.store()
				r, err := dltbatch.New(st, ledger, &dltbatch.Options{PollInterval: 50 * time.Millisecond, ScanInterval: 50 * time.Millisecond})
				require.NoError(t, err)
				runners = append(runners, r)
				go func() { done <- r.Run(ctx) }()
			}
			var want [lanes][]batch.ID
			for i := range each {
				for l := range lanes {
					b := one(fmt.Sprintf("lane%d", l), fmt.Sprintf("%d/%d", each-i, l))
					want[l] = append(want[l], b.ID)
					require.NoError(t, runners[(i+l)%2].Add(ctx, b))
				}
			}
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			require.NoError(t, runners[0].Idle(wait))
			stop()
			for range runners {
				require.NoError(t, <-done)
			}
			sent := map[batch.ServiceID][]batch.ID{}
			for _, e := range ledger.Journal() {
				if e.Kind == memory.PostStart {
					sent[e.Key.Service] = append(sent[e.Key.Service], e.Key.ID)
				}
			}
			for l := range lanes {
				assert.Equal(t, want[l], sent[batch.ServiceID(fmt.Sprintf("lane%d", l))])
			}
		})
	}
}
