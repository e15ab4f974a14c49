package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// maxCancelTries is how often Cancel tries to write the action before the process that carries the
// action out writes it.
const maxCancelTries = 20

// Cancel ends a bulk action: the process that carries the action out stops after its present chunk
// of at most 100 batches. Acts that were done stay done. Where that process ended before it kept
// its progress, Cancel counts the acts by the histories of the batches. The error is
// [batch.ErrNotAllowed] for an action that is over. A second Cancel of a cancelled action counts
// again, which helps where the store failed during the first.
func (s *Bulks) Cancel(ctx context.Context, token string, by batch.By) (Progress, error) {
	p, err := s.cancel(ctx, token, by)
	if err != nil {
		err = fmt.Errorf("cancel bulk action %s: %w", batch.Excerpt(token, 64), err)
	}
	return p, err
}

func (s *Bulks) cancel(ctx context.Context, token string, by batch.By) (Progress, error) {
	if err := by.Validate(); err != nil {
		return Progress{}, err
	}
	var isMine bool
	for try := 1; ; try++ {
		b, err := s.readBulk(ctx, token)
		if err != nil {
			return Progress{}, err
		}
		if b.kept.State == BulkFinished {
			return b.progress(), fmt.Errorf("%w: it is %s", batch.ErrNotAllowed, b.kept.State)
		}
		if b.kept.State == BulkOpen { // the state is written first: the count takes time, in which a process would continue
			b.kept.addEvent("cancel", by)
			b.kept.State = BulkCancelled
			if b, err = s.saveBulk(ctx, b, nil); err == nil {
				isMine = true
			}
		}
		if err == nil {
			if b, err = s.countUnseen(ctx, b); err != nil {
				err = fmt.Errorf("it is cancelled, its last acts are not counted yet: %w", err)
			}
		}
		switch {
		case errors.Is(err, batch.ErrMovedOn) && try < maxCancelTries:
		case err == nil && !isMine:
			return b.progress(), fmt.Errorf("%w: it is %s", batch.ErrNotAllowed, b.kept.State)
		default:
			return b.progress(), err
		}
	}
}

// countUnseen adds the acts that were done after the last kept progress of a cancelled action, and
// finds them in the histories of the batches. A process did these acts, and ended, or has not yet
// noticed the cancel, before it kept them.
func (s *Bulks) countUnseen(ctx context.Context, b storedBulk) (storedBulk, error) {
	if b.kept.Next >= b.kept.Selected {
		return b, nil
	}
	part, err := s.readPart(ctx, b.Name, b.kept.Next/chunkBatches)
	if err != nil {
		return b, err
	}
	counted, next, mark := b, b.kept.Next, bulkReasonPrefix(b.Name)
	for i, seen := range part.Batches[next%chunkBatches:] {
		done, err := s.wasDone(ctx, seen, b.kept.Bulk.Action, mark)
		if err != nil {
			return b, err
		}
		if !done {
			continue
		}
		// The batches before this one had their turn, too.
		for _, before := range part.Batches[counted.kept.Next%chunkBatches : next%chunkBatches+i] {
			why, err := s.whySkipped(ctx, before)
			if err != nil {
				return b, err
			}
			part.NotDone = append(part.NotDone, why)
		}
		counted.kept.Done++
		counted.kept.Next = next + i + 1
	}
	if counted.kept.Next == next {
		return b, nil
	}
	return s.saveBulk(ctx, counted, part)
}

// whySkipped returns why nothing was done to a batch, as far as the batch's record still shows it.
func (s *Bulks) whySkipped(ctx context.Context, seen Seen) (NotDone, error) {
	rec, err := s.desk.Get(ctx, seen.Key)
	if err == nil {
		err = store.Unmoved(batch.Record{Key: seen.Key, Version: seen.Version, CreatedAt: seen.CreatedAt}, rec)
	}
	why, stop := seen.notDone(err)
	switch {
	case stop:
		return why, err
	case err == nil:
		why = NotDone{Key: seen.Key, Why: "the process that found it not allowed ended before it kept the reason"}
	}
	return why, nil
}
