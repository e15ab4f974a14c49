package events

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// maxQueued is the most events that wait for one of Options.Observers.
const maxQueued = 4096

// delivery gives an event to an observer. name is the observer's name in the log.
type delivery func(o batch.Observer, name string)

// newQueues returns the queues of Options.Observers.
func (r *Reporter) newQueues() []*queue[delivery] {
	queues := make([]*queue[delivery], len(r.options.Observers))
	for i, o := range r.options.Observers {
		name := observerName(i)
		queues[i] = newQueue(maxQueued, func(deliver delivery) { deliver(o, name) })
	}
	return queues
}

// observerName returns the name of one of Options.Observers in the log.
func observerName(i int) string { return fmt.Sprintf("Observers[%d]", i) }

// deliver gives an event to an observer, and contains a panic in it.
func (r *Reporter) deliver(ctx context.Context, o batch.Observer, name string, e batch.Event) {
	r.contain(ctx, name, func() { o.Observe(ctx, e) })
}

// queue adds an event to the queues of Options.Observers.
func (r *Reporter) queue(ctx context.Context, e batch.Event) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	deliver := func(o batch.Observer, name string) { r.deliver(ctx, o, name, e) }
	for i, q := range r.queues {
		if !q.put(deliver) {
			r.logOnce(ctx, slog.LevelWarn, topic{text: lineLost, part: observerName(i)}, nil, slog.String("observer", observerName(i)))
		}
	}
}

// drainTime is the time for events that still wait at the end of a Run.
const drainTime = 500 * time.Millisecond

// drainQueues waits until the queues of Options.Observers are empty, for drainTime at most.
func (r *Reporter) drainQueues() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for _, q := range r.queues {
		q.waitEmpty(ctx)
	}
}

// lostEvents returns how many events each of Options.Observers has lost, or nil if none has lost
// any.
func (r *Reporter) lostEvents() []uint64 {
	var lost []uint64
	for i, q := range r.queues {
		if n := q.lostSoFar(); n > 0 {
			if lost == nil {
				lost = make([]uint64, len(r.queues))
			}
			lost[i] = n
		}
	}
	return lost
}
