package dltbatch

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// upkeepEvery is how often a store is looked after that wants to be.
const upkeepEvery = time.Second

// upkeep looks after the store until ctx is done, and reports each of its warnings once,
// for as long as it stands.
func (e *engine) upkeep(ctx context.Context, s store.Upkeeper) {
	for loop.Sleep(ctx, upkeepEvery) {
		var warnings []store.Warning
		err := loop.Retry(ctx, func(err error) { e.r.trouble("upkeep", fmt.Errorf("look after the store: %w", err)) }, func() (err error) {
			call, cancel := context.WithTimeout(ctx, e.r.o.ClaimTTL/4)
			defer cancel()
			warnings, err = s.Upkeep(call)
			return err
		})
		if err != nil {
			return // it stops
		}
		for _, w := range e.r.health.warned(warnings) {
			e.r.trouble("store", w.Err)
		}
	}
}

// warned takes the place of what the store warned of before, and returns what is new in it.
func (h *health) warned(all []store.Warning) (fresh []store.Warning) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := make(map[string]bool, len(h.warnings))
	for _, w := range h.warnings {
		known[w.Name] = true
	}
	for _, w := range all {
		if !known[w.Name] {
			fresh = append(fresh, w)
		}
	}
	h.warnings = all
	return fresh
}
