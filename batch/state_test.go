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
		pair                batch.Pair
		claimable, inFlight bool
	}{
		{batch.Queued, 1, "queued", batch.Pair{}, true, false},
		{batch.Submitting, 2, "submitting", batch.Pair{Submitted: true}, false, true},
		{batch.Pending, 3, "pending", batch.Pair{Submitted: true, Status: "Pending"}, false, true},
		{batch.Valid, 4, "valid", batch.Pair{Submitted: true, Status: "Valid"}, false, true},
		{batch.Delayed, 5, "delayed", batch.Pair{Status: "Delayed"}, true, false},
		{batch.Unknown, 6, "unknown", batch.Pair{Status: "Unknown"}, true, false},
		{batch.Committed, 7, "committed", batch.Pair{Submitted: true, Status: "Committed"}, false, false},
		{batch.Invalid, 8, "invalid", batch.Pair{Submitted: true, Status: "Invalid"}, false, false},
		{batch.Rejected, 9, "rejected", batch.Pair{Submitted: true}, false, false},
	}
	all := make([]batch.State, len(want))
	for i, w := range want {
		all[i] = w.state
		assert.Equal(t, w.value, uint8(w.state))
		assert.Equal(t, w.name, w.state.String())
		assert.Equal(t, w.pair, w.state.Pair(), w.name)
		assert.Equal(t, w.claimable, w.state.Claimable(), w.name)
		assert.Equal(t, w.inFlight, w.state.InFlight(), w.name)
		assert.True(t, w.state.Known(), w.name)
	}
	assert.Equal(t, all, batch.States())
	for _, s := range []batch.State{0, 10, 255} {
		assert.False(t, s.Known())
		assert.False(t, s.Claimable())
		assert.False(t, s.InFlight())
		assert.Equal(t, batch.Pair{}, s.Pair())
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
		0: "reported(0)", 7: "reported(7)", 255: "reported(255)",
	} {
		assert.Equal(t, want, r.String())
	}
}
