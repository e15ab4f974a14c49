package monitor

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// memory asks about what the table has in hand, without the store.
type memory struct {
	o      *Options
	table  *inhand.Table
	ledger *ledger
	hands  *hands
	check  func(context.Context, []store.Due) // puts checks off in the store
	freed  chan struct{}                      // a hand may have become free
}

// ask asks about rows.
func (m *memory) ask(ctx context.Context, all []inhand.Question) {
	rows := make([]store.InFlight, len(all))
	of := make(map[batch.Key]*inhand.Question, len(all))
	for i := range all {
		rows[i], of[all[i].Row.Key] = all[i].Row, &all[i]
	}
	for _, g := range m.ledger.group(rows) {
		if wait := m.ledger.pause(g); wait > 0 {
			m.unasked(g.rows, wait, false)
			continue
		}
		hand, ok := m.hands.Acquire(g.key)
		if !ok {
			m.unasked(g.rows, noHandPause, !m.hands.Hangs(g.key)) // else its group has used up its share
			loop.Poke(m.freed)                                    // a hand may have become free meanwhile
			continue
		}
		m.hands.start(hand, g.service, func() bool { return m.askGroup(ctx, g, of) })
	}
}

// askGroup makes one request. A row whose answer must be looked into needs a lease, and is left to
// the store's check.
func (m *memory) askGroup(ctx context.Context, g *group, of map[batch.Key]*inhand.Question) (hung bool) {
	said := m.ledger.ask(ctx, g)
	rules := m.o.Rules
	rules.Streamed = m.table.Live(g.key)
	var found []store.Outcome
	answers := make([]inhand.Answer, 0, len(g.rows))
	for _, f := range g.rows {
		q, st := of[f.Key], said.byID[f.Key.ID]
		if q.Unwritten && (st == nil || st.Reported != batch.ReportedCommitted) {
			// Its row is decided about once the acceptance is written.
			answer := inhand.Answer{Key: f.Key, Kind: inhand.Waited}
			if st != nil && st.Reported == batch.ReportedPending {
				answer.Endpoint = shownBy(f, st, g.traits)
			}
			answers = append(answers, answer)
			continue
		}
		switch v := Decide(f, Known{Status: st, Seen: q.Seen, Forgotten: said.forgotten[f.Key.ID]}, g.traits, rules); {
		case v.Outcome != nil:
			found = append(found, said.outcome(*v.Outcome))
		case v.Resolve:
			answers = append(answers, inhand.Answer{Key: f.Key, Kind: inhand.Left})
		default:
			answers = append(answers, inhand.Answer{Key: f.Key, Kind: inhand.Same, Next: v.Next, Said: names(st, f.State)})
		}
	}
	m.table.Put(found)
	m.check(ctx, m.table.Asked(answers))
	return hangs(said.err)
}

// names reports whether the ledger says that a batch is in this very state.
func names(st *batch.Status, s batch.State) bool {
	return st != nil && (st.Reported == batch.ReportedPending && s == batch.Pending || st.Reported == batch.ReportedValid && s == batch.Valid)
}

// unasked makes the questions of a request come again after wait. Refused for want of a hand, they
// come sooner if one becomes free.
func (m *memory) unasked(rows []store.InFlight, wait time.Duration, refused bool) {
	answers := make([]inhand.Answer, len(rows))
	for i, f := range rows {
		answers[i] = inhand.Answer{Key: f.Key, Kind: inhand.Unasked, Next: wait, Refused: refused}
	}
	m.table.Asked(answers)
}

// goOn asks what found no free hand, as hands become free, until ctx is done.
func (m *memory) goOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.freed:
			m.table.HandsFree(m.hands.Free())
		}
	}
}
