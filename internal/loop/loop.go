// Package loop keeps the engine's loops running.
package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The bounds of the pause before a loop starts again (docs/design.md#defaults).
const (
	MinPause = time.Second
	MaxPause = time.Minute
)

// Run calls f until it returns nil or ctx is done. After an error or a panic it calls trouble, and
// calls f again after a pause of 1 s, which doubles up to 60 s, with jitter. If f ran for longer
// than the longest pause, the next pause is 1 s again.
func Run(ctx context.Context, f func(context.Context) error, trouble func(error)) {
	pause := NewPauses(MinPause, MaxPause)
	for {
		start := time.Now()
		err := Contain(func() error { return f(ctx) })
		if err == nil || ctx.Err() != nil {
			return
		}
		trouble(err)
		if time.Since(start) > MaxPause {
			pause.Reset()
		}
		if !Sleep(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// NewPauses returns pauses without end from lo, doubling up to hi, with jitter.
func NewPauses(lo, hi time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(lo),
		backoff.WithMaxInterval(hi),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
}

// NewBriefPauses returns the pauses between tries of a single action, such as a call to the store:
// from 10 ms to 5 s, each half as long again as the one before, with jitter. Most failures last a
// moment, and ten tries are made within about a second. When the store is back after a long time,
// the wait is not much longer than 5 s.
func NewBriefPauses() *backoff.ExponentialBackOff {
	b := NewPauses(10*time.Millisecond, 5*time.Second)
	b.Multiplier = 1.5
	return b
}

// Retry calls f until it succeeds, with [NewBriefPauses], and calls trouble for every failure
// that it retries. A panic is a failure. It returns nil, f's last error if ctx was done before
// f succeeded, or the error that f marked by [Final].
func Retry(ctx context.Context, trouble func(error), f func() error) error {
	pause := NewBriefPauses()
	for {
		err := Contain(f)
		if err == nil {
			return nil
		}
		if final, ok := errors.AsType[*backoff.PermanentError](err); ok {
			return final.Err
		}
		if ctx.Err() != nil {
			return err
		}
		trouble(err)
		if !Sleep(ctx, pause.NextBackOff()) {
			return err
		}
	}
}

// Final marks an error after which [Retry] does not try again.
func Final(err error) error { return backoff.Permanent(err) }

// PanicError is a contained panic in code of another package.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error. It leaves the stack out: the caller logs that.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Panicked reports whether an error is, or wraps, a panic that [Contain] returned.
func Panicked(err error) bool {
	_, is := errors.AsType[*PanicError](err)
	return is
}

// Contain calls f and returns a panic in it as a [*PanicError].
func Contain(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Poke wakes a loop by a channel of capacity one. A second poke before the loop wakes changes
// nothing.
func Poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Sleep waits for d and returns true, or returns false if ctx is done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
