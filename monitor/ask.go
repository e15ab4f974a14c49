package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// group is the rows that one request asks about.
type group struct {
	key     string // a hanging request holds up only requests with the same key
	service batch.ServiceID
	traits  dlt.Traits
	rows    []store.InFlight
	read    time.Time // before the rows were read: their ages are of then, or a little later
	told    bool      // an event was the reason: the rows have no lease, or one until the next poll
}

// group divides rows by service where the ledger wants it, else by ledger, and into requests
// of at most MaxIDsPerQuery. It keeps their order.
func (m *Monitor) group(rows []store.InFlight) []*group {
	var groups []*group
	open := map[string]*group{}
	for _, f := range rows {
		t := m.o.Traits(f.Key.Service)
		key := inhand.Group(t, f.Key.Service)
		g := open[key]
		most := t.MaxIDsPerQuery
		if most <= 0 {
			most = dlt.DefaultMaxIDs
		}
		if g == nil || len(g.rows) >= most {
			g = &group{key: key, service: f.Key.Service, traits: t}
			open[key] = g
			groups = append(groups, g)
		}
		g.rows = append(g.rows, f)
	}
	return groups
}

// ask makes one status request and acts on its answers. It reports whether the request ran
// into its time limit.
func (m *Monitor) ask(ctx context.Context, g *group) (hung bool) {
	byID, err := m.statuses(ctx, g)
	m.heard(ctx, g, byID, err)
	var due []store.Due
	var found []store.Outcome
	rules := m.o.Rules
	rules.Told = m.table.Live(g.key)
	var unclear func() // looks for evidence with the hand that asked, where no other is free
	for _, f := range g.rows {
		k := Known{Status: byID[f.Key.ID], Seen: m.table.Since(f)}
		v := Decide(f, k, g.traits, rules)
		if rules.Told && v.Outcome == nil && !v.Resolve && (f.State == batch.Pending || f.State == batch.Valid) {
			m.follow(g.key, f, v.Next)
		}
		switch {
		case v.Resolve && m.resolve(ctx, g, f, k):
		case v.Resolve && unclear == nil:
			unclear = func() { m.evidence(ctx, g, f, k) }
		case v.Resolve: // no hand for it now
			due = append(due, store.Due{Ref: f.Ref, In: noHandPause})
		case v.Outcome != nil:
			found = append(found, *v.Outcome)
		case g.told && f.CheckIn > m.o.Rules.PollInterval/2 && v.Next >= m.o.Rules.PollInterval: // just asked about, and due again in time
		default:
			due = append(due, store.Due{Ref: f.Ref, In: v.Next})
		}
	}
	m.table.Put(found)
	m.check(ctx, due)
	if unclear != nil {
		unclear()
	}
	return hangs(err)
}

// askFromMemory asks about rows that the table has in hand.
func (m *Monitor) askFromMemory(ctx context.Context, all []inhand.Question) {
	rows := make([]store.InFlight, len(all))
	of := make(map[batch.Key]*inhand.Question, len(all))
	for i := range all {
		rows[i], of[all[i].Row.Key] = all[i].Row, &all[i]
	}
	for _, g := range m.group(rows) {
		if wait := m.quietFor(g.key); wait > 0 {
			m.unasked(g.rows, wait, false)
			continue
		}
		hand, ok := m.pool.Acquire(g.key)
		if !ok {
			m.unasked(g.rows, noHandPause, !m.pool.Hangs(g.key)) // else its group has used up its share
			poke(m.freed)                                        // a hand may have become free meanwhile
			continue
		}
		m.start(g.service, func() {
			hung := true // unless it comes back
			defer func() { hand.Release(hung) }()
			hung = m.askHeld(ctx, g, of)
		})
	}
}

// askHeld makes one request about rows in hand. A row whose answer must be looked into needs a
// lease, and is left to the store's check.
func (m *Monitor) askHeld(ctx context.Context, g *group, of map[batch.Key]*inhand.Question) (hung bool) {
	byID, err := m.statuses(ctx, g)
	m.heard(ctx, g, byID, err)
	rules := m.o.Rules
	rules.Told = m.table.Live(g.key)
	var found []store.Outcome
	answers := make([]inhand.Answer, 0, len(g.rows))
	for _, f := range g.rows {
		q, st := of[f.Key], byID[f.Key.ID]
		if q.Unwritten && (st == nil || st.Reported != batch.ReportedCommitted) {
			answers = append(answers, inhand.Answer{Key: f.Key, Kind: inhand.Waited}) // its row is decided about once the acceptance is written
			continue
		}
		switch v := Decide(f, Known{Status: st, Seen: q.Seen}, g.traits, rules); {
		case v.Outcome != nil:
			found = append(found, *v.Outcome)
		case v.Resolve:
			answers = append(answers, inhand.Answer{Key: f.Key, Kind: inhand.Left})
		default:
			answers = append(answers, inhand.Answer{Key: f.Key, Kind: inhand.Same, Next: v.Next, Said: names(st, f.State)})
		}
	}
	m.table.Put(found)
	m.check(ctx, m.table.Asked(answers))
	return hangs(err)
}

