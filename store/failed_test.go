package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// An attempt that the ledger reports as failed was posted, even if nobody recorded its POST. Other
// batches may have followed it, so the next claim has Again set.
func TestALateFailureWasPosted(t *testing.T) {
	now := time.Now()
	row := NewRow().Claim(now, time.Minute, Resend{})
	later := now.Add(2 * time.Minute)
	row, a := row.Apply(Outcome{Version: row.Version, Finding: Failed, By: batch.ByMonitor}, later)
	assert.Equal(t, Written, a.Result)
	assert.Equal(t, batch.Delayed, row.State)
	assert.Equal(t, now.Add(time.Minute), row.LastPost, "the end of its claim, at the latest")
	plan := PlanLane("s", []LaneRow{{Row: row}}, later.Add(time.Hour), ClaimQuery{TTL: time.Minute}, 1, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
	assert.True(t, plan.Runs[0].Batches[0].Again)
}
