package ordercrash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
)

// Window is a part of a worker's work in which the suite kills the worker.
type Window string

// These windows are no calls of the store.
const (
	posting  Window = "POST under way"
	accepted Window = "answered, before the record"
	asked    Window = "completions read, before the record"
	anywhere Window = "anywhere"
	nowhere  Window = ""
)

// storeCall is a call of the store. A worker is killed inside the call, before one of its
// statements or around its commit, or after the call, before any other goroutine knows of it.
type storeCall string

const (
	add     storeCall = "orders added"
	prepare storeCall = "batch stored, orders dequeued"
	claim   storeCall = "claim"
	keep    storeCall = "prepared kept"
	record  storeCall = "outcome recorded"
	settle  storeCall = "orders settled"
	halve   storeCall = "orders halved"
)

func (o storeCall) inside() Window { return Window("inside: " + string(o)) }
func (o storeCall) after() Window  { return Window("after: " + string(o)) }

// allWindows returns all windows except anywhere.
func allWindows() []Window {
	out := []Window{posting, accepted, asked}
	for _, o := range [...]storeCall{add, prepare, claim, keep, record, settle, halve} {
		out = append(out, o.inside(), o.after())
	}
	slices.Sort(out)
	return out
}

// killer ends the process, as kill -9 does, once the worker has reached a window often enough.
type killer struct {
	window Window
	nth    int64
	count  atomic.Int64
}

func (k *killer) reach(w Window) {
	if w != nowhere && w == k.window && k.count.Add(1) == k.nth {
		fmt.Println("killed", w)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // waits until the signal arrives
	}
}

// phaseKey is the key of a context under which a statement finds the call of the store that it
// belongs to.
type phaseKey struct{}

// inPhase runs a call of the store, and marks the statements that belong to it.
func inPhase[T any](ctx context.Context, k *killer, o storeCall, f func(context.Context) (T, error)) (T, error) {
	out, err := f(context.WithValue(ctx, phaseKey{}, o))
	if err == nil {
		k.reach(o.after())
	}
	return out, err
}

// step is called before and after a statement, and around a commit.
func (k *killer) step(ctx context.Context) {
	if o, ok := ctx.Value(phaseKey{}).(storeCall); ok {
		k.reach(o.inside())
	}
}
