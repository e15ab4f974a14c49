package postgres

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// errNotYet is of what this driver does not do yet; it never reaches the main branch.
var errNotYet = errors.New("dltbatch: postgres: not implemented")

// Acquit is [store.Operator].Acquit.
func (s *Store) Acquit(context.Context, batch.Key, batch.By) (batch.Record, error) {
	return batch.Record{}, errNotYet
}

// Steer is [store.Controls].Steer.
func (s *Store) Steer(context.Context, store.Steering) (batch.Control, bool, error) {
	return batch.Control{}, false, errNotYet
}

// Control is [store.Controls].Control.
func (s *Store) Control(context.Context, batch.Scope) (batch.Control, error) {
	return batch.Control{}, errNotYet
}

// ControlsOf is [store.Controls].ControlsOf.
func (s *Store) ControlsOf(context.Context, store.ControlsQuery) ([]batch.Control, error) {
	return nil, errNotYet
}

// History is [store.Inspector].History.
func (s *Store) History(context.Context, batch.Key) ([]batch.Act, error) { return nil, errNotYet }

// LaneHistory is [store.Inspector].LaneHistory.
func (s *Store) LaneHistory(context.Context, batch.Scope) ([]batch.Act, error) { return nil, errNotYet }

// Attempts is [store.Inspector].Attempts.
func (s *Store) Attempts(context.Context, batch.Key) ([]batch.Report, error) { return nil, errNotYet }

// Look is [store.Inspector].Look.
func (s *Store) Look(context.Context, batch.Key, int) (store.Look, error) {
	return store.Look{}, errNotYet
}
