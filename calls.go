package dltbatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// calls reports calls to Options.Calls; nil reports to nobody.
type calls func(context.Context, batch.Call)

// newCalls returns nil where nobody wants to know.
func (r *Runner) newCalls() calls {
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

// time makes a call and reports it. call sets c.Err, and c.Items if they are not known before.
func (to calls) time(ctx context.Context, c *batch.Call, call func()) {
	if to == nil {
		call()
		return
	}
	began := time.Now()
	c.Err = errPanicked // unless it comes back
	defer func() { to.report(ctx, c, time.Since(began)) }()
	call()
}

func (to calls) report(ctx context.Context, c *batch.Call, took time.Duration) {
	if to != nil {
		c.Took = took
		to(ctx, *c)
	}
}

var errPanicked = errors.New("panic")
