package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// maxListedBulks is the largest number of actions that List returns.
const maxListedBulks = 100

// Bulks gives access to the bulk actions whose progress the store keeps
// (docs/operations.md#bulk-actions). After a crash of the process that carries an action out, no
// process continues by itself: a person lets another process continue, by the token of the
// selection. The methods may be called concurrently. They return [store.ErrUnsupported] where the
// store lacks [store.CanKeepTexts], [batch.ErrNotFound] for a token that is unknown or no longer
// known (an action is kept for 30 days after its last change), and the store's error.
type Bulks struct{ desk *Desk }

// NewBulks returns the bulk actions in a desk's store.
func NewBulks(d *Desk) *Bulks { return &Bulks{d} }

// BulkState says whether a bulk action is over.
type BulkState string

// States of a bulk action.
const (
	BulkOpen      BulkState = "open" // under way, or waiting for a person who continues it
	BulkFinished  BulkState = "finished"
	BulkCancelled BulkState = "cancelled"
)

// BulkEvent is an act of a person upon a bulk action as a whole.
type BulkEvent struct {
	Event string   `json:"event"` // "begin", "resume" or "cancel"
	By    batch.By `json:"by"`
	Next  int      `json:"next"` // Progress.Next at that time
}

// Progress is how far a bulk action has come.
type Progress struct {
	Token string    `json:"token"`
	Bulk  Bulk      `json:"bulk"`
	At    time.Time `json:"at"` // of the preview, on the database's clock
	State BulkState `json:"state"`
	// Begun and Changed are the times of the first and the last change, on the database's clock.
	Begun   time.Time `json:"begun"`
	Changed time.Time `json:"changed"`
	// Next is the index in the selection of the next batch to act upon.
	Selected int `json:"selected"`
	Next     int `json:"next"`
	Done     int `json:"done"`
	// Events come oldest first: the first event, and the newest 99.
	Events []BulkEvent `json:"events"`
}

// Begin stores a selection as [Desk.Preview] returned it, and changes no batch: [Bulks.Resume]
// acts upon the batches. If the selection is stored already, Begin changes nothing and returns its
// progress. The error is a [*batch.InputError] for a selection that was changed.
func (s *Bulks) Begin(ctx context.Context, sel Selection, by batch.By) (Progress, error) {
	if err := by.Validate(); err != nil {
		return Progress{}, err
	}
	if err := sel.check(); err != nil {
		return Progress{}, err
	}
	kept := keptBulk{Bulk: sel.Bulk, At: sel.At, State: BulkOpen, Selected: len(sel.Batches)}
	kept.addEvent("begin", by)
	text, err := json.Marshal(kept)
	if err != nil {
		return Progress{}, fmt.Errorf("begin a bulk action: %w", err)
	}
	all := []store.Text{{Kind: store.TextBulk, Name: sel.Token, Body: string(text)}}
	for chunk := range slices.Chunk(sel.Batches, chunkBatches) {
		part, err := json.Marshal(keptPart{Batches: chunk})
		if err != nil {
			return Progress{}, fmt.Errorf("begin a bulk action: %w", err)
		}
		all = append(all, store.Text{Kind: store.TextBulkPart, Name: partName(sel.Token, len(all)-1), Body: string(part)})
	}
	err = s.removeOld(ctx)
	if err == nil {
		_, err = s.desk.store.SwapTexts(ctx, all...)
	}
	if err != nil {
		return Progress{}, fmt.Errorf("begin a bulk action: %w", err)
	}
	b, err := s.readBulk(ctx, sel.Token) // the action's times, or the action that was kept before
	return b.progress(), err
}

// Resume continues an action, which another person or process may have begun: it acts upon the
// batches one by one, each as it was at the preview. After each 100 batches it stores the
// progress, and calls progress unless that is nil. The history of each batch has the act, with
// this person's name, and with the token before the reason. A batch to which the action was done
// before the progress was stored counts as done, and is not acted upon again.
//
// The error is [batch.ErrNotAllowed] for an action that is over, and [batch.ErrMovedOn] if another
// call continues the action or somebody has cancelled it: Resume then stops. It also stops when
// ctx is done or the store fails. It returns the progress with the error.
func (s *Bulks) Resume(ctx context.Context, token string, by batch.By, progress func(Progress)) (Progress, error) {
	p, err := s.resume(ctx, token, by, progress)
	if err != nil {
		err = fmt.Errorf("bulk action %s: %w", batch.Excerpt(token, 64), err)
	}
	return p, err
}

func (s *Bulks) resume(ctx context.Context, token string, by batch.By, progress func(Progress)) (Progress, error) {
	if err := by.Validate(); err != nil {
		return Progress{}, err
	}
	b, err := s.readBulk(ctx, token)
	if err != nil {
		return Progress{}, err
	}
	if b.kept.State != BulkOpen {
		return b.progress(), fmt.Errorf("%w: it is %s", batch.ErrNotAllowed, b.kept.State)
	}
	// The person who began the action usually makes the first Resume, which adds no second event.
	if last := b.kept.Events[len(b.kept.Events)-1]; last.Event != "begin" || last.By.Actor != by.Actor || b.kept.Next > 0 {
		b.kept.addEvent("resume", by)
		if b, err = s.saveBulk(ctx, b, nil); err != nil {
			return b.progress(), err
		}
	}
	mark := bulkReasonPrefix(token)
	by.Reason = mark + by.Reason
	for b.kept.State == BulkOpen {
		part, err := s.readPart(ctx, token, b.kept.Next/chunkBatches)
		if errors.Is(err, batch.ErrNotFound) && b.kept.Selected == 0 {
			part, err = &keptPart{}, nil
		}
		if err != nil {
			return b.progress(), err
		}
		next, err := s.actUponChunk(ctx, b.kept, part, by, mark)
		if err != nil {
			return b.progress(), err
		}
		was := b
		b.kept = next
		if b, err = s.saveBulk(ctx, b, part); errors.Is(err, batch.ErrMovedOn) {
			return s.keepLate(ctx, was, next, part, err)
		} else if err != nil {
			return was.progress(), err
		}
		if progress != nil {
			progress(b.progress())
		}
	}
	return b.progress(), nil
}

