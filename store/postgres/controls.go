package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

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
	rows, err := sqlstore.Query(ctx, t, (*sqlstore.ControlCols).Dest, sqlstore.ControlsOf, texts(sqlstore.Distinct(ended)))
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
