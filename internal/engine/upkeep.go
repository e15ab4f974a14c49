package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// upkeepInterval is the pause between two Upkeep calls to a store.
const upkeepInterval = time.Second

// upkeep calls the store's Upkeep until ctx is done, and reports each warning once while it lasts.
func (r *run) upkeep(ctx context.Context) {
	var warnings []store.Warning
	for last := (time.Time{}); loop.Sleep(ctx, upkeepInterval); { // the first call comes before the Run rests
		if len(warnings) == 0 && time.Since(last) < r.idlePause(idleUpkeepPause) {
			continue
		}
		last = time.Now()
		err := loop.Retry(ctx, func(err error) { r.events.Trouble("upkeep", fmt.Errorf("look after the store: %w", err)) }, func() (err error) {
			call, cancel := context.WithTimeout(ctx, r.options.ClaimTTL/4)
			defer cancel()
			warnings, err = r.store.Upkeep(call)
			return err
		})
		if err != nil {
			return // Run stops
		}
		r.events.Warned(warnings)
	}
}
