package sqlstore

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Survey is [store.Store].Survey. It reads its lanes in one transaction that only reads, so it
// sees one moment. With Brief it reads in several transactions.
func (s *Store) Survey(ctx context.Context, q store.SurveyQuery) (found store.Survey, err error) {
	q = q.Bounded()
	if err := checkAfter(q.After, q.Start || q.Services != nil); err != nil {
		return store.Survey{}, s.driver.Wrap(opSurvey, err)
	}
	if q.Brief && q.Services == nil {
		return s.briefSurvey(ctx, q)
	}
	lanes := Services(q.Services)
	if q.Services == nil {
		err = s.driver.Read(ctx, opSurvey, func(ctx context.Context, t Tx) (err error) {
			lanes, err = s.laneNames(ctx, t, store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit})
			return err
		})
	}
	if err == nil {
		err = s.driver.Snapshot(ctx, opSurvey, func(ctx context.Context, t Tx) (err error) {
			found, err = readSurvey(ctx, t, s, lanes, q)
			return err
		})
	}
	if err != nil {
		return store.Survey{}, err
	}
	return found, nil
}

const opSurvey = "survey"

func readSurvey(ctx context.Context, t Tx, s *Store, lanes []batch.ServiceID, q store.SurveyQuery) (found store.Survey, err error) {
	low, err := t.Floors(ctx, lanes) // read before the first statement of the snapshot, which sets its moment
	if err != nil {
		return found, err
	}
	if found, err = readClockAndControl(ctx, t); err != nil || len(lanes) == 0 {
		return found, err
	}
	rows, err := t.Windows(ctx, lanes, low, q.Window)
	if err != nil {
		return found, err
	}
	numbers, err := s.countStates(ctx, t, lanes, low, q.Cap)
	if err != nil {
		return found, err
	}
	waiting := make(map[string]int, len(lanes))
	for _, n := range numbers {
		if n.State == 0 {
			waiting[n.Service] = int(n.N)
		}
	}
	beside, err := readLaneFacts(ctx, t, lanes)
	if err != nil {
		return found, err
	}
	for i, service := range lanes {
		if len(rows[i]) == 0 && q.Services != nil {
			continue
		}
		found.Lanes = append(found.Lanes, beside.laneSurvey(service, rows[i], waiting[string(service)]))
	}
	return found, nil
}

// readClockAndControl reads the clock, and the control of all lanes.
func readClockAndControl(ctx context.Context, t Tx) (found store.Survey, err error) {
	now, err := Now(ctx, t)
	if err != nil {
		return found, err
	}
	found.At = FromMicro(now)
	found.Everything, err = ControlNow(ctx, t, batch.Everything())
	return found, err
}

// laneFacts has the controls and the ledgers of lanes.
type laneFacts struct {
	controls map[batch.ServiceID]batch.Control
	ledgers  map[string]string
}

func readLaneFacts(ctx context.Context, t Tx, lanes []batch.ServiceID) (b laneFacts, err error) {
	if b.controls, err = readControls(ctx, t, sqlControlsOf, textArray(t, lanes)); err != nil {
		return b, err
	}
	b.ledgers, err = readLedgers(ctx, t, sqlServed, textArray(t, lanes))
	return b, err
}

// laneSurvey combines the rows, the control and the ledger of a lane.
func (b laneFacts) laneSurvey(service batch.ServiceID, rows []store.LaneRow, waiting int) store.LaneSurvey {
	l := store.LaneSurvey{
		Service: service, Ledger: b.ledgers[string(service)], Rows: rows, Waiting: waiting, Control: b.controls[service],
	}
	l.Control.Scope = batch.Only(service)
	return l
}

// readControls reads controls of services.
func readControls(ctx context.Context, t Tx, statement string, args ...any) (map[batch.ServiceID]batch.Control, error) {
	found := map[batch.ServiceID]batch.Control{}
	return found, Each(ctx, t, func(c *ControlCols) error {
		one := c.Control()
		found[one.Service] = one
		return nil
	}, statement, args...)
}
