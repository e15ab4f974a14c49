package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// ledger asks the ledger about groups of rows.
type ledger struct {
	dlt.Ledger
	options  *Options
	pauses   askPauses
	restarts restarts
}

// group is the set of rows that one request asks about.
type group struct {
	key     string // a hanging request holds up only requests with the same key
	service batch.ServiceID
	traits  dlt.Traits
	rows    []inhand.Question
}

// onlyRow returns the name of the row of a group that has one row, and "" for a larger group.
func (g *group) onlyRow() string {
	if len(g.rows) != 1 {
		return ""
	}
	k := g.rows[0].Row.Key
	return "row\x00" + string(k.Service) + "\x00" + string(k.ID)
}

// group divides rows into requests of at most MaxIDsPerQuery, by service if the ledger wants that,
// else by ledger. It keeps the order of the rows.
func (l *ledger) group(rows []inhand.Question) []*group {
	var groups []*group
	open := map[string]*group{}
	for i := range rows {
		service := rows[i].Row.Key.Service
		t := l.Traits(service)
		key := inhand.Group(t, service)
		g := open[key]
		most := t.MaxIDsPerQuery
		if most <= 0 {
			most = dlt.DefaultMaxIDs
		}
		if g == nil || len(g.rows) >= most {
			g = &group{key: key, service: service, traits: t}
			open[key] = g
			groups = append(groups, g)
		}
		g.rows = append(g.rows, rows[i])
	}
	return groups
}

// answers are the answers to one request.
type answers struct {
	byID      map[batch.ID]*batch.Status
	forgotten map[batch.ID]bool // which batches the answering endpoint has forgotten: see [restarts]
	query     store.Query
	err       error
}

// withQuery adds the query to an outcome to which its answer led.
func (a *answers) withQuery(o store.Outcome) store.Outcome {
	if a.err == nil || a.byID[o.Key.ID] != nil {
		o.Query = a.query
	}
	return o
}

// ask makes a request by statuses, records its result, and reports trouble.
func (l *ledger) ask(ctx context.Context, g *group) answers {
	start := time.Now()
	byID, err := l.statuses(ctx, g)
	end := time.Now()
	missing := len(byID) > 0 && dlt.Kind(err) == batch.KindDoubt // only part of the answers is missing, and is asked for again
	if ctx.Err() == nil && (missing || l.noteResult(g, err)) {
		l.options.Trouble(fmt.Errorf("batch statuses: %w", err))
	}
	return answers{byID, l.restarts.noteAnswers(g, byID, start, end), store.Query{Took: end.Sub(start), Answered: end}, err}
}

// pauseLeft returns for how long the monitor asks nothing about a group.
func (l *ledger) pauseLeft(g *group) time.Duration {
	return max(l.pauses.remaining(g.key), l.pauses.remaining(g.onlyRow()))
}

// noteResult records the result of the request about a group, and reports whether it is the first
// failure since a success. If the group is one row, an unclear answer pauses questions about that
// row alone, because the answers about other rows may be clear.
func (l *ledger) noteResult(g *group, err error) (first bool) {
	key := g.key
	if row := g.onlyRow(); row != "" && dlt.Kind(err) == batch.KindDoubt {
		key = row
	} else if row != "" {
		l.pauses.noteResult(row, nil)
	}
	return l.pauses.noteResult(key, err)
}

// statuses makes one request about a group. It returns the answers by id, even with an error. Of
// several answers about one id, Committed counts, because a commit is a fact. Unknown counts only
// if it is the only answer, because it may come from a node that is behind.
func (l *ledger) statuses(ctx context.Context, g *group) (map[batch.ID]*batch.Status, error) {
	attempts := make([]batch.Attempt, len(g.rows))
	for i := range g.rows {
		f := &g.rows[i].Row
		attempts[i] = batch.Attempt{Key: f.Key, Number: f.Attempt, Prepared: f.Prepared, Withdrawn: f.Withdrawn}
		attempts[i].Committed = f.State == batch.Committed
	}
	var statuses []batch.Status
	err := l.request(ctx, func(ctx context.Context) (err error) {
		statuses, err = l.BatchStatuses(ctx, g.service, attempts)
		return err
	})
	byID := make(map[batch.ID]*batch.Status, len(statuses))
	for i := range statuses {
		if old := byID[statuses[i].ID]; old != nil && (old.Reported == batch.ReportedCommitted || statuses[i].Reported == batch.ReportedUnknown) {
			continue
		}
		byID[statuses[i].ID] = &statuses[i]
	}
	return byID, err
}

func (l *ledger) request(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.RequestTimeout)
	defer cancel()
	return f(ctx)
}

// timedOut reports whether a request ran into its time limit.
func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
