package dltbatch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/engine"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/lossy"
)

// maxQueued is how many events wait at most for one of Options.Observers.
const maxQueued = 4096

// delivery gives an event to an observer, which has a name in the log.
type delivery func(o batch.Observer, name string)

// checkObservers refuses an observer that is nil.
func checkObservers(all []batch.Observer) error {
	for i, o := range all {
		if isnil.Is(o) {
			return engine.BadOption(nth(i), nil, "an observer")
		}
	}
	return nil
}

// newQueues returns the queues of Options.Observers.
func (r *Runner) newQueues() []*lossy.Queue[delivery] {
	queues := make([]*lossy.Queue[delivery], len(r.o.Observers))
	for i, o := range r.o.Observers {
		name := nth(i)
		queues[i] = lossy.New(maxQueued, func(deliver delivery) { deliver(o, name) })
	}
	return queues
}

// nth names one of Options.Observers.
func nth(i int) string { return fmt.Sprintf("Observers[%d]", i) }

// give gives an event to an observer, and contains a panic in it.
func (r *Runner) give(ctx context.Context, o batch.Observer, name string, e batch.Event) {
	if err := loop.Contain(func() error { o.Observe(ctx, e); return nil }); err != nil {
		r.say(ctx, slog.LevelError, topic{text: linePanicked, where: name}, err, slog.String("observer", name))
	}
}

// queue queues an event for Options.Observers.
func (r *Runner) queue(ctx context.Context, e batch.Event) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	deliver := func(o batch.Observer, name string) { r.give(ctx, o, name, e) }
	for i, q := range r.queues {
		if !q.Put(deliver) {
			r.say(ctx, slog.LevelWarn, topic{text: lineLost, where: nth(i)}, nil, slog.String("observer", nth(i)))
		}
	}
}

// rest gives the queues of Options.Observers time to become empty.
func (r *Runner) rest() {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	for _, q := range r.queues {
		q.Rest(ctx)
	}
}

// lostEvents returns how many events each of Options.Observers has lost; nil if none has.
func (r *Runner) lostEvents() []uint64 {
	var lost []uint64
	for i, q := range r.queues {
		if n := q.Lost(); n > 0 {
			if lost == nil {
				lost = make([]uint64, len(r.queues))
			}
			lost[i] = n
		}
	}
	return lost
}
