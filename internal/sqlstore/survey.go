package sqlstore

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Survey is [store.Surveyor].Survey. It looks at its lanes in one transaction that only reads, and
// so sees one moment.
func (s *Store) Survey(ctx context.Context, q store.SurveyQuery) (found store.Survey, err error) {
	const op = "survey"
	q = q.Bounded()
	lanes := Services(q.Services)
	if q.Services == nil {
		err = s.d.Read(ctx, op, func(ctx context.Context, t Tx) (err error) {
			lanes, err = s.lanes(ctx, t, store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit})
			return err
		})
	}
	if err == nil {
		err = s.d.Snapshot(ctx, op, func(ctx context.Context, t Tx) (err error) {
			found, err = survey(ctx, t, s, lanes, q)
			return err
		})
	}
	if err != nil {
		return store.Survey{}, err
	}
	return found, nil
}

func survey(ctx context.Context, t Tx, s *Store, lanes []batch.ServiceID, q store.SurveyQuery) (found store.Survey, err error) {
	low, err := t.Floors(ctx, lanes) // before the first statement, which sets the moment
	if err != nil {
		return found, err
	}
	now, err := Now(ctx, t)
	if err != nil {
		return found, err
	}
	found.At = FromMicro(now)
	if found.Everything, err = ControlNow(ctx, t, batch.Everything()); err != nil {
		return found, err
	}
	if len(lanes) == 0 {
		return found, nil
	}
	rows, err := t.Windows(ctx, lanes, low, q.Window)
	if err != nil {
		return found, err
	}
	numbers, err := s.count(ctx, t, lanes, low, q.Cap)
	if err != nil {
		return found, err
	}
	waiting := make(map[string]int, len(lanes))
	for _, n := range numbers {
		if n.state == 0 {
			waiting[n.service] = int(n.n)
		}
	}
	controls, err := Query(ctx, t, (*ControlCols).Dest, sqlControlsOf, texts(t, lanes))
	if err != nil {
		return found, err
	}
	control := make(map[batch.ServiceID]batch.Control, len(controls))
	for i := range controls {
		c := controls[i].Control()
		control[c.Service] = c
	}
	services := make([]store.Served, len(lanes))
	for i, service := range lanes {
		services[i].Service = service
	}
	ledgers, err := served(ctx, t, services)
	if err != nil {
		return found, err
	}
	for i, service := range lanes {
		if len(rows[i]) == 0 && q.Services != nil {
			continue
		}
		l := store.LaneSurvey{
			Service: service, Ledger: ledgers[string(service)], Rows: rows[i],
			Waiting: waiting[string(service)], Control: control[service],
		}
		l.Control.Scope = batch.Only(service)
		found.Lanes = append(found.Lanes, l)
	}
	return found, nil
}

// Find is [store.Surveyor].Find.
func (s *Store) Find(ctx context.Context, q store.FindQuery) (rec batch.Record, err error) {
	const op = "find"
	if err := q.Validate(); err != nil {
		return rec, s.d.Wrap(op, err)
	}
	err = s.d.Read(ctx, op, func(ctx context.Context, t Tx) error {
		var found []batch.Record
		var err error
		switch {
		case q.ID != "":
			found, err = records(ctx, t, (*foundCols).recordDest, s.d.ListAll+`b.id_hash = $1::uuid`, hashText(q.ID))
		case canStore(q.Service, q.DataChangeID):
			found, err = records(ctx, t, (*foundCols).recordDest,
				s.d.ListAll+`b.service_id = $1::text AND b.data_change_id = $2::text AND b.data_change_id <> ''`, string(q.Service), q.DataChangeID)
		}
		if err != nil {
			return err
		}
		if len(found) == 0 || q.ID != "" && found[0].ID != q.ID {
			return fmt.Errorf("%w: %s", batch.ErrNotFound, q)
		}
		rec = found[0]
		return nil
	})
	if err != nil {
		return batch.Record{}, err
	}
	return rec, nil
}
