package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Store].Record. All outcomes of a call are one transaction.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	clean := make([]store.Outcome, len(outcomes))
	for i, o := range outcomes {
		clean[i] = o.Sanitised()
	}
	var applied []store.Applied
	err := s.write(ctx, "record", func(ctx context.Context, t *session) (err error) {
		applied, err = t.record(ctx, clean)
		return err
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

func (t *session) record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	now, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	applied := make([]store.Applied, len(outcomes))
	rest, err := t.recordKnown(ctx, outcomes, applied, now)
	if err != nil {
		return nil, err
	}
	if err := t.recordRead(ctx, outcomes, applied, rest, now); err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		if err := t.report(ctx, o, applied[i], now); err != nil {
			return nil, fmt.Errorf("batch %s: %w", o.Key, err)
		}
	}
	return applied, nil
}

// recordRead records the outcomes at these places, and reads their rows first.
func (t *session) recordRead(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, rest []int, now time.Time) error {
	seqs := make([]int64, 0, len(rest))
	for _, i := range rest {
		if row := outcomes[i].Row; row != 0 {
			seqs = append(seqs, row)
		}
	}
	open, err := t.loadOpen(ctx, seqs)
	if err != nil {
		return err
	}
	for _, i := range rest {
		if applied[i], err = t.recordOne(ctx, outcomes[i], open, now); err != nil {
			return fmt.Errorf("batch %s: %w", outcomes[i].Key, err)
		}
	}
	return nil
}

func (t *session) recordOne(ctx context.Context, o store.Outcome, loaded map[int64]*sqlstore.Stored, now time.Time) (store.Applied, error) {
	s := loaded[o.Row]
	if s == nil || s.Key() != o.Key {
		var err error
		s, err = t.load(ctx, o.Ref)
		if errors.Is(err, batch.ErrNotFound) && o.Finding == store.IsCommitted {
			// It was removed and added again. A commit is a fact about the id, in any row.
			s, err = t.load(ctx, store.Ref{Key: o.Key})
		}
		switch {
		case errors.Is(err, batch.ErrNotFound):
			return store.Applied{Ref: o.Ref, Result: store.Gone}, nil
		case err != nil:
			return store.Applied{}, err
		}
		if known := loaded[s.Seq]; known != nil {
			s = known
		} else {
			loaded[s.Seq] = s
		}
	}
	o.Ref = s.Ref()
	next, res := s.Now.Apply(o, now)
	if res.Result == store.Written && next.Version != s.Now.Version {
		var err error
		if res, err = t.enforce(ctx, res, o.Policy, now); err != nil {
			return store.Applied{}, err
		}
		s.Now = res.Row
		if err := t.save(ctx, s); err != nil {
			return store.Applied{}, err
		}
	}
	return res, nil
}
