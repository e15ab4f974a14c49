package batch_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// allowed is the table of docs/design.md#states-of-a-batch, written a second time: the moves that
// each actor may make. All others are not allowed.
var allowed = map[batch.Actor]map[batch.State][]batch.State{
	batch.ByQueuer: {
		batch.Queued: {batch.Submitting}, batch.Delayed: {batch.Submitting}, batch.Unknown: {batch.Submitting},
	},
	batch.BySubmitter: {
		batch.Submitting: {batch.Pending, batch.Submitting, batch.Delayed, batch.Rejected, batch.Queued, batch.Unknown},
	},
	batch.ByMonitor: {
		batch.Queued: {batch.Committed},
		batch.Submitting: {
			batch.Pending, batch.Valid, batch.Invalid, batch.Submitting, batch.Delayed, batch.Unknown, batch.Rejected, batch.Committed,
		},
		batch.Pending: {
			batch.Pending, batch.Valid, batch.Invalid, batch.Delayed, batch.Unknown, batch.Submitting, batch.Rejected, batch.Committed,
		},
		batch.Valid: {
			batch.Valid, batch.Pending, batch.Invalid, batch.Delayed, batch.Unknown, batch.Submitting, batch.Rejected, batch.Committed,
		},
		batch.Delayed:  {batch.Committed},
		batch.Unknown:  {batch.Committed},
		batch.Invalid:  {batch.Invalid, batch.Pending, batch.Valid, batch.Committed},
		batch.Rejected: {batch.Committed},
	},
	batch.ByOperator: {
		batch.Queued: {batch.Rejected}, batch.Delayed: {batch.Committed, batch.Unknown, batch.Rejected},
		batch.Unknown: {batch.Committed, batch.Unknown, batch.Rejected},
		batch.Invalid: {batch.Queued}, batch.Rejected: {batch.Queued},
		batch.Submitting: {batch.Committed, batch.Unknown, batch.Rejected},
		batch.Pending:    {batch.Committed, batch.Unknown, batch.Rejected},
		batch.Valid:      {batch.Committed, batch.Unknown, batch.Rejected},
	},
}

func TestTransitionsWholeTable(t *testing.T) {
	n := 0
	for by := range batch.Actor(8) {
		for from := range batch.State(13) {
			for to := range batch.State(13) {
				want := slices.Contains(allowed[by][from], to)
				assert.Equal(t, want, batch.Allowed(from, to, by), "%s to %s by the %s", from, to, by)
				if want {
					n++
				}
			}
		}
	}
	assert.Len(t, batch.Transitions(), n, "a move is in the table once")
	assert.False(t, batch.Allowed(255, batch.Committed, batch.ByMonitor))
	assert.False(t, batch.Allowed(batch.Queued, 255, batch.ByMonitor))
	assert.False(t, batch.Allowed(batch.Queued, batch.Submitting, 255))
}

func TestTransitionsSayWhy(t *testing.T) {
	type move struct {
		from, to batch.State
		actor    batch.Actor
	}
	seen := map[move]bool{}
	for _, m := range batch.Transitions() {
		assert.NotEmpty(t, m.Why, "%s to %s", m.From, m.To)
		assert.False(t, seen[move{m.From, m.To, m.By}], "%s to %s by the %s, twice", m.From, m.To, m.By)
		seen[move{m.From, m.To, m.By}] = true
	}
}

// From every state except Committed a batch can get to Committed, and no move leaves Committed.
func TestTransitionsLeadToAnEnd(t *testing.T) {
	for _, from := range batch.States() {
		out := 0
		for _, m := range batch.Transitions() {
			if m.From == from {
				out++
			}
		}
		if from == batch.Committed {
			assert.Zero(t, out, "a commit is for good")
			continue
		}
		assert.Positive(t, out, from)
		assert.True(t, batch.Allowed(from, batch.Committed, batch.ByMonitor), from)
	}
}

// Only a claim leads to Submitting, and only from a claimable state.
func TestTransitionsIntoSubmitting(t *testing.T) {
	for _, from := range batch.States() {
		assert.Equal(t, from.Claimable(), batch.Allowed(from, batch.Submitting, batch.ByQueuer), from)
		assert.False(t, batch.Allowed(from, batch.Submitting, batch.ByOperator), from)
	}
}
