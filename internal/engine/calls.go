package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// calls reports calls to Options.Calls; nil reports to nobody.
type calls func(context.Context, batch.Call)

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