// keepLate stores the progress of a call during which somebody cancelled the action; moved is the
// error of the first write. If another call continues the action instead, that call counts these
// batches.
func (s *Bulks) keepLate(ctx context.Context, was storedBulk, next keptBulk, part *keptPart, moved error) (Progress, error) {
	for try := 1; ; try++ {
		now, err := s.readBulk(ctx, was.Name)
		if err == nil && len(part.Batches) > 0 {
			err = s.rereadPart(ctx, part)
		}
		if err != nil {
			return was.progress(), errors.Join(moved, err)
		}
		// Cancel may have counted some of these batches already.
		if now.kept.State != BulkCancelled || now.kept.Next < was.kept.Next || now.kept.Next > next.Next {
			return now.progress(), moved
		}
		now.kept.Next, now.kept.Done = next.Next, next.Done
		if now, err = s.saveBulk(ctx, now, part); err == nil {
			return now.progress(), fmt.Errorf("%w: it was cancelled", moved)
		}
		if !errors.Is(err, batch.ErrMovedOn) || try == maxCancelTries {
			return now.progress(), errors.Join(moved, err)
		}
	}
}

// bulkReasonPrefix returns the text with which the reason of each act of a bulk action begins, so
// that another process recognizes the act.
func bulkReasonPrefix(token string) string { return "bulk " + token + ": " }

// actUponChunk acts upon the batches of a part, and returns the action with its new progress.
func (s *Bulks) actUponChunk(ctx context.Context, k keptBulk, part *keptPart, by batch.By, mark string) (keptBulk, error) {
	desk := s.desk.chunkDesk()
	part.NotDone = nil
	for _, seen := range part.Batches {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		err := k.Bulk.actUpon(ctx, desk, seen, by)
		why, stop := seen.notDone(err)
		if stop {
			return k, err
		}
		done := err == nil
		if !done {
			// The history says whether the act was done before. The result is kept for good, so
			// the action stops here if the history cannot be read.
			if done, err = s.wasDone(ctx, seen, k.Bulk.Action, mark); err != nil {
				return k, err
			}
		}
		if done {
			k.Done++
		} else {
			part.NotDone = append(part.NotDone, why)
		}
		k.Next++
	}
	if k.Next == k.Selected {
		k.State = BulkFinished
	}
	return k, nil
}

// wasDone reports whether the batch's history has an act of this bulk action. A batch that was
// removed has no history.
func (s *Bulks) wasDone(ctx context.Context, to Seen, action batch.Action, mark string) (bool, error) {
	acts, err := s.desk.History(ctx, to.Key)
	if err != nil && !errors.Is(err, batch.ErrNotFound) {
		return false, err
	}
	return slices.ContainsFunc(acts, func(a batch.Act) bool {
		return a.Action == action && strings.HasPrefix(a.By.Reason, mark)
	}), nil
}

// Get returns how far an action has come.
func (s *Bulks) Get(ctx context.Context, token string) (Progress, error) {
	b, err := s.readBulk(ctx, token)
	if err != nil {
		return Progress{}, fmt.Errorf("bulk action: %w", err)
	}
	return b.progress(), nil
}

// Report returns the batches that had their turn and were not acted upon, each with the reason.
func (s *Bulks) Report(ctx context.Context, token string) (Report, error) {
	b, err := s.readBulk(ctx, token)
	r := Report{Token: token, Selected: b.kept.Selected, Done: b.kept.Done, Next: b.kept.Next, NotDone: []NotDone{}}
	for place := 0; err == nil && place*chunkBatches < r.Next; place++ {
		var part *keptPart
		if part, err = s.readPart(ctx, token, place); err == nil {
			r.NotDone = append(r.NotDone, part.NotDone...)
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("report of a bulk action: %w", err)
	}
	return r, nil
}

// List returns the actions that began last, newest first: 100 at most, out of the 1,000 actions
// that changed last.
func (s *Bulks) List(ctx context.Context) ([]Progress, error) {
	all, _, err := s.desk.store.ListTexts(ctx, store.TextsQuery{Kind: store.TextBulk, Limit: 10 * maxListedBulks})
	if err != nil {
		return nil, fmt.Errorf("bulk actions: %w", err)
	}
	slices.SortFunc(all, func(a, b store.Text) int { return cmp.Or(b.Begun.Compare(a.Begun), strings.Compare(a.Name, b.Name)) })
	list := make([]Progress, 0, len(all))
	for _, one := range all[:min(len(all), maxListedBulks)] {
		b, err := readBulk(one)
		if err != nil {
			return nil, err
		}
		list = append(list, b.progress())
	}
	return list, nil
}
