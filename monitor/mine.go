package monitor

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// mine is a batch that this process has posted, that the ledger has accepted, and whose
// acceptance is recorded with a first check one PollInterval later. Until then it is asked
// about from memory, and costs the store nothing. If this process dies, the store still knows
// the batch, and any process asks about it after that.
type mine struct {
	f    store.InFlight
	read time.Time // the ages in f are of then
	at   time.Time // when to ask about it
	soon bool      // its acceptance is not recorded yet: f is the row as it was claimed
}

// maxMine bounds how many batches are kept in memory; the others wait for their check.
const maxMine = 10_000

// Minds returns the first check to record, in place of check, for a batch that Mind will be
// called for.
func (m *Monitor) Minds(check time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if check > m.o.Rules.PollInterval/4 || len(m.mine) >= maxMine {
		return check // soon enough, by the clock or because the ledger streams events
	}
	return m.o.Rules.PollInterval
}

// Mind asks about a batch that was just recorded as accepted, from memory and as often as
// needed, until its first check, a PollInterval from now. It returns false if the batch is
// left to that check. If a live stream reports about its group, Mind makes it a flight and
// returns false: that flight is asked about soon, since the stream may have begun while the
// acceptance was written.
func (m *Monitor) Mind(f store.InFlight) bool {
	if m.o.Events != nil {
		if group := groupKey(m.o.Traits(f.Key.Service), f.Key.Service); m.tells(group) {
			m.adopt(group, f, m.o.Rules.PollInterval, true)
			return false
		}
	}
	if m.o.Rules.FirstPoll > m.o.Rules.PollInterval/4 {
		return false
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mine) >= 2*maxMine {
		return false
	}
	m.mindLocked(&mine{f: f, read: now, at: now.Add(m.o.Rules.FirstPoll)})
	return true
}

// MindSoon asks once about a batch that the ledger has just accepted, before the acceptance is
// recorded: was is the row as it was claimed. If the batch is committed, the outcome is put;
// if not, the updater's Free is called. MindSoon returns false if it will not ask.
func (m *Monitor) MindSoon(ref store.Ref, was *store.Row) bool {
	s := ref.Key.Service
	if m.o.Rules.FirstPoll > m.o.Rules.PollInterval/4 || m.o.Events != nil && m.tells(groupKey(m.o.Traits(s), s)) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mine) >= maxMine {
		return false
	}
	now := time.Now()
	m.mindLocked(&mine{soon: true, read: now, at: now.Add(m.o.Rules.FirstPoll), f: store.InFlight{
		Ref: ref, Version: was.Version, State: was.State, Attempt: was.Attempt, Prepared: was.Prepared,
	}})
	return true
}

func (m *Monitor) mindLocked(b *mine) {
	heap.Push(&m.mine, b)
	if m.mine[0].at.Equal(b.at) { // it may be the first
		select {
		case m.mind <- struct{}{}:
		default:
		}
	}
}

// again minds a batch until its next question, if that comes before its check.
func (m *Monitor) again(b *mine, after time.Duration) {
	now := time.Now()
	if left := b.read.Add(m.o.Rules.PollInterval).Sub(now); after >= left {
		m.DueIn(max(0, left))
		return
	}
	b.at = now.Add(after)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mindLocked(b)
}

// mindAll asks about minded batches until ctx is done.
func (m *Monitor) mindAll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.mind:
		}
		wait := time.Hour
		now := time.Now()
		var due []*mine
		m.mu.Lock()
		// Batches that fall due close together are asked about together.
		for len(m.mine) > 0 && (!m.mine[0].at.After(now) || len(due) > 0 && m.mine[0].at.Sub(now) < minPause) {
			due = append(due, heap.Pop(&m.mine).(*mine))
		}
		if len(m.mine) > 0 {
			wait = m.mine[0].at.Sub(now)
		}
		m.mu.Unlock()
		timer.Reset(wait)
		m.askMine(ctx, due, now)
	}
}

// askMine gives the requests about due batches to free hands.
func (m *Monitor) askMine(ctx context.Context, due []*mine, now time.Time) {
	if len(due) == 0 {
		return
	}
	rows := make([]store.InFlight, 0, len(due))
	of := make(map[batch.Key]*mine, len(due))
	for _, b := range due {
		if was := of[b.f.Key]; was == nil || was.soon {
			of[b.f.Key] = b // a late question makes two entries of a batch: take the recorded one
		}
	}
	for _, b := range due {
		if of[b.f.Key] == b {
			rows = append(rows, aged(b.f, now.Sub(b.read)))
		}
	}
	put := func(g *group, d time.Duration) {
		var free []batch.Key
		for _, f := range g.rows {
			if b := of[f.Key]; b.soon {
				free = append(free, f.Key)
			} else {
				m.again(b, d)
			}
		}
		m.updater.Free(free)
	}
	for _, g := range m.group(rows) {
		if wait := m.quietFor(g.key); wait > 0 {
			put(g, wait)
			continue
		}
		hand, ok := m.pool.Acquire(g.key)
		if !ok {
			put(g, 2*minPause)
			continue
		}
		m.start(g.service, func() {
			hung := true // unless it comes back
			defer func() { hand.Release(hung) }()
			byID, err := m.statuses(ctx, g)
			m.heard(ctx, g, byID, err)
			var found []store.Outcome
			var free []batch.Key
			for _, f := range g.rows {
				st := byID[f.Key.ID]
				if of[f.Key].soon && (st == nil || st.Reported != batch.ReportedCommitted) {
					free = append(free, f.Key) // its row will be decided about once the acceptance is recorded
					continue
				}
				switch v := Decide(f, Known{Status: st, Seen: now.Sub(of[f.Key].read)}, g.traits, m.o.Rules); {
				case v.Outcome != nil:
					found = append(found, *v.Outcome)
				case v.Resolve: // which takes a lease
					m.again(of[f.Key], m.o.Rules.PollInterval)
				default:
					m.again(of[f.Key], v.Next)
				}
			}
			m.updater.Put(found)
			m.updater.Free(free)
			hung = errors.Is(err, context.DeadlineExceeded)
		})
	}
}

// aged returns the row as it is after d.
func aged(f store.InFlight, d time.Duration) store.InFlight {
	f.PostedAgo += d
	f.Age += d
	f.DoubtAgo += d
	f.ResendLeft -= d
	f.SettleLeft -= d
	f.CheckIn -= d
	return f
}

// minded is a heap of batches by when to ask next.
type minded []*mine

func (h minded) Len() int           { return len(h) }
func (h minded) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h minded) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *minded) Push(x any) { *h = append(*h, x.(*mine)) }

// Pop implements heap.Interface.
func (h *minded) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}
