package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Steer is [store.Store].Steer.
func (s *Store) Steer(ctx context.Context, st store.Steering) (now batch.Control, changed bool, err error) {
	if err := ctx.Err(); err != nil {
		return batch.Control{}, false, err
	}
	if err := st.Validate(); err != nil {
		return batch.Control{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, act, changed, err := st.Apply(s.control(st.Scope), s.now())
	if err != nil {
		return batch.Control{}, false, err
	}
	if changed {
		s.setControl(st.Scope, next)
		s.laneActs[st.Scope] = store.KeepAct(s.laneActs[st.Scope], act)
	}
	return next, changed, nil
}

// control returns the control of a scope, set or not. s.mu is held.
func (s *Store) control(scope batch.Scope) batch.Control {
	c := s.controls[scope]
	c.Scope = scope
	return c
}

// setControl keeps a control. A control with nothing set is kept, too, for its version, unless it
// was never set. s.mu is held.
func (s *Store) setControl(scope batch.Scope, c batch.Control) {
	if c.InEffect() || c.Version > 0 {
		s.controls[scope] = c
	}
}

// isClosed reports whether a control keeps the lane's batches from leaving. s.mu is held.
func (s *Store) isClosed(service batch.ServiceID) bool {
	return s.controls[batch.Everything()].Closed() || s.controls[batch.Only(service)].Closed()
}

// Control is [store.Store].Control.
func (s *Store) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	if err := ctx.Err(); err != nil {
		return batch.Control{}, err
	}
	if err := scope.Validate(); err != nil {
		return batch.Control{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.control(scope), nil
}

// ControlsOf is [store.Store].ControlsOf.
func (s *Store) ControlsOf(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []batch.Control
	for _, c := range s.controls {
		if c.InEffect() && !c.All && (q.Start || c.Service > q.After) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b batch.Control) int {
		if a.Service < b.Service {
			return -1
		}
		return 1
	})
	return slices.Clip(found[:min(len(found), q.Limit)]), nil
}

// pruneSteered removes up to limit acts of operators on lanes that were done at until or before.
// s.mu is held.
func (s *Store) pruneSteered(until time.Time, limit int) (removed int) {
	for scope := range maps.Clone(s.laneActs) {
		s.laneActs[scope] = slices.DeleteFunc(s.laneActs[scope], func(a batch.Act) bool {
			if removed == limit || a.At.After(until) {
				return false
			}
			removed++
			return true
		})
		if len(s.laneActs[scope]) == 0 {
			delete(s.laneActs, scope)
		}
	}
	return removed
}
