package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Store].Record. Outcomes are applied one after the other, in
// the order of the slice.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	applied := make([]store.Applied, len(outcomes))
	for i, o := range outcomes {
		e := s.find(o.Key)
		// The number tells whether the batch was pruned and added again since. A commit applies to
		// the batch of the id under any number.
		if e == nil || (o.Row != 0 && o.Row != e.number && o.Finding != store.IsCommitted) {
			applied[i] = store.Applied{Ref: o.Ref, Result: store.Gone}
			continue
		}
		o = o.Sanitised()
		o.Ref = e.ref()
		next, a := e.row.Apply(o, now)
		if a.Result == store.Written && next.Version != e.row.Version {
			scope := batch.Only(e.key.Service)
			control := s.control(scope)
			a, control = a.Enforce(control, o.Policy, now)
			s.setControl(scope, control)
			s.replaceRow(e, a.Row)
			if r, ok := o.Reported(a, now); ok {
				e.reports = store.KeepReport(e.reports, r)
			}
		}
		a.Row = cloneRow(e.row)
		applied[i] = a
	}
	return applied, nil
}
