package sqlite

import (
	"context"
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
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		was, err := t.control(ctx, st.Scope)
		if err != nil {
			return err
		}
		var act batch.Act
		if next, act, changed, err = st.Apply(was, now); err != nil || !changed {
			return err
		}
		if err := t.setControl(ctx, next); err != nil {
			return err
		}
		return t.keepLaneAct(ctx, act)
	})
	if err != nil {
		return batch.Control{}, false, err
	}
	return next, changed, nil
}

func (t *session) control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	var found []sqlstore.ControlCols
	err := t.sel(ctx, &found, sqlControl, scope.All, string(scope.Service))
	return sqlstore.ControlOf(found, scope), err
}

// setControl writes a control. A control with nothing set is kept for its version, too, unless
// it was never set.
func (t *session) setControl(ctx context.Context, c batch.Control) (err error) {
	if c.Set() || c.Version > 0 {
		_, err = t.exec(ctx, sqlSetControl, sqlstore.ControlArgs(c)...)
	} else {
		_, err = t.exec(ctx, sqlDeleteControl, c.All, string(c.Service))
	}
	return err
}

// enforce carries out halts, and the lane's policy where a batch ended badly. Other outcomes
// cost nothing here.
func (t *session) enforce(ctx context.Context, a store.Applied, by batch.Policy, now time.Time) (store.Applied, error) {
	if !a.Governs() {
		return a, nil
	}
	was, err := t.control(ctx, batch.Only(a.Key.Service))
	if err != nil {
		return a, err
	}
	a, next := a.Enforce(was, by, now)
	if next == was {
		return a, nil
	}
	return a, t.setControl(ctx, next)
}

// Control is [store.Controls].Control.
func (s *Store) Control(ctx context.Context, scope batch.Scope) (c batch.Control, err error) {
	const op = "read a control"
	if err := scope.Validate(); err != nil {
		return batch.Control{}, wrap(op, err)
	}
	err = s.read(ctx, op, func(ctx context.Context, t *session) (err error) {
		c, err = t.control(ctx, scope)
		return err
	})
	return c, err
}

// ControlsOf is [store.Controls].ControlsOf.
func (s *Store) ControlsOf(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error) {
	q = q.Bounded()
	if q.Start {
		q.After = ""
	}
	var found []sqlstore.ControlCols
	err := s.read(ctx, "list controls", func(ctx context.Context, t *session) error {
		return t.sel(ctx, &found, sqlControls, string(q.After), string(q.After), q.Start, q.Limit)
	})
	if err != nil {
		return nil, err
	}
	controls := make([]batch.Control, len(found))
	for i := range found {
		controls[i] = found[i].Control()
	}
	return controls, nil
}
