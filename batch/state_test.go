package batch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func TestStates(t *testing.T) {
	want := []struct {
		state               batch.State
		value               uint8 // stored: it never changes
		name                string
		claimable, inFlight bool
	}{
		{batch.Queued, 1, "queued", true, false},
		{batch.Submitting, 2, "submitting", false, true},
		{batch.Pending, 3, "pending", false, true},
		{batch.Valid, 4, "valid", false, true},
		{batch.Delayed, 5, "delayed", true, false},
		{batch.Unknown, 6, "unknown", true, false},
		{batch.Committed, 7, "committed", false, false},
		{batch.Invalid, 8, "invalid", false, false},
		{batch.Rejected, 9, "rejected", false, false},
	}
	all := make([]batch.State, len(want))
	for i, w := range want {
		all[i] = w.state
		assert.Equal(t, w.value, uint8(w.state))
		assert.Equal(t, w.name, w.state.String())
		assert.Equal(t, w.claimable, w.state.Claimable(), w.name)
		assert.Equal(t, w.inFlight, w.state.InFlight(), w.name)
		assert.True(t, w.state.Known(), w.name)
	}
	assert.Equal(t, all, batch.States())
	for _, s := range []batch.State{0, 10, 255} {
		assert.False(t, s.Known())
		assert.False(t, s.Claimable())
		assert.False(t, s.InFlight())
	}
	assert.Equal(t, "state(0)", batch.State(0).String())
	assert.Equal(t, "state(10)", batch.State(10).String())
}

func TestActorNames(t *testing.T) {
	for by, want := range map[batch.Actor]string{
		0: "nobody", batch.ByQueuer: "queuer", batch.BySubmitter: "submitter", batch.ByMonitor: "monitor", batch.ByOperator: "operator",
	} {
		assert.Equal(t, want, by.String())
	}
}

func TestReportedNames(t *testing.T) {
	for r, want := range map[batch.Reported]string{
		batch.ReportedUnknown: "unknown", batch.ReportedPending: "pending", batch.ReportedValid: "valid",
		batch.ReportedInvalid: "invalid", batch.ReportedCommitted: "committed", batch.ReportedFailed: "failed",
		batch.ReportedStalled: "stalled", batch.ReportedVoid: "void", 0: "reported(0)", 9: "reported(9)", 255: "reported(255)",
	} {
		assert.Equal(t, want, r.String())
	}
}
