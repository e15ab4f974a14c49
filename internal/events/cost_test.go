package events

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
)

var pendingEvent = batch.Event{Kind: batch.EventState, Key: batch.Key{Service: "s", ID: "b"}, State: batch.Pending, Attempt: 1}

// If nothing observes events, an event allocates nothing.
func TestAnEventThatNobodySeesIsFree(t *testing.T) {
	r, ctx := New(Options{}), t.Context()
	if n := testing.AllocsPerRun(100, func() { r.Observe(ctx, pendingEvent) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkEventThatNobodySees(b *testing.B) {
	r, ctx := New(Options{}), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(ctx, pendingEvent)
	}
}

// An Add without a trace context allocates nothing more, and neither does an Add whose batches all
// have their own.
func TestATraceThatNobodyWantsIsFree(t *testing.T) {
	r, ctx := New(Options{}), t.Context()
	for name, own := range map[string]string{"none": "", "own": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"} {
		given := []batch.Batch{{Service: "s", ID: "b", TraceParent: own}}
		if n := testing.AllocsPerRun(100, func() { r.Traced(ctx, given) }); n != 0 {
			t.Errorf("%s: %v allocations an Add", name, n)
		}
	}
}
