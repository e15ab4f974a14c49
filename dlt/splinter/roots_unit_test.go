package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestRootTracker shows when a root is the root after all received events.
func TestRootTracker(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, row := range map[string]struct {
		act  func(*rootTracker)
		want string
	}{
		"read, then settled":             {func(r *rootTracker) { r.noteAsked(at(0)); r.noteAnswer("a", 1); r.settle(2) }, "a"},
		"settled by a probe from before": {func(r *rootTracker) { r.noteAsked(at(0)); r.noteAnswer("a", 1); r.settle(1) }, ""},
		"an event while it was asked":    {func(r *rootTracker) { r.noteAsked(at(0)); r.noteEvent(); r.noteAnswer("a", 1); r.settle(2) }, ""},
		"an event before it was settled": {func(r *rootTracker) { r.noteAsked(at(0)); r.noteAnswer("a", 1); r.noteEvent(); r.settle(2) }, ""},
		"an event after that":            {func(r *rootTracker) { r.noteAsked(at(0)); r.noteAnswer("a", 1); r.settle(2); r.noteEvent() }, ""},
		"no answer":                      {func(r *rootTracker) { r.noteAsked(at(0)); r.noteAnswer("", 1); r.settle(2) }, ""},
		"again after an event": {func(r *rootTracker) {
			r.noteAsked(at(0))
			r.noteEvent()
			r.noteAnswer("a", 1)
			r.noteAsked(at(2))
			r.noteAnswer("b", 3)
			r.settle(4)
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rootTracker{retryDelay: 5 * time.Second}
			assert.True(t, r.isDue(at(0)))
			row.act(r)
			assert.Equal(t, row.want, r.settledRoot)
		})
	}
	r := &rootTracker{retryDelay: 5 * time.Second}
	r.noteAsked(at(0))
	assert.False(t, r.isDue(at(9)), "one question at a time")
	r.noteAnswer("", 1)
	assert.False(t, r.isDue(at(4)))
	assert.True(t, r.isDue(at(5)))
	r.noteAsked(at(5))
	r.noteAnswer("a", 6)
	assert.False(t, r.isDue(at(20)), "it waits for the probes")
	r.settle(7)
	assert.False(t, r.isDue(at(20)), "known")
	r.noteEvent()
	assert.True(t, r.isDue(at(7)))
}
