package ask

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/wall"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// noHandPause is how long rows wait if no hand is free for their request. After each pause the
// table makes questions of the rows in hand again: 10,000 rows are 100,000 questions a second
// while requests hang.
const noHandPause = 100 * time.Millisecond

// giveToHands gives each request to a free hand, and does not wait for one.
func (m *Monitor) giveToHands(ctx context.Context, all []inhand.Question) {
	for _, g := range m.ledger.group(all) {
		if wait := m.ledger.pauseLeft(g); wait > 0 {
			m.askLater(g, wait, false)
			continue
		}
		hand, ok := m.hands.Acquire(g.key)
		if !ok {
			m.askLater(g, noHandPause, !m.hands.Hangs(g.key)) // a group without a free hand may have used up its share of the hands
			loop.Poke(m.handFreed)                            // a hand may have become free meanwhile
			continue
		}
		m.underWay.Go(func() { hand.Release(m.askGroup(ctx, g)) })
	}
}

// askLater lets the questions of a request come again after wait. If refused is true, no hand was
// free for the request, and its questions come sooner when a hand becomes free.
func (m *Monitor) askLater(g *group, wait time.Duration, refused bool) {
	answers := make([]inhand.Answer, len(g.rows))
	for i := range g.rows {
		answers[i] = inhand.Answer{Question: &g.rows[i], Kind: inhand.NotAsked, NextIn: wait, NoHand: refused}
	}
	_, in := m.table.Asked(answers)
	m.DueIn(in)
}

// askWhenFreed repeats the questions that found no free hand, as hands become free, until ctx is
// done.
func (m *Monitor) askWhenFreed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.handFreed:
			m.table.HandsFree(m.hands.Free())
		}
	}
}

// askGroup makes one status request and acts on its answers. It reports whether the request ran
// into its time limit.
func (m *Monitor) askGroup(ctx context.Context, g *group) (hung bool) {
	said := m.ledger.ask(ctx, g)
	rules := m.options.Rules
	rules.Streamed = m.table.Live(g.key)
	var found []store.Outcome
	var lookForEvidence func() // looks for evidence on this hand, if no other hand is free
	answers := make([]inhand.Answer, 0, len(g.rows))
	for i := range g.rows {
		q := &g.rows[i]
		f, st := q.Row, said.byID[q.Row.Key.ID]
		a := inhand.Answer{Question: q, Kind: inhand.StateSame}
		k := monitor.Known{Status: st, Seen: q.KnownFor, Forgotten: said.forgotten[f.Key.ID]}
		v := monitor.Decide(f, k, g.traits, rules)
		leased := !q.RowAskedAt.IsZero()
		switch {
		case q.Unwritten && (v.Outcome == nil || v.Outcome.Finding != store.IsCommitted):
			// The row is decided about once the acceptance is written.
			if a.Kind = inhand.StillAccepted; v.Outcome != nil {
				a.Endpoint = v.Outcome.Endpoint
			}
		case v.Outcome != nil:
			found = append(found, said.withQuery(*v.Outcome))
			continue
		case v.Resolve && leased && m.resolve(ctx, g, q, k, v):
			continue
		case v.Resolve && leased && lookForEvidence == nil:
			lookForEvidence = func() { m.askForEvidence(ctx, g, q, k, v) }
			continue
		case v.Resolve: // the row has no lease, or no hand is free and this one has a row to look for evidence about
			a.Kind, a.NextIn = inhand.LeftToScan, noHandPause
		default:
			a.NextIn, a.StateSaid = v.Next, saysState(st, f.State)
			a.Follow = rules.Streamed && (f.State == batch.Pending || f.State == batch.Valid) && m.streams.isFollowed(g.key, f.Key.Service)
		}
		answers = append(answers, a)
	}
	m.table.Put(found)
	due, in := m.table.Asked(answers)
	m.DueIn(in)
	m.setChecks(ctx, due)
	if lookForEvidence != nil {
		lookForEvidence()
	}
	return timedOut(said.err)
}

// saysState reports whether the answer st is the state s.
func saysState(st *batch.Status, s batch.State) bool {
	return st != nil && (st.Reported == batch.ReportedPending && s == batch.Pending || st.Reported == batch.ReportedValid && s == batch.Valid)
}

// resolve asks for evidence on another hand, because that may take long. It reports whether a hand
// was free.
func (m *Monitor) resolve(ctx context.Context, g *group, q *inhand.Question, k monitor.Known, v monitor.Verdict) bool {
	hand, ok := m.hands.Acquire(g.key + "\x00resolve")
	if !ok {
		return false
	}
	m.underWay.Go(func() { hand.Release(m.askForEvidence(ctx, g, q, k, v)) })
	return true
}

// askForEvidence asks for evidence about a row and acts on it. It reports whether the request ran
// into its time limit. An error is no evidence: the row is asked about again.
func (m *Monitor) askForEvidence(ctx context.Context, g *group, q *inhand.Question, k monitor.Known, v monitor.Verdict) (hung bool) {
	f := q.Row
	var found dlt.Evidence
	var asked store.Query
	err := m.ledger.request(ctx, func(ctx context.Context) (err error) {
		d, err := m.doubtAbout(ctx, f, q.RowAskedAt)
		if err != nil {
			return err
		}
		d.Ended = v.Ended
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
			m.options.Trouble(fmt.Errorf("resolve %s: %w", f.Key, err))
		}
	}
	v = monitor.Decide(f, k, g.traits, m.options.Rules)
	if v.Outcome != nil {
		if err == nil {
			v.Outcome.Query = asked
		}
		m.table.Put([]store.Outcome{*v.Outcome})
	} else {
		m.setChecks(ctx, []store.Due{{Ref: f.Ref, In: v.Next}})
	}
	return timedOut(err)
}

// maxWitnesses is the most earlier batches of the lane that a resolver gets. A ledger that knows
// none of so many batches has forgotten the others, too.
const maxWitnesses = 10

// doubtAbout collects the known facts about an attempt that is to be resolved.
func (m *Monitor) doubtAbout(ctx context.Context, f store.InFlight, read time.Time) (dlt.Doubt, error) {
	d := dlt.Doubt{Attempt: batch.Attempt{Key: f.Key, Number: f.Attempt, Prepared: f.Prepared, Withdrawn: f.Withdrawn}, Ended: f.PostedAgo}
	err := loop.Retry(ctx, m.options.Trouble, func() error {
		payloads, err := m.store.Payloads(ctx, []store.Ref{f.Ref})
		if err != nil {
			return fmt.Errorf("load payload: %w", err)
		}
		d.Payload = payloads[0]
		if d.Witnesses, err = m.store.Witnesses(ctx, f.Ref, maxWitnesses); err != nil {
			return fmt.Errorf("look for witnesses: %w", err)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	// A slow status request may have passed since the row was read. If Since were too short, a log
	// that began only after the doubt would count as proof. If Ended is too short, nothing is
	// proved.
	d.Since = f.DoubtAgo + wall.Since(read)
	return d, nil
}
