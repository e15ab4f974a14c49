package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Limits of the bulk actions that one process carries out.
const (
	maxCarried     = 4           // actions at the same time
	carryWaitLimit = time.Second // how long a request waits for the end of the action, so that most people see the report at once
	maxKeptEnds    = 100         // remembered reasons why actions ended early
)

// carriedBulks are the bulk actions that this process carries out: each runs in a goroutine that
// outlives its request and keeps its progress in the store.
type carriedBulks struct {
	mu         sync.Mutex
	isClosed   bool
	cancels    map[string]context.CancelFunc // cancel functions, by token
	endReasons map[string]string             // why an action ended early, in words, by token
	goroutines sync.WaitGroup
}

// isUnderWay reports whether this process carries out the action with this token; if not, why says
// why it ended early here.
func (u *carriedBulks) isUnderWay(token string) (is bool, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cancels[token] != nil, u.endReasons[token]
}

// start runs do in a goroutine, unless the action with this token is under way. do returns why the
// action ended early, or "". The channel ended is closed when the goroutine ends; it is nil if the
// action was under way already.
func (u *carriedBulks) start(ctx context.Context, token string, do func(ctx context.Context) string) (ended <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.isClosed:
		return nil, &refusal{http.StatusServiceUnavailable, "This console is shutting down", "Go on with the action in another one: it is kept."}
	case u.cancels[token] != nil:
		return nil, nil //nolint:nilnil // nothing was started, and this is no error
	case len(u.cancels) >= maxCarried:
		return nil, &refusal{http.StatusServiceUnavailable, "Too many bulk actions at once", "This console carries out others at present. The action is kept: go on with it when one of these has ended."}
	}
	if u.cancels == nil || len(u.endReasons) >= maxKeptEnds {
		u.endReasons = map[string]string{}
	}
	if u.cancels == nil {
		u.cancels = map[string]context.CancelFunc{}
	}
	delete(u.endReasons, token)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	end := make(chan struct{})
	u.cancels[token] = stop
	u.goroutines.Go(func() {
		defer close(end)
		why := do(ctx)
		stop()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.cancels, token)
		if why != "" {
			u.endReasons[token] = why
		}
	})
	return end, nil
}

// close cancels all actions, and waits until they have ended.
func (u *carriedBulks) close() {
	u.mu.Lock()
	u.isClosed = true
	for _, stop := range u.cancels {
		stop()
	}
	u.mu.Unlock()
	u.goroutines.Wait()
}

// carryOut continues a kept action in this process. It returns when the action ends, or after
// carryWaitLimit.
func (v *visit) carryOut(ctx context.Context, token string, by batch.By) error {
	c := v.Console // the goroutine must not use v, which ends earlier
	ended, err := c.bulkActions.start(ctx, token, func(ctx context.Context) string {
		defer c.forgetReads()
		// A panic would end the process here: unlike in a request, no server recovers it.
		err := loop.Contain(func() error {
			_, err := c.bulks.Resume(ctx, token, by, nil)
			return err
		})
		switch {
		case err == nil, errors.Is(err, batch.ErrMovedOn), errors.Is(err, context.Canceled):
			return "" // the progress in the store says so
		}
		attrs := []any{slog.String("token", token), slog.Any("error", err)}
		if p, is := errors.AsType[*loop.PanicError](err); is {
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
		c.log.ErrorContext(ctx, "console: a bulk action ended early", attrs...)
		why, _ := explainError(err)
		return why.text
	})
	if err != nil || ended == nil {
		return err
	}
	soon := time.NewTimer(carryWaitLimit)
	defer soon.Stop()
	select {
	case <-ended:
	case <-soon.C:
	case <-ctx.Done():
	}
	return nil
}
