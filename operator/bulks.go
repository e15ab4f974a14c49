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

// maxListedBulks is how many actions List returns.
const maxListedBulks = 100

// Bulks are the bulk actions whose progress the store keeps (docs/operations.md#bulk-actions).
// After a crash of the process that carries one out, nothing goes on by itself: a person lets
// another process go on, by the token of the selection. Its methods may be called concurrently.
// They return [store.ErrUnsupported] where the store lacks [store.CanKeepTexts],
// [batch.ErrNotFound] for a token that is not known, or not any more (an action is kept for 30
// days after its last change), and the store's error.
type Bulks struct{ d *Desk }

// NewBulks returns the bulk actions of a desk's store.
func NewBulks(d *Desk) *Bulks { return &Bulks{d} }

// BulkState says whether a bulk action is over.
type BulkState string

// States of a bulk action.
const (
	BulkOpen      BulkState = "open" // under way, or waiting for somebody who goes on with it
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
	// Next is the place in the selection of the first batch whose turn is still to come.
	Selected int `json:"selected"`
	Next     int `json:"next"`
	Done     int `json:"done"`
	// Events come oldest first: the first, and the newest 99.
	Events []BulkEvent `json:"events"`
}

// Begin keeps a selection, as [Desk.Preview] returned it, and changes no batch yet: [Bulks.Resume]
// does. Where the selection is kept already it changes nothing and returns its progress. The error
// is a [*batch.InputError] for a selection that was changed.
func (s *Bulks) Begin(ctx context.Context, sel Selection, by batch.By) (Progress, error) {
	if err := by.Validate(); err != nil {
		return Progress{}, err
	}
	if err := sel.check(); err != nil {
		return Progress{}, err
	}
	kept := keptBulk{Bulk: sel.Bulk, At: sel.At, State: BulkOpen, Selected: len(sel.Batches)}
	kept.event("begin", by)
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
	err = s.forget(ctx)
	if err == nil {
		_, err = s.d.store.SwapTexts(ctx, all...)
	}
	if err != nil {
		return Progress{}, fmt.Errorf("begin a bulk action: %w", err)
	}
	b, err := s.readBulk(ctx, sel.Token) // its times, or the action that is kept already
	return b.progress(), err
}

// Resume goes on with an action, which another person or process may have begun: it acts upon each
// batch as it was at the preview, one by one. After each 100 batches it keeps the progress, and
// calls progress, which may be nil. Each act is in the history of its batch, by this person, with
// the token before the reason. A batch to which the action was done already, before the progress
// was kept, counts as done, and nothing is done to it again.
//
// The error is [batch.ErrNotAllowed] for an action that is over, and [batch.ErrMovedOn] once
// somebody else goes on with the action or has cancelled it: this call then stops. It also stops
// when ctx is done, or the store fails; the progress comes with the error.
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
	// The person who began most often goes on first; the events say so once.
	if last := b.kept.Events[len(b.kept.Events)-1]; last.Event != "begin" || last.By.Actor != by.Actor || b.kept.Next > 0 {
		b.kept.event("resume", by)
		if b, err = s.saveBulk(ctx, b, nil); err != nil {
			return b.progress(), err
		}
	}
	mark := bulkMark(token)
	by.Reason = mark + by.Reason
	for b.kept.State == BulkOpen {
		part, err := s.readPart(ctx, token, b.kept.Next/chunkBatches)
		if errors.Is(err, batch.ErrNotFound) && b.kept.Selected == 0 {
			part, err = &keptPart{}, nil
		}
		if err != nil {
			return b.progress(), err
		}
		next, err := s.chunk(ctx, b.kept, part, by, mark)
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

// keepLate keeps the progress that a call made while somebody cancelled the action; moved is the
// error. Where somebody else goes on, that call counts these batches.
func (s *Bulks) keepLate(ctx context.Context, was bulk, next keptBulk, part *keptPart, moved error) (Progress, error) {
	for try := 1; ; try++ {
		now, err := s.readBulk(ctx, was.Name)
		if err == nil && len(part.Batches) > 0 {
			err = s.reread(ctx, part)
		}
		if err != nil {
			return was.progress(), errors.Join(moved, err)
		}
		// Cancel may have counted a part of these batches already.
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

// bulkMark begins the reason of each act of a bulk action, so that another process knows the act.
func bulkMark(token string) string { return "bulk " + token + ": " }

// chunk acts upon the batches of a part, and returns how far the action has come then.
func (s *Bulks) chunk(ctx context.Context, k keptBulk, part *keptPart, by batch.By, mark string) (keptBulk, error) {
	desk := s.d.chunkDesk()
	part.NotDone = nil
	for _, seen := range part.Batches {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		err := k.Bulk.act(ctx, desk, seen, by)
		why, stop := seen.notDone(err)
		if stop {
			return k, err
		}
		done := err == nil
		if !done {
			// Whether the act was done before decides what is kept for good: without an answer the
			// action stops here.
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

// wasDone reports whether this bulk action was done to a batch before, by the batch's history. A
// batch that is gone has none.
func (s *Bulks) wasDone(ctx context.Context, to Seen, action batch.Action, mark string) (bool, error) {
	acts, err := s.d.History(ctx, to.Key)
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

// Report returns the batches to which nothing was done, each with the reason, of all that had
// their turn.
func (s *Bulks) Report(ctx context.Context, token string) (Report, error) {
	b, err := s.readBulk(ctx, token)
	r := Report{Token: token, Selected: b.kept.Selected, Done: b.kept.Done, Next: b.kept.Next, NotDone: []NotDone{}}
	for place := 0; err == nil && place*chunkBatches < r.Next; place++ {
		var p *keptPart
		if p, err = s.readPart(ctx, token, place); err == nil {
			r.NotDone = append(r.NotDone, p.NotDone...)
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("report of a bulk action: %w", err)
	}
	return r, nil
}

// List returns the actions that began last, the newest first: a hundred at most, of the thousand
// that were changed last.
func (s *Bulks) List(ctx context.Context) ([]Progress, error) {
	all, _, err := s.d.store.ListTexts(ctx, store.TextsQuery{Kind: store.TextBulk, Limit: 10 * maxListedBulks})
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
