package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/wall"
	"github.com/dltbatch/dltbatch/store"
)

// ask makes one status request and acts on its answers. It reports whether the request ran
// into its time limit.
func (m *Monitor) ask(ctx context.Context, g *group) (hung bool) {
	said := m.ledger.ask(ctx, g)
	var due []store.Due
	var found []store.Outcome
	rules := m.o.Rules
	rules.Streamed = m.table.Live(g.key)
	var unclear func() // looks for evidence with the hand that asked, where no other is free
	for _, f := range g.rows {
		k := Known{Status: said.byID[f.Key.ID], Seen: m.table.Since(f), Forgotten: said.forgotten[f.Key.ID]}
		v := Decide(f, k, g.traits, rules)
		if rules.Streamed && v.Outcome == nil && !v.Resolve && (f.State == batch.Pending || f.State == batch.Valid) && m.streams.follows(g.key, f.Key.Service) {
			m.table.Follow(f, v.Next)
		}
		switch {
		case v.Resolve && m.resolve(ctx, g, f, k):
		case v.Resolve && unclear == nil:
			unclear = func() { m.evidence(ctx, g, f, k) }
		case v.Resolve: // no hand for it now
			due = append(due, store.Due{Ref: f.Ref, In: noHandPause})
		case v.Outcome != nil:
			found = append(found, said.outcome(*v.Outcome))
		case g.byEvent && f.CheckIn > m.o.Rules.PollInterval/2 && v.Next >= m.o.Rules.PollInterval: // just asked about, and due again in time
		default:
			due = append(due, store.Due{Ref: f.Ref, In: v.Next})
		}
	}
	m.table.Put(found)
	m.check(ctx, due)
	if unclear != nil {
		unclear()
	}
	return hangs(said.err)
}

// resolve asks for evidence with another hand, since that may take long, and reports whether a
// hand was free.
func (m *Monitor) resolve(ctx context.Context, g *group, f store.InFlight, k Known) bool {
	hand, ok := m.hands.Acquire(g.key + "\x00resolve")
	if !ok {
		return false
	}
	m.hands.start(hand, f.Key.Service, func() bool { return m.evidence(ctx, g, f, k) })
	return true
}

// evidence asks for evidence about a row and acts on it. It reports whether the request ran
// into its time limit. An error is no evidence: the row is asked about again.
func (m *Monitor) evidence(ctx context.Context, g *group, f store.InFlight, k Known) (hung bool) {
	var found dlt.Evidence
	var asked store.Query
	err := m.ledger.request(ctx, func(ctx context.Context) (err error) {
		d, err := m.doubt(ctx, f, g.read)
		if err != nil {
			return err
		}
		known := data{f: f, k: k, r: m.o.Rules}
		d.Ended = known.ended()
		start := time.Now()
		found, err = m.ledger.Resolve(ctx, d)
		asked.Answered = time.Now()
		asked.Took = asked.Answered.Sub(start)
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
		if err == nil {
			v.Outcome.Query = asked
		}
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
	d.Since = f.DoubtAgo + wall.Since(read)
	return d, nil
}
