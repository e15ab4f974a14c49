package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// scabbardLate is longer than any delay in the network of this test, also on busy machines.
const scabbardLate = 500 * time.Millisecond

// TestKillSplinter kills children that submit to scabbard services, which execute every duplicate
// and forget batches, by themselves and when their node restarts. A killed child leaves a gap in
// the log of events, so some batches need a decision. A person decides by the batches that the
// network has executed.
func TestKillSplinter(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	o := splintertest.Options{
		Addrs: []string{"127.0.0.1:0"}, CommitInterval: 10 * time.Millisecond,
		Faults: &splintertest.Faults{
			Seed: *crashSeed, ResetBefore: 0.03, ResetAfter: 0.06, ErrorAfter: 0.03, Late: 0.06, MaxLateDelay: 60 * time.Millisecond,
			Busy: 0.03, StatusReset: 0.02, Reject: 0.04, Evict: 0.2, MaxPerBatch: 4,
		},
	}
	for i := range 2 * laneCount { // one lane for each batch, since a doubt holds up its lane
		o.Circuits = append(o.Circuits, splintertest.Circuit{
			ID: fmt.Sprintf("aaaa%d-bbbbb", i), Version: 1 + i%2, Services: []string{"a000"},
		})
	}
	network := splintertest.Start(t, &o)
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	n := max(1, *killsPerWindow*3/10)
	batches := make([]batch.Batch, 5*n*4+8)
	order := map[batch.ServiceID][]batch.ID{}
	for i := range batches {
		payload, address := splintertest.Inc("n", 1)
		batches[i], err = sawtooth.Build(key, network.Service(i%(2*laneCount)), sawtooth.Transaction{
			FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: fmt.Sprint(i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		order[batches[i].Service] = append(order[batches[i].Service], batches[i].ID)
	}
	decided := 0
	person := func(ctx context.Context, st *sqlite.Store) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			decided += decideDoubts(ctx, t, network, st)
			<-tick.C
		}
	}
	restarts := func(ctx context.Context, _ *sqlite.Store) {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
				network.Restart(0)
			}
		}
	}
	suite := killChildren(t, childJob{Kind: "splinter", URL: network.URL(0)}, batches, n, person, restarts)
	t.Logf("a person decided %d times", decided)

	require.NoError(t, network.Check(order))
	for service, ids := range order {
		require.Equal(t, ids, network.Executions(service), "everything acknowledged, in order, once")
	}
	suite.checkRecords(t)
}

// decideDoubts decides the batches that need it, by the batches that the network has executed.
func decideDoubts(ctx context.Context, t *testing.T, network *splintertest.Network, st *sqlite.Store) (n int) {
	open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 1000})
	if err != nil {
		return 0 // the children have locked the file; decide is called again
	}
	for _, rec := range open {
		if rec.Decision == "" || network.QueueLen(rec.Service) > 0 {
			continue
		}
		ruling := batch.NotExecutedSendAgain
		if slices.Contains(network.Executions(rec.Service), rec.ID) {
			ruling = batch.WasCommitted
		}
		_, err := st.Decide(ctx, rec, ruling, batch.By{Actor: "test", Reason: "looked at the ledger"})
		if err == nil {
			n++
		} else if ctx.Err() == nil {
			assert.True(t, errors.Is(err, batch.ErrMovedOn) || errors.Is(err, batch.ErrNotAllowed) || errors.Is(err, batch.ErrInDoubt), "%v", err)
		}
	}
	return n
}
