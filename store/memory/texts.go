package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// ReadTexts is [store.Store].ReadTexts.
func (s *Store) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if err := cmp.Or(ctx.Err(), store.ValidTextNames(kind, names...)); err != nil {
		return nil, time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]store.Text, len(names))
	for i, name := range names {
		found[i] = s.text(kind, name)
	}
	return found, s.now(), nil
}

// text returns the text of a name; its Version is 0 if there is none. s.mu is held.
func (s *Store) text(kind store.TextKind, name string) store.Text {
	if t, is := s.texts[kind][name]; is {
		return t
	}
	return store.Text{Kind: kind, Name: name}
}

// ListTexts is [store.Store].ListTexts.
func (s *Store) ListTexts(ctx context.Context, q store.TextsQuery) ([]store.Text, time.Time, error) {
	if err := cmp.Or(ctx.Err(), store.ValidTextNames(q.Kind)); err != nil {
		return nil, time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.Text
	now := s.now()
	for _, t := range s.texts[q.Kind] {
		if q.Unchanged <= 0 || now.Sub(t.Changed) >= q.Unchanged {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b store.Text) int {
		return cmp.Or(b.Changed.Compare(a.Changed), strings.Compare(a.Name, b.Name))
	})
	return found[:min(len(found), max(0, q.Limit))], now, nil
}

// SwapTexts is [store.Store].SwapTexts.
func (s *Store) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if err := cmp.Or(ctx.Err(), store.ValidTexts(texts)); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range texts {
		if s.text(t.Kind, t.Name).Version != t.Version {
			return false, nil
		}
	}
	for _, t := range texts {
		if t.Body == "" {
			delete(s.texts[t.Kind], t.Name)
			continue
		}
		if s.texts[t.Kind] == nil {
			s.texts[t.Kind] = map[string]store.Text{}
		}
		t.Begun, t.Changed = s.text(t.Kind, t.Name).Begun, s.now()
		if t.Version == 0 {
			t.Begun = t.Changed
		}
		t.Version++
		s.texts[t.Kind][t.Name] = t
	}
	return true, nil
}
