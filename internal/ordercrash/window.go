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
	duringPost       Window = "POST under way"
	afterAnswer      Window = "answered, before the record"
	afterCompletions Window = "completions read, before the record"
	anyWindow        Window = "anywhere"
	noWindow         Window = ""
)

// storeCall is a call of the store. A worker is killed inside the call, before one of its
// statements or around its commit, or after the call, before any other goroutine knows of it.
type storeCall string

const (
	callAddOrders    storeCall = "orders added"
	callPrepareBatch storeCall = "batch stored, orders dequeued"
	callClaim        storeCall = "claim"
	callKeepPrepared storeCall = "prepared kept"
	callRecord       storeCall = "outcome recorded"
	callSettleOrders storeCall = "orders settled"
	callSplitOrders  storeCall = "orders halved"
)

func (o storeCall) inside() Window { return Window("inside: " + string(o)) }
func (o storeCall) after() Window  { return Window("after: " + string(o)) }

// allWindows returns all windows except anywhere.
func allWindows() []Window {
	out := []Window{duringPost, afterAnswer, afterCompletions}
	for _, o := range [...]storeCall{callAddOrders, callPrepareBatch, callClaim, callKeepPrepared, callRecord, callSettleOrders, callSplitOrders} {
		out = append(out, o.inside(), o.after())
	}
	slices.Sort(out)
	return out
}

// killer ends the process, as kill -9 does, once the worker has reached a window often enough.
type killer struct {
	window       Window
	dieAtNth     int64
	reachedCount atomic.Int64
}

func (k *killer) dieIfReached(w Window) {
	if w != noWindow && w == k.window && k.reachedCount.Add(1) == k.dieAtNth {
		fmt.Println("killed", w)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // waits until the signal arrives
	}
}

// storeCallKey is the key of a context under which a statement finds the call of the store that it
// belongs to.
type storeCallKey struct{}

// inStoreCall runs a call of the store, and marks the statements that belong to it.
func inStoreCall[T any](ctx context.Context, k *killer, o storeCall, f func(context.Context) (T, error)) (T, error) {
	out, err := f(context.WithValue(ctx, storeCallKey{}, o))
	if err == nil {
		k.dieIfReached(o.after())
	}
	return out, err
}

// reachInside is called before and after a statement, and around a commit.
func (k *killer) reachInside(ctx context.Context) {
	if o, ok := ctx.Value(storeCallKey{}).(storeCall); ok {
		k.dieIfReached(o.inside())
	}
}
