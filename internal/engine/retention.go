package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Retention prunes in chunks, with pauses, so that no other transaction waits for it.
const (
	pruneChunk    = 500
	prunePause    = 100 * time.Millisecond // while more is left to prune
	pruneInterval = time.Minute
)

// keepPruning removes records that have been final for Options.Retention, until ctx is done:
// batches and orders, ids in the journal, and acts of operators. It does so once a minute, and
// goes on at once while a chunk of one kind was full. [store.Store].Prune tells what stays.
func (r *run) keepPruning(ctx context.Context) {
	q := store.PruneQuery{OlderThan: r.options.Retention, Limit: pruneChunk, Tombstone: r.ledger.leavesTombstones}
	var last time.Time
	var pruned store.Pruned
	for pause := prunePause; loop.Sleep(ctx, pause); {
		if pruned == (store.Pruned{}) && time.Since(last) < r.idlePause(pruneRest) {
			continue
		}
		last = time.Now()
		err := loop.Retry(ctx, func(err error) { r.events.Trouble("retention", fmt.Errorf("prune: %w", err)) }, func() (err error) {
			pruned, err = r.prune(ctx, q)
			return err
		})
		if err != nil {
			return // Run stops
		}
		pause = pruneInterval
		if pruned.More(q) {
			pause = prunePause
		}
	}
}

func (r *run) prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.ClaimTTL/4)
	defer cancel()
	return r.storeOf("retention").Prune(ctx, q)
}
