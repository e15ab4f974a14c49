package ordercrash

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store"
)

// decideDoubts is a person who decides batches that need a decision, by the participant's books.
// The participant prunes meanwhile, so that a late question finds nothing.
func (w *World) decideDoubts(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n%20 == 0 {
			w.ledger.Prune(w.ledger.LedgerEnd() - 10)
		}
		open, _, err := w.store.List(ctx, store.ListQuery{Open: true, Limit: 100})
		if err != nil {
			continue // the workers have locked the database; the next round tries again
		}
		for _, rec := range open {
			if rec.Decision == "" {
				continue
			}
			ruling, sure := w.outcomeOf(rec.ID)
			if !sure {
				continue
			}
			_, err := w.store.Decide(ctx, rec, ruling, batch.By{Actor: "a person", Reason: "looked at the participant"})
			switch {
			case err == nil:
				w.mu.Lock()
				w.decisionCount++
				w.mu.Unlock()
			case ctx.Err() == nil && !errors.Is(err, batch.ErrMovedOn) && !errors.Is(err, batch.ErrNotAllowed) && !errors.Is(err, batch.ErrInDoubt):
				w.fail("decide: %w", err)
			}
		}
	}
}

// outcomeOf returns the ruling about a command. sure is false while a submission of it is still
// under way.
func (w *World) outcomeOf(id batch.ID) (ruling batch.Ruling, sure bool) {
	ruling, flying := batch.NotExecutedSendAgain, 0
	for _, e := range w.ledger.Journal() {
		if e.CommandID != string(id) {
			continue
		}
		switch e.Kind {
		case cantontest.Accepted:
			flying++
		case cantontest.Executed:
			ruling = batch.WasCommitted
			flying--
		case cantontest.Rejected, cantontest.Forgotten:
			flying--
		}
	}
	return ruling, flying == 0
}
