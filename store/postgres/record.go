package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Store].Record. The outcomes of a call are one transaction. Where the
// database refuses a value of an outcome, they are written in halves, until that outcome is
// alone and Bad. Known rows are written kind by kind, and each kind in the order of its
// numbers; where such a write has to wait for a row, the call starts again and reads all rows
// first, in one order, as every caller does.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	clean := outcomes // most outcomes have no text
	for i, o := range outcomes {
		if o.Error == nil && o.Report == nil && o.Receipts == nil && o.Endpoint == "" && o.Halt == "" {
			continue
		}
		if &clean[0] == &outcomes[0] {
			clean = slices.Clone(outcomes)
		}
		clean[i] = o.Sanitised()
	}
	return s.recordParts(ctx, clean)
}

func (s *Store) recordParts(ctx context.Context, outcomes []store.Outcome) (applied []store.Applied, err error) {
	inTurn := false
	err = s.txAs(ctx, "record", beginKept, func(ctx context.Context, t *session) (err error) {
		if inTurn {
			if applied, err = t.recordRead(ctx, outcomes); err != nil {
				return err
			}
			return t.report(ctx, outcomes, applied)
		}
		applied, err = t.record(ctx, outcomes)
		if state := sqlState(err); state == lockNotAvailable || state == deadlockDetected {
			inTurn = true
			err = fmt.Errorf("%w: %w", sqlstore.ErrMoved, err)
		}
		return err
	})
	switch {
	case err == nil:
		return applied, nil
	case !refused(err):
		return nil, err
	case len(outcomes) == 1:
		return []store.Applied{{Ref: outcomes[0].Ref, Result: store.Bad, Err: err}}, nil
	}
	half := len(outcomes) / 2
	for _, part := range [...][]store.Outcome{outcomes[:half], outcomes[half:]} {
		a, err := s.recordParts(ctx, part)
		if err != nil {
			return nil, err
		}
		applied = append(applied, a...)
	}
	return applied, nil
}

// refused reports whether the database refused its input: the classes of data exceptions,
// violated constraints and exceeded limits.
func refused(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") || strings.HasPrefix(state, "54")
}

// record writes outcomes without reading first where it can, and then the rest.
func (t *session) record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	applied := make([]store.Applied, len(outcomes))
	rest, err := t.recordKnown(ctx, outcomes, applied)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return applied, t.report(ctx, outcomes, applied)
	}
	read := make([]store.Outcome, len(rest))
	for i, at := range rest {
		read[i] = outcomes[at]
	}
	found, err := t.recordRead(ctx, read)
	if err != nil {
		return nil, err
	}
	for i, at := range rest {
		applied[at] = found[i]
	}
	return applied, t.report(ctx, outcomes, applied)
}

// recordRead reads the rows, locks them, and writes the rows after the outcomes.
func (t *session) recordRead(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if err := t.planAnew(ctx); err != nil {
		return nil, err
	}
	seqs, err := sqlstore.Seqs(ctx, t, len(outcomes), func(i int) store.Ref { return outcomes[i].Ref })
	if err != nil {
		return nil, err
	}
	found, us, err := t.Load(ctx, sqlstore.Known(seqs))
	if err != nil {
		return nil, err
	}
	if err := t.loadAgain(ctx, outcomes, seqs, found); err != nil {
		return nil, err
	}
	now := sqlstore.FromMicro(us)
	applied := make([]store.Applied, len(outcomes))
	for i, o := range outcomes {
		s := found[seqs[i]]
		if s == nil || s.Key() != o.Key {
			applied[i] = store.Applied{Ref: o.Ref, Result: store.Gone}
			continue
		}
		o.Ref = s.Ref()
		s.Now, applied[i] = s.Now.Apply(o, now)
	}
	if err := t.enforce(ctx, outcomes, applied, found, now); err != nil {
		return nil, err
	}
	all := make([]*sqlstore.Stored, 0, len(found))
	for _, s := range found {
		all = append(all, s)
	}
	if err := t.Save(ctx, all); err != nil {
		return nil, err
	}
	return applied, nil
}

// loadAgain looks for batches that were removed and added again since the outcome's ref was
// handed out. A commit is a fact about the id, in any row.
func (t *session) loadAgain(ctx context.Context, outcomes []store.Outcome, seqs []int64, found map[int64]*sqlstore.Stored) error {
	var at []int
	for i, o := range outcomes {
		if s := found[seqs[i]]; o.Finding == store.IsCommitted && o.Row != 0 && (s == nil || s.Key() != o.Key) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	anew, err := sqlstore.Seqs(ctx, t, len(at), func(i int) store.Ref { return store.Ref{Key: outcomes[at[i]].Key} })
	if err != nil {
		return err
	}
	var load []int64
	for i, seq := range anew {
		if seqs[at[i]] = seq; seq != 0 && found[seq] == nil {
			load = append(load, seq)
		}
	}
	if len(load) == 0 {
		return nil
	}
	more, _, err := t.Load(ctx, sqlstore.Known(load))
	maps.Copy(found, more)
	return err
}
