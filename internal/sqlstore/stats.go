package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// KeepInstance is [store.Store].KeepInstance.
func (s *Store) KeepInstance(ctx context.Context, i store.Instance) error {
	const op = "keep an instance"
	if err := i.Validate(); err != nil {
		return s.d.Wrap(op, err)
	}
	i.Schema = s.d.Want
	detail, err := json.Marshal(i)
	if err != nil {
		return s.d.Wrap(op, err)
	}
	return s.d.Write(ctx, op, func(ctx context.Context, t Tx) error {
		if i.Stopped {
			_, err := t.Exec(ctx, sqlDropInstance, i.ID)
			return err
		}
		_, err := t.Exec(ctx, sqlKeepInstance, i.ID, i.Name, string(detail))
		return err
	})
}

// RefreshStats is [store.Store].RefreshStats. A transaction of its own counts, so that it holds
// no lock; the two around it are short.
func (s *Store) RefreshStats(ctx context.Context, q store.RefreshQuery) (bool, error) {
	const op = "refresh the stats"
	q, err := q.Bounded()
	if err != nil {
		return false, s.d.Wrap(op, err)
	}
	var taken takenTurn
	mine := false
	if err := s.d.Write(ctx, op, func(ctx context.Context, t Tx) (err error) {
		taken, mine, err = takeStats(ctx, t, q)
		return err
	}); err != nil || !mine {
		return false, err
	}
	from := time.Now()
	counting, cancel := context.WithTimeout(ctx, store.StatsLimit)
	defer cancel()
	totals, failed := s.total(counting)
	took := time.Since(from)
	totals.Took, totals.By = took, q.By
	totals = totals.After(taken.before)
	turn := taken.End(taken.now.Add(took), totals.At, took)
	kept := false
	err = s.d.Write(ctx, op, func(ctx context.Context, t Tx) (err error) {
		if failed != nil {
			_, err = t.Exec(ctx, sqlRestStats, turn.Turn, ToMicro(turn.Rest))
			return err
		}
		kept, err = keepStats(ctx, t, turn, totals, q)
		return err
	})
	return kept && err == nil, errors.Join(failed, err)
}

// turnCols are a turn, the text that was kept with it, and the clock.
type turnCols struct {
	Turn int64  `db:"turn"`
	At   int64  `db:"at"`
	Rest int64  `db:"rest_until"`
	Text string `db:"detail"`
	Now  int64  `db:"now"`
}

func (c *turnCols) turn() store.StatsTurn {
	return store.StatsTurn{Turn: c.Turn, At: FromMicro(c.At), Rest: FromMicro(c.Rest)}
}

// takenTurn is the turn of this process.
type takenTurn struct {
	store.StatsTurn
	now    time.Time // on the database's clock
	before store.Totals
}

// takeStats takes the turn, if it is due and no other process has it.
func takeStats(ctx context.Context, t Tx, q store.RefreshQuery) (taken takenTurn, mine bool, err error) {
	found, err := Query[turnCols](ctx, t, sqlStatsTurn)
	if err != nil {
		return taken, false, err
	}
	r := found[0]
	turn := r.turn()
	if taken.now = FromMicro(r.Now); !turn.Due(taken.now, q) {
		return taken, false, nil
	}
	if r.Text != "" && json.Unmarshal([]byte(r.Text), &taken.before) != nil {
		taken.before = store.Totals{} // of other code: the new counts replace it
	}
	taken.StatsTurn = turn.Take(taken.now)
	n, err := t.Exec(ctx, sqlTakeStats, turn.Turn, taken.Turn, ToMicro(taken.At), ToMicro(taken.Rest))
	return taken, n == 1, err
}

