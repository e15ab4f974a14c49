package dltbatch

import (
	"context"
	"log/slog"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// newCalls returns nil where nobody wants to know.
func (r *Runner) newCalls() func(context.Context, batch.Call) {
	o := r.o.Calls
	if o == nil {
		return nil
	}
	return func(ctx context.Context, c batch.Call) {
		if err := loop.Contain(func() error { o.ObserveCall(ctx, c); return nil }); err != nil {
			r.say(ctx, slog.LevelError, topic{text: linePanicked, where: "Calls"}, err, slog.String("observer", "Calls"))
		}
	}
}
