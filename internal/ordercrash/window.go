package ordercrash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
)

// Window is a stretch of a worker's work in which the suite kills it.
type Window string

// The windows that are no call of the store.
const (
	posting  Window = "POST under way"
	accepted Window = "answered, before the record"
	asked    Window = "completions read, before the record"
	anywhere Window = "anywhere"
	nowhere  Window = ""
)

// op is a call of the store. A worker is killed inside the call, before one of its statements
// or around its commit, or after the call, when no other goroutine knows of it.
type op string

const (
	add     op = "orders added"
	prepare op = "batch stored, orders dequeued"
	claim   op = "claim"
	keep    op = "prepared kept"
	record  op = "outcome recorded"
	settle  op = "orders settled"
	halve   op = "orders halved"
)

func (o op) inside() Window { return Window("inside: " + string(o)) }
func (o op) after() Window  { return Window("after: " + string(o)) }

// windows returns all windows except anywhere.
func windows() []Window {
	out := []Window{posting, accepted, asked}
	for _, o := range [...]op{add, prepare, claim, keep, record, settle, halve} {
		out = append(out, o.inside(), o.after())
	}
	slices.Sort(out)
	return out
}

// killer ends the process, as kill -9 does, once the worker has reached a window often
// enough.
type killer struct {
	window Window
	nth    int64
	count  atomic.Int64
}

func (k *killer) reach(w Window) {
	if w != nowhere && w == k.window && k.count.Add(1) == k.nth {
		fmt.Println("killed", w)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// phase is the context's key of the store's call that statements belong to.
type phase struct{}

// within runs a call of the store.
func within[T any](ctx context.Context, k *killer, o op, f func(context.Context) (T, error)) (T, error) {
	out, err := f(context.WithValue(ctx, phase{}, o))
	if err == nil {
		k.reach(o.after())
	}
	return out, err
}

// step runs before and after a statement, and around a commit.
func (k *killer) step(ctx context.Context) {
	if o, ok := ctx.Value(phase{}).(op); ok {
		k.reach(o.inside())
	}
}