// keepStats writes the counts, unless another process has taken the turn since.
func keepStats(ctx context.Context, t Tx, turn store.StatsTurn, totals store.Totals, q store.RefreshQuery) (bool, error) {
	text, err := json.Marshal(totals)
	if err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, sqlKeepStats, turn.Turn, ToMicro(turn.At), ToMicro(turn.Rest), string(text))
	if err != nil || n == 0 {
		return false, err
	}
	dead := int64(math.MinInt64)
	if q.Forget > 0 {
		dead = ToMicro(turn.At.Add(-q.Forget))
	}
	_, err = t.Exec(ctx, sqlForgetInstances, dead, int64(store.MaxInstances))
	return true, err
}

// total counts at one moment.
func (s *Store) total(ctx context.Context) (store.Totals, error) {
	return ask(ctx, s.d.Counting, "count what is open", func(ctx context.Context, t Tx) (store.Totals, error) {
		c := store.Totals{Open: map[batch.State]int{}, Orders: map[string]int{}}
		now, err := Now(ctx, t)
		if err != nil {
			return c, err
		}
		if err := Each(ctx, t, func(r *tally) error { return r.addTo(&c) }, s.d.CountOpen, now); err != nil {
			return c, err
		}
		c.At = FromMicro(now)
		c.Sizes, err = s.d.Sizes(ctx, t)
		return c, err
	})
}

// tally is a row of Queries.CountOpen.
type tally struct {
	Kind string `db:"kind"`
	Name string `db:"name"`
	Code int64  `db:"code"`
	N    int64  `db:"n"`
	At   int64  `db:"at"`
}

func (r *tally) addTo(c *store.Totals) error {
	n, at := int(r.N), FromMicro(r.At)
	switch r.Kind {
	case "state": // several rows may have one state
		if n != 0 {
			c.Open[batch.State(r.Code)] += n
		}
	case "doubts":
		c.InDoubt, c.OldestDoubt = n, at
	case "undecided":
		c.Undecided = n
	case "lanes":
		c.Lanes, c.Oldest = n, at
	case "lane":
		c.OldestLanes = append(c.OldestLanes, store.LaneAge{Service: batch.ServiceID(r.Name), Oldest: at, Open: n})
	case "quarantined":
		c.Quarantined = n
	case "paused":
		if r.Code == 0 {
			c.Paused = n
		} else {
			c.AllPaused = n > 0
		}
	case "halted":
		if r.Code == 0 {
			c.Halted = n
		}
	case "schema":
		c.Schema = r.N
	case "orders":
		c.Orders[order.State(r.Code).String()] = n
		if c.OldestOrder.IsZero() || at.Before(c.OldestOrder) {
			c.OldestOrder = at
		}
	default:
		return fmt.Errorf("a count of %q", r.Kind)
	}
	return nil
}

// Stats is [store.Store].Stats.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	return ask(ctx, s.d.Read, "read the stats", func(ctx context.Context, t Tx) (read store.Stats, err error) {
		found, err := Query[turnCols](ctx, t, sqlStats)
		if err != nil {
			return read, err
		}
		if found[0].Text != "" {
			if err := json.Unmarshal([]byte(found[0].Text), &read.Totals); err != nil {
				return read, fmt.Errorf("the kept counts: %w", err)
			}
		}
		cols, err := Query[instanceCols](ctx, t, sqlInstances, int64(store.MaxInstances))
		if err != nil {
			return read, err
		}
		for _, c := range cols {
			i, err := c.instance()
			if err != nil {
				return read, err
			}
			read.Instances = append(read.Instances, i)
		}
		return read.AsOf(FromMicro(found[0].Now)), nil
	})
}

// instanceCols is a row of the table of instances.
type instanceCols struct {
	ID     string `db:"id"`
	Name   string `db:"name"`
	Since  int64  `db:"since"`
	Seen   int64  `db:"seen"`
	Detail string `db:"detail"`
}

func (c *instanceCols) instance() (i store.Instance, err error) {
	if err := json.Unmarshal([]byte(c.Detail), &i); err != nil {
		return i, fmt.Errorf("instance %s: %w", c.ID, err)
	}
	i.ID, i.Name, i.Since, i.Seen = c.ID, c.Name, FromMicro(c.Since), FromMicro(c.Seen)
	return i, nil
}
