package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Steer is [store.Controls].Steer.
func (s *Store) Steer(ctx context.Context, st store.Steering) (next batch.Control, changed bool, err error) {
	const op = "steer"
	if err := st.Validate(); err != nil {
		return batch.Control{}, false, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		was, err := t.lockControl(ctx, st.Scope)
		if err != nil {
			return err
		}
		now, err := sqlstore.Now(ctx, t)
		if err != nil {
			return err
		}
		var act batch.Act
		if next, act, changed, err = st.Apply(was, sqlstore.FromMicro(now)); err != nil {
			return err
		}
		if err := t.setControl(ctx, next); err != nil || !changed {
			return err
		}
		return t.keepLaneAct(ctx, act)
	})
	if err != nil {
		return batch.Control{}, false, err
	}
	return next, changed, nil
}

// lockControl reads a control and locks it until the transaction ends.
func (t *session) lockControl(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	if _, err := t.Exec(ctx, sqlNewControl, scope.All, string(scope.Service)); err != nil {
		return batch.Control{}, err
	}
	found, err := sqlstore.Query(ctx, t, (*sqlstore.ControlCols).Dest, sqlLockControl, scope.All, string(scope.Service))
	if err == nil && len(found) == 0 { // it was there, and has been removed since
		err = fmt.Errorf("%w: the control of %s", sqlstore.ErrMoved, scope)
	}
	return sqlstore.ControlOf(found, scope), err
}

// setControl writes a locked control. A control with nothing set is kept for its version, too,
// unless it was never set.
func (t *session) setControl(ctx context.Context, c batch.Control) (err error) {
	if c.Set() || c.Version > 0 {
		_, err = t.Exec(ctx, sqlSetControl, sqlstore.ControlArgs(c)...)
	} else {
		_, err = t.Exec(ctx, sqlDeleteControl, c.All, string(c.Service))
	}
	return err
}

// enforce carries out halts, and the lanes' policies about batches that ended badly: the rows
// are locked and not saved yet. Other outcomes cost nothing here.
func (t *session) enforce(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, found map[int64]*sqlstore.Stored, now time.Time) error {
	var ended []batch.ServiceID
	for i := range applied {
		if applied[i].Governs() {
			ended = append(ended, applied[i].Key.Service)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	rows, err := sqlstore.Query(ctx, t, (*sqlstore.ControlCols).Dest, sqlControlsOf, texts(distinct(ended)))
	if err != nil {
		return err
	}
	controls := make(map[batch.ServiceID]batch.Control, len(rows))
	for i := range rows {
		controls[batch.ServiceID(rows[i].Service)] = rows[i].Control()
	}
	var halted []store.Applied // the first of each lane
	for i, a := range applied {
		if !a.Governs() {
			continue
		}
		service := a.Key.Service
		if a, controls[service] = a.Enforce(controls[service], outcomes[i].Policy, now); a.Halted &&
			!slices.ContainsFunc(halted, func(h store.Applied) bool { return h.Key.Service == service }) {
			halted = append(halted, a)
		}
		if s := found[a.Ref.Row]; s.Now.Version == a.Row.Version { // else it was committed after all
			s.Now.Quarantined = a.Row.Quarantined
		}
		applied[i] = a
	}
	for i := range applied { // a fenced outcome reports the present row
		if s := found[applied[i].Ref.Row]; s != nil && applied[i].Row.Version == s.Now.Version {
			applied[i].Row.Quarantined = s.Now.Quarantined
		}
	}
	if len(halted) == 0 {
		return nil
	}
	n := len(halted)
	_, err = t.Exec(ctx, sqlHalt, textArray(n, func(i int) string { return string(halted[i].Key.Service) }),
		intArray(n, func(int) int64 { return sqlstore.ToMicro(now) }), textArray(n, func(i int) string { return string(halted[i].Key.ID) }),
		textArray(n, func(i int) string { return controls[halted[i].Key.Service].HaltReason }))
	return err
}

// Control is [store.Controls].Control.
func (s *Store) Control(ctx context.Context, scope batch.Scope) (c batch.Control, err error) {
	const op = "read a control"
	if err := scope.Validate(); err != nil {
		return batch.Control{}, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) (err error) {
		c, err = t.control(ctx, scope)
		return err
	})
	return c, err
}

func (t *session) control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	found, err := sqlstore.Query(ctx, t, (*sqlstore.ControlCols).Dest, sqlControl, scope.All, string(scope.Service))
	return sqlstore.ControlOf(found, scope), err
}

// ControlsOf is [store.Controls].ControlsOf.
func (s *Store) ControlsOf(ctx context.Context, q store.ControlsQuery) (controls []batch.Control, err error) {
	q = q.Bounded()
	if q.Start {
		q.After = ""
	}
	err = s.tx(ctx, "list controls", func(ctx context.Context, t *session) error {
		found, err := sqlstore.Query(ctx, t, (*sqlstore.ControlCols).Dest, sqlControls, string(q.After), q.Start, int64(q.Limit))
		controls = make([]batch.Control, len(found))
		for i := range found {
			controls[i] = found[i].Control()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return controls, nil
}
