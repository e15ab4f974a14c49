// Package traces finds the trace contexts of batches and of orders, and drops invalid ones.
package traces

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Finder counts the contexts that it drops. The zero value is ready. Its methods may be called
// concurrently.
type Finder struct{ dropped atomic.Uint64 }

// Dropped returns how many contexts were dropped.
func (f *Finder) Dropped() uint64 { return f.dropped.Load() }

// Valid returns parent if it is a trace context or "". For any other text it returns "", and
// counts the text as dropped.
func (f *Finder) Valid(parent string) string {
	if parent == "" || batch.ValidTraceParent(parent) {
		return parent
	}
	f.dropped.Add(1)
	return ""
}

// Ask calls a function of the application, and contains its panic.
func (f *Finder) Ask(app func() string) (parent string) {
	if err := loop.Contain(func() error { parent = app(); return nil }); err != nil {
		f.dropped.Add(1)
		return ""
	}
	return f.Valid(parent)
}

// Traced returns items with their trace contexts, to which at points: their own, or else the
// caller's context, which app returns. app may be nil. Traced does not change the caller's slice,
// and returns that slice, without an allocation, if nothing changes.
func Traced[T any](ctx context.Context, f *Finder, app func(context.Context) string, items []T, at func(*T) *string) []T {
	callers := ""
	if app != nil && len(items) > 0 {
		callers = f.Ask(func() string { return app(ctx) })
	}
	out, mine := items, false
	for i := range items {
		want, own := callers, *at(&items[i])
		if own != "" {
			want = f.Valid(own)
		}
		if want == own {
			continue
		}
		if !mine {
			out, mine = slices.Clone(items), true
		}
		*at(&out[i]) = want
	}
	return out
}
