package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Store].Record. The outcomes of a call are one transaction. If the database
// refuses a value of an outcome, Record writes the outcomes in halves, until that outcome is alone
// and Bad. Known rows are written by kind, and within a kind in the order of their numbers. If
// such a write has to wait for a row, the call begins again and reads all rows first, in the order
// in which every caller reads them. It waits for a locked row for 1.5 s, and then fails.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	return s.recordParts(ctx, sqlstore.Sanitised(outcomes))
}

func (s *Store) recordParts(ctx context.Context, outcomes []store.Outcome) (applied []store.Applied, err error) {
	inTurn := false
	err = s.txAs(ctx, "record", beginKept, func(ctx context.Context, t *session) (err error) {
		applied, err = t.record(ctx, outcomes, inTurn)
		if state := sqlState(err); !inTurn && (state == lockNotAvailable || state == deadlockDetected) {
			inTurn = true
			err = fmt.Errorf("%w: %w", sqlstore.ErrMoved, err)
		}
		return err
	})
	switch {
	case err == nil:
		s.noteContradiction(outcomes)
		return applied, nil
	case !isRefusal(err):
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

// isRefusal reports whether the database refused the input: a data exception, a violated
// constraint, or an exceeded limit.
func isRefusal(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") || strings.HasPrefix(state, "54")
}

// record first writes the outcomes whose rows it need not read, unless inTurn is true, and then
// the other outcomes.
func (t *session) record(ctx context.Context, outcomes []store.Outcome, inTurn bool) (applied []store.Applied, err error) {
	applied = make([]store.Applied, len(outcomes))
	var rest []int
	if inTurn {
		for i := range outcomes {
			rest = append(rest, i)
		}
	} else if rest, err = t.recordKnown(ctx, outcomes, applied); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		plan := sqlPlanAnew
		if len(rest) == len(outcomes) { // nothing is written yet, so no row is locked
			plan = sqlPlanPatient
		}
		if err := t.plan(ctx, plan); err != nil {
			return nil, err
		}
		if err := sqlstore.RecordRead(ctx, t, outcomes, applied, rest, sqlHalt); err != nil {
			return nil, err
		}
	}
	reports := sqlstore.Reports(outcomes, applied)
	if len(reports) > 0 {
		if err := t.planAnew(ctx); err != nil {
			return nil, err
		}
	}
	return applied, sqlstore.KeepReports(ctx, t, reports, sqlInsertAttempts, sqlTrimAttempts)
}
