package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// bulk is a kept bulk action.
type bulk struct {
	store.Bulk
	parts []string
}

// AddBulk is [store.Store].AddBulk.
func (s *Store) AddBulk(ctx context.Context, token, text string, parts []string, forget time.Duration) (store.Bulk, error) {
	if err := cmp.Or(ctx.Err(), store.ValidBulkToken(token)); err != nil {
		return store.Bulk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if forget > 0 {
		maps.DeleteFunc(s.bulks, func(_ string, b *bulk) bool { return now.Sub(b.Changed) > forget })
	}
	if s.bulks[token] == nil {
		s.bulks[token] = &bulk{store.Bulk{Token: token, Version: 1, Begun: now, Changed: now, Text: text}, slices.Clone(parts)}
	}
	return s.bulks[token].Bulk, nil
}

// SetBulk is [store.Store].SetBulk.
func (s *Store) SetBulk(ctx context.Context, token string, version int64, text string, part *store.BulkPart) (store.Bulk, error) {
	if err := ctx.Err(); err != nil {
		return store.Bulk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bulks[token]
	switch {
	case b == nil, part != nil && (part.Place < 0 || part.Place >= len(b.parts)):
		return store.Bulk{}, noBulk(token)
	case b.Version != version:
		return store.Bulk{}, fmt.Errorf("%w: bulk action %s", batch.ErrMovedOn, token)
	}
	b.Version, b.Changed, b.Text = b.Version+1, s.now(), text
	if part != nil {
		b.parts[part.Place] = part.Text
	}
	return b.Bulk, nil
}

func noBulk(token string) error {
	return fmt.Errorf("%w: bulk action %s", batch.ErrNotFound, batch.Excerpt(token, 64))
}

// GetBulk is [store.Store].GetBulk.
func (s *Store) GetBulk(ctx context.Context, token string) (store.Bulk, error) {
	if err := ctx.Err(); err != nil {
		return store.Bulk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.bulks[token]; b != nil {
		return b.Bulk, nil
	}
	return store.Bulk{}, noBulk(token)
}

// GetBulkPart is [store.Store].GetBulkPart.
func (s *Store) GetBulkPart(ctx context.Context, token string, place int) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.bulks[token]; b != nil && place >= 0 && place < len(b.parts) {
		return b.parts[place], nil
	}
	return "", noBulk(token)
}

// ListBulks is [store.Store].ListBulks.
func (s *Store) ListBulks(ctx context.Context, limit int) ([]store.Bulk, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]store.Bulk, 0, len(s.bulks))
	for _, b := range s.bulks {
		all = append(all, b.Bulk)
	}
	slices.SortFunc(all, func(a, b store.Bulk) int { return cmp.Or(b.Begun.Compare(a.Begun), strings.Compare(a.Token, b.Token)) })
	return all[:min(len(all), max(0, limit), store.MaxBulks)], nil
}
