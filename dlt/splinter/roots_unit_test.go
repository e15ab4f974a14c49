package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestRoots is when a root is that of all that was told.
func TestRoots(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, row := range map[string]struct {
		do   func(*roots)
		want string
	}{
		"read, then settled":             {func(r *roots) { r.ask(at(0)); r.answered("a", 1); r.settle(2) }, "a"},
		"settled by a probe from before": {func(r *roots) { r.ask(at(0)); r.answered("a", 1); r.settle(1) }, ""},
		"an event while it was asked":    {func(r *roots) { r.ask(at(0)); r.disturbed(); r.answered("a", 1); r.settle(2) }, ""},
		"an event before it was settled": {func(r *roots) { r.ask(at(0)); r.answered("a", 1); r.disturbed(); r.settle(2) }, ""},
		"an event after that":            {func(r *roots) { r.ask(at(0)); r.answered("a", 1); r.settle(2); r.disturbed() }, ""},
		"no answer":                      {func(r *roots) { r.ask(at(0)); r.answered("", 1); r.settle(2) }, ""},
		"again after an event": {func(r *roots) {
			r.ask(at(0))
			r.disturbed()
			r.answered("a", 1)
			r.ask(at(2))
			r.answered("b", 3)
			r.settle(4)
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &roots{pause: 5 * time.Second}
			assert.True(t, r.due(at(0)))
			row.do(r)
			assert.Equal(t, row.want, r.known)
		})
	}
	r := &roots{pause: 5 * time.Second}
	r.ask(at(0))
	assert.False(t, r.due(at(9)), "one question at a time")
	r.answered("", 1)
	assert.False(t, r.due(at(4)))
	assert.True(t, r.due(at(5)))
	r.ask(at(5))
	r.answered("a", 6)
	assert.False(t, r.due(at(20)), "it waits for the probes")
	r.settle(7)
	assert.False(t, r.due(at(20)), "known")
	r.disturbed()
	assert.True(t, r.due(at(7)))
}
