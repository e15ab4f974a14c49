package texts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// Counter is a store that counts open batches and orders, and keeps the counts.
type Counter interface {
	Store
	CountOpen(ctx context.Context) (store.Totals, error)
}

// Refresh counts open batches and orders, if the kept counts are old enough
// ([store.StatsTurn.Due]) and no other process counts. true means that it did. It also forgets
// instances.
func Refresh(ctx context.Context, s Counter, q store.RefreshQuery) (bool, error) {
	q, err := q.Bounded()
	if err != nil {
		return false, err
	}
	r, err := ReadReport(ctx, s, store.TextStats)
	if err != nil || !r.Due(r.Now, q) {
		return false, err
	}
	r.StatsTurn = r.Take(r.Now)
	if mine, err := r.Keep(ctx, s); err != nil || !mine {
		return false, err
	}
	begin := time.Now()
	counting, cancel := context.WithTimeout(ctx, store.StatsLimit)
	defer cancel()
	totals, failed := s.CountOpen(counting)
	took := time.Since(begin)
	if failed != nil {
		totals.At = time.Time{}
	}
	if r.StatsTurn = r.End(r.Now.Add(took), totals.At, took); failed == nil {
		var before store.Totals
		if json.Unmarshal(r.Detail, &before) != nil {
			before = store.Totals{} // written by another version of the code; the new counts replace it
		}
		totals.Took, totals.By = took, q.By
		if r.Detail, err = json.Marshal(totals.After(before)); err != nil {
			return false, err
		}
	}
	kept, err := r.Keep(ctx, s)
	if failed != nil || err != nil || !kept {
		return false, errors.Join(failed, err)
	}
	return true, forgetInstances(ctx, s, q.Forget)
}

// forgetInstances removes the instances that were last seen longer than after ago, and all except
// the last [store.MaxInstances].
func forgetInstances(ctx context.Context, s Store, after time.Duration) error {
	found, now, err := s.ListTexts(ctx, store.TextsQuery{Kind: store.TextInstance, Limit: 2 * store.MaxInstances})
	if err != nil {
		return err
	}
	for n, t := range found {
		if n < store.MaxInstances && (after <= 0 || now.Sub(t.Changed) < after) {
			continue
		}
		t.Body = ""
		if _, err := s.SwapTexts(ctx, t); err != nil { // an instance that was seen since stays
			return err
		}
	}
	return nil
}

// Stats reads the kept counts and the instances.
func Stats(ctx context.Context, s Store) (store.Stats, error) {
	var read store.Stats
	r, err := ReadReport(ctx, s, store.TextStats)
	if err != nil {
		return read, err
	}
	if r.Detail != nil {
		if err := json.Unmarshal(r.Detail, &read.Totals); err != nil {
			return read, fmt.Errorf("the kept counts: %w", err)
		}
	}
	found, now, err := s.ListTexts(ctx, store.TextsQuery{Kind: store.TextInstance, Limit: store.MaxInstances})
	if err != nil {
		return store.Stats{}, err
	}
	for _, t := range found {
		var i store.Instance
		if err := json.Unmarshal([]byte(t.Body), &i); err != nil {
			return read, fmt.Errorf("instance %s: %w", t.Name, err)
		}
		i.ID, i.Since, i.Seen = t.Name, t.Begun, t.Changed
		read.Instances = append(read.Instances, i)
	}
	return read.AsOf(now), nil
}

// Presence shows one instance to other processes. The zero value shows none yet. Its methods must
// not be called concurrently.
type Presence struct {
	text store.Text // as it was last written
}

// Show writes the instance. The store sets Since and Seen.
func (p *Presence) Show(ctx context.Context, s Store, i store.Instance) error {
	if err := i.Validate(); err != nil {
		return err
	}
	body, err := json.Marshal(i)
	if err != nil {
		return err
	}
	p.text.Kind, p.text.Name, p.text.Body = store.TextInstance, i.ID, string(body)
	p.text.Version, err = Put(ctx, s, p.text)
	return err
}

// End removes the instance.
func (p *Presence) End(ctx context.Context, s Store) (err error) {
	if p.text.Name == "" {
		return nil
	}
	p.text.Body = ""
	p.text.Version, err = Put(ctx, s, p.text)
	return err
}