// names reports whether the ledger says that a batch is in this very state.
func names(st *batch.Status, s batch.State) bool {
	return st != nil && (st.Reported == batch.ReportedPending && s == batch.Pending || st.Reported == batch.ReportedValid && s == batch.Valid)
}

// unasked makes the questions of a request come again after wait. Refused for want of a hand, they
// come sooner if one becomes free.
func (m *Monitor) unasked(rows []store.InFlight, wait time.Duration, refused bool) {
	answers := make([]inhand.Answer, len(rows))
	for i, f := range rows {
		answers[i] = inhand.Answer{Key: f.Key, Kind: inhand.Unasked, Next: wait, Refused: refused}
	}
	m.table.Asked(answers)
}

// goOn asks from memory what found no free hand, as hands become free, until ctx is done.
func (m *Monitor) goOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.freed:
			m.table.HandsFree(m.pool.Free())
		}
	}
}

// heard records how a status request went, and reports trouble.
func (m *Monitor) heard(ctx context.Context, g *group, byID map[batch.ID]*batch.Status, err error) {
	if len(byID) > 0 && dlt.Kind(err) == batch.KindDoubt {
		if ctx.Err() == nil {
			m.o.Trouble(g.service, fmt.Errorf("batch statuses: %w", err)) // a part is missing, and will be asked about again
		}
	} else if ctx.Err() == nil && m.answered(g.key, err) {
		m.o.Trouble(g.service, fmt.Errorf("batch statuses: %w", err))
	}
}

// hangs reports whether a request ran into its time limit.
func hangs(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// statuses makes one request about a group. It returns the answers by id, even beside an
// error.
func (m *Monitor) statuses(ctx context.Context, g *group) (map[batch.ID]*batch.Status, error) {
	attempts := make([]batch.Attempt, len(g.rows))
	for i, f := range g.rows {
		attempts[i] = batch.Attempt{Key: f.Key, Number: f.Attempt, Prepared: f.Prepared}
	}
	var statuses []batch.Status
	err := m.request(ctx, func(ctx context.Context) (err error) {
		statuses, err = m.reader.BatchStatuses(ctx, g.service, attempts)
		return err
	})
	byID := make(map[batch.ID]*batch.Status, len(statuses))
	for i := range statuses {
		byID[statuses[i].ID] = &statuses[i]
	}
	return byID, err
}

func (m *Monitor) request(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.RequestTimeout)
	defer cancel()
	return loop.Contain(func() error { return f(ctx) })
}

// resolve asks for evidence with another hand, since that may take long, and reports whether a
// hand was free.
func (m *Monitor) resolve(ctx context.Context, g *group, f store.InFlight, k Known) bool {
	hand, ok := m.pool.Acquire(g.key + "\x00resolve")
	if !ok {
		return false
	}
	m.start(f.Key.Service, func() {
		hung := true // unless it comes back
		defer func() { hand.Release(hung) }()
		hung = m.evidence(ctx, g, f, k)
	})
	return true
}

// evidence asks for evidence about a row and acts on it. It reports whether the request ran
// into its time limit. An error is no evidence: the row is asked about again.
func (m *Monitor) evidence(ctx context.Context, g *group, f store.InFlight, k Known) (hung bool) {
	var found dlt.Evidence
	err := m.request(ctx, func(ctx context.Context) (err error) {
		d, err := m.doubt(ctx, f, g.read)
		if err != nil {
			return err
		}
		d.Ended = ended(f, k, m.o.Rules)
		found, err = m.o.Resolver.Resolve(ctx, d)
		return err
	})
	if err == nil {
		k.Evidence = &found
	} else {
		k.Status = nil
		if ctx.Err() == nil {
			m.o.Trouble(f.Key.Service, fmt.Errorf("resolve %s: %w", f.Key, err))
		}
	}
	v := Decide(f, k, g.traits, m.o.Rules)
	if v.Outcome != nil {
		m.table.Put([]store.Outcome{*v.Outcome})
	} else {
		m.check(ctx, []store.Due{{Ref: f.Ref, In: v.Next}})
	}
	return hangs(err)
}

// witnesses is how many earlier batches of the lane a resolver gets. A ledger that knows none
// of so many has forgotten the others, too.
const witnesses = 10

// doubt collects the known facts about an attempt that is to be resolved.
func (m *Monitor) doubt(ctx context.Context, f store.InFlight, read time.Time) (dlt.Doubt, error) {
	d := dlt.Doubt{Attempt: batch.Attempt{Key: f.Key, Number: f.Attempt, Prepared: f.Prepared}, Ended: f.PostedAgo}
	failed := func(err error) { m.o.Trouble(f.Key.Service, err) }
	err := loop.Retry(ctx, failed, func() error {
		payloads, err := m.store.Payloads(ctx, []store.Ref{f.Ref})
		if err != nil {
			return fmt.Errorf("load payload: %w", err)
		}
		d.Payload = payloads[0]
		if d.Witnesses, err = m.store.Witnesses(ctx, f.Ref, witnesses); err != nil {
			return fmt.Errorf("look for witnesses: %w", err)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	// A slow status request may have passed since the row was read. If Since were too short, a
	// log that began only after the doubt would count as proof; if Ended is too short, nothing
	// is proved.
	d.Since = f.DoubtAgo + time.Since(read)
	return d, nil
}
