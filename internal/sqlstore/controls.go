package sqlstore

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Steer is [store.Store].Steer.
func (s *Store) Steer(ctx context.Context, st store.Steering) (next batch.Control, changed bool, err error) {
	const op = "steer"
	if err := st.Validate(); err != nil {
		return batch.Control{}, false, s.driver.Wrap(op, err)
	}
	err = s.driver.Write(ctx, op, func(ctx context.Context, t Tx) error {
		was, err := lockControl(ctx, t, st.Scope)
		if err != nil {
			return err
		}
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		var act batch.Act
		if next, act, changed, err = st.Apply(was, FromMicro(now)); err != nil {
			return err
		}
		if err := setControl(ctx, t, next); err != nil || !changed {
			return err
		}
		return keepLaneAct(ctx, t, act)
	})
	if err != nil {
		return batch.Control{}, false, err
	}
	return next, changed, nil
}

// lockControl reads a control and locks it until the transaction ends. It adds the row if there is
// none, since only a row can be locked. setControl removes a row with nothing set.
func lockControl(ctx context.Context, t Tx, scope batch.Scope) (batch.Control, error) {
	if _, err := t.Exec(ctx, sqlNewControl, scope.All, string(scope.Service)); err != nil {
		return batch.Control{}, err
	}
	found, err := Query[ControlCols](ctx, t, sqlLockControl, scope.All, string(scope.Service))
	if err == nil && len(found) == 0 { // the row was there, and another transaction has removed it since
		err = fmt.Errorf("%w: the control of %s", ErrMoved, scope)
	}
	return controlOf(found, scope), err
}

// setControl writes a control that has a row. A control with nothing set keeps its row, for the
// version, unless it was never set.
func setControl(ctx context.Context, t Tx, c batch.Control) (err error) {
	if !c.InEffect() && c.Version == 0 {
		_, err = t.Exec(ctx, sqlDeleteControl, c.All, string(c.Service))
		return err
	}
	_, err = t.Exec(ctx, sqlSetControl, c.All, string(c.Service), ToMicro(c.PausedAt), c.PausedBy.Actor, c.PausedBy.Reason, int64(c.Policy),
		ToMicro(c.HaltedAt), string(c.HaltedBy), c.HaltReason, c.Version)
	return err
}

// Control is [store.Store].Control.
func (s *Store) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	const op = "read a control"
	if err := scope.Validate(); err != nil {
		return batch.Control{}, s.driver.Wrap(op, err)
	}
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) (batch.Control, error) { return ControlNow(ctx, t, scope) })
}

// ControlNow reads a control.
func ControlNow(ctx context.Context, t Tx, scope batch.Scope) (batch.Control, error) {
	found, err := Query[ControlCols](ctx, t, sqlControl, scope.All, string(scope.Service))
	return controlOf(found, scope), err
}

// ControlsOf is [store.Store].ControlsOf.
func (s *Store) ControlsOf(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error) {
	q = q.Bounded()
	if q.Start {
		q.After = ""
	}
	const op = "list controls"
	if err := checkAfter(q.After, q.Start); err != nil {
		return nil, s.driver.Wrap(op, err)
	}
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) ([]batch.Control, error) {
		found, err := Query[ControlCols](ctx, t, sqlControls, string(q.After), q.Start, int64(q.Limit))
		controls := make([]batch.Control, len(found))
		for i := range found {
			controls[i] = found[i].Control()
		}
		return controls, err
	})
}

// ControlCols is a row of the table of controls.
type ControlCols struct {
	Everything   bool   `db:"everything"`
	Service      string `db:"service_id"`
	PausedAt     int64  `db:"paused_at"`
	PausedBy     string `db:"paused_by"`
	PausedReason string `db:"paused_reason"`
	Policy       int64  `db:"policy"`
	HaltedAt     int64  `db:"halted_at"`
	HaltedBy     string `db:"halted_by"`
	HaltReason   string `db:"halt_reason"`
	Version      int64  `db:"version"`
}

// Control returns the control in the columns.
func (c *ControlCols) Control() batch.Control {
	return batch.Control{
		Scope:    batch.Scope{All: c.Everything, Service: batch.ServiceID(c.Service)},
		PausedAt: FromMicro(c.PausedAt), PausedBy: batch.By{Actor: c.PausedBy, Reason: c.PausedReason},
		Policy:   batch.Policy(c.Policy),
		HaltedAt: FromMicro(c.HaltedAt), HaltedBy: batch.ID(c.HaltedBy), HaltReason: c.HaltReason,
		Version: c.Version,
	}
}

// controlOf returns the control of a scope among found. If found has none, the result has only its
// scope.
func controlOf(found []ControlCols, scope batch.Scope) batch.Control {
	for i := range found {
		if found[i].Everything == scope.All && found[i].Service == string(scope.Service) {
			return found[i].Control()
		}
	}
	return batch.Control{Scope: scope}
}
