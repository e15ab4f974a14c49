package sqlite

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// enforce carries out halts, and the lane's policy where a batch ended badly. Other outcomes
// cost nothing here.
func (t *session) enforce(ctx context.Context, a store.Applied, by batch.Policy, now time.Time) (store.Applied, error) {
	if !a.Governs() {
		return a, nil
	}
	was, err := sqlstore.ControlNow(ctx, t, batch.Only(a.Key.Service))
	if err != nil {
		return a, err
	}
	a, next := a.Enforce(was, by, now)
	if next == was {
		return a, nil
	}
	return a, sqlstore.PutControl(ctx, t, next)
}
