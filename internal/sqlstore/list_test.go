package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func TestCounts(t *testing.T) {
	lanes := []batch.ServiceID{"b", "a", "empty"}
	found := []stateCount{{"a", 0, 3}, {"b", int64(batch.Pending), 2}, {"b", 0, 0}}
	want := []store.LaneCounts{
		{Service: "b", Attempted: map[batch.State]int{batch.Pending: 2}},
		{Service: "a", Attempted: map[batch.State]int{}, Waiting: 3},
		{Service: "empty", Attempted: map[batch.State]int{}},
	}
	assert.Equal(t, want, laneCounts(lanes, found, true))
	assert.Equal(t, want[:2], laneCounts(lanes, found, false))
}
