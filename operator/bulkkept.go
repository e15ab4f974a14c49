package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// bulkLifetime is how long the store keeps a bulk action after its last change.
const bulkLifetime = 30 * 24 * time.Hour

// keptBulk is the stored text of a bulk action: all of Progress except what the store keeps beside
// the text.
type keptBulk struct {
	Bulk     Bulk        `json:"bulk"`
	At       time.Time   `json:"at"`
	State    BulkState   `json:"state"`
	Selected int         `json:"selected"`
	Next     int         `json:"next"`
	Done     int         `json:"done"`
	Events   []BulkEvent `json:"events"`
}

// keptPart is the stored text of one part of an action: its batches, and, after their turn, those
// upon which the action did not act.
type keptPart struct {
	Batches []Seen    `json:"batches"`
	NotDone []NotDone `json:"not_done,omitzero"`

	text store.Text // the text as it was read from the store
}

// storedBulk is a bulk action as it was read from the store.
type storedBulk struct {
	store.Text
	kept keptBulk
}

func readBulk(t store.Text) (storedBulk, error) {
	b := storedBulk{Text: t}
	if t.Version == 0 {
		return b, noBulkError(t.Name)
	}
	if err := json.Unmarshal([]byte(t.Body), &b.kept); err != nil {
		return b, fmt.Errorf("bulk action %s as it is kept: %w", t.Name, err)
	}
	return b, nil
}

func noBulkError(token string) error {
	return fmt.Errorf("%w: bulk action %s", batch.ErrNotFound, batch.Excerpt(token, 64))
}

// parts returns the names of the parts of an action.
func (k keptBulk) parts(token string) (names []string) {
	for place := 0; place*chunkBatches < k.Selected; place++ {
		names = append(names, partName(token, place))
	}
	return names
}

func partName(token string, place int) string { return fmt.Sprint(token, "/", place) }

func (b storedBulk) progress() Progress {
	k := b.kept
	return Progress{b.Name, k.Bulk, k.At, k.State, b.Begun, b.Changed, k.Selected, k.Next, k.Done, k.Events}
}

// addEvent adds an act of a person to the action's events.
func (k *keptBulk) addEvent(addEvent string, by batch.By) {
	const maxEvents = 100
	by.Reason = batch.Excerpt(by.Reason, batch.MaxErrorText)
	if k.Events = append(k.Events, BulkEvent{addEvent, by, k.Next}); len(k.Events) > maxEvents {
		k.Events = slices.Delete(k.Events, 1, 2)
	}
}

// removeOld removes the actions that have not changed for [bulkLifetime], with their parts.
func (s *Bulks) removeOld(ctx context.Context) error {
	old, _, err := s.desk.store.ListTexts(ctx, store.TextsQuery{Kind: store.TextBulk, Unchanged: bulkLifetime, Limit: maxListedBulks})
	if err != nil {
		return err
	}
	for _, t := range old {
		b, err := readBulk(t)
		if err != nil { // written by a later version, which knows the parts
			continue
		}
		parts, _, err := s.desk.store.ReadTexts(ctx, store.TextBulkPart, b.kept.parts(t.Name)...)
		if err != nil {
			return err
		}
		all := append(slices.DeleteFunc(parts, func(p store.Text) bool { return p.Version == 0 }), t)
		for i := range all {
			all[i].Body = ""
		}
		if _, err := s.desk.store.SwapTexts(ctx, all...); err != nil { // an action that has changed meanwhile stays
			return err
		}
	}
	return nil
}

// saveBulk writes a change of an action, and of the part, unless part is nil or has no batches.
// The error is [batch.ErrMovedOn] if the action or the part has changed since it was read.
func (s *Bulks) saveBulk(ctx context.Context, b storedBulk, part *keptPart) (storedBulk, error) {
	body, err := json.Marshal(b.kept)
	if err != nil {
		return b, err
	}
	next := b.Text
	next.Body = string(body)
	all := []store.Text{next}
	if part != nil && len(part.Batches) > 0 {
		body, err := json.Marshal(part)
		if err != nil {
			return b, err
		}
		text := part.text
		text.Body = string(body)
		all = append(all, text)
	}
	did, err := s.desk.store.SwapTexts(ctx, all...)
	if err != nil {
		return b, err
	}
	now, err := s.readBulk(ctx, b.Name)
	if err == nil && !did {
		err = fmt.Errorf("%w: bulk action %s", batch.ErrMovedOn, b.Name)
	}
	if err != nil {
		return b, err
	}
	return now, nil
}

func (s *Bulks) readBulk(ctx context.Context, token string) (storedBulk, error) {
	if store.ValidTextNames(store.TextBulk, token) != nil {
		return storedBulk{}, noBulkError(token)
	}
	t, err := texts.Read(ctx, s.desk.store, store.TextBulk, token)
	if err != nil {
		return storedBulk{}, err
	}
	return readBulk(t)
}

func (s *Bulks) readPart(ctx context.Context, token string, place int) (*keptPart, error) {
	p := &keptPart{text: store.Text{Name: partName(token, place)}}
	if err := s.rereadPart(ctx, p); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(p.text.Body), p); err != nil {
		return nil, fmt.Errorf("a part as it is kept: %w", err)
	}
	return p, nil
}

// rereadPart reads the stored text of a part again, and leaves the other fields of the part as
// they are.
func (s *Bulks) rereadPart(ctx context.Context, p *keptPart) error {
	t, err := texts.Read(ctx, s.desk.store, store.TextBulkPart, p.text.Name)
	if err == nil && t.Version == 0 {
		err = noBulkError(p.text.Name)
	}
	p.text = t
	return err
}
