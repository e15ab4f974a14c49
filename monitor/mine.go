package monitor

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// mine is a batch that this process has posted, that the ledger has accepted, and
// whose acceptance is recorded with a first check one PollInterval later: until then
// it is asked about from memory, and costs the store nothing. Whatever becomes of this
// process, the store knows the batch, and gives it to whoever asks after that.
type mine struct {
	f    store.InFlight
	read time.Time // the ages in f are of then
	at   time.Time // to be asked about
	soon bool      // its acceptance is not recorded yet: f is the row as it was claimed
}

// maxMine bounds what is kept in memory; the rest waits for its check.
const maxMine = 10_000

// Minds returns the first check that is to be recorded of a batch which is about to
// be minded, rather than check.
func (m *Monitor) Minds(check time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if check > m.o.Rules.PollInterval/4 || len(m.mine) >= maxMine {
		return check // soon enough, by the clock or because the ledger tells
	}
	return m.o.Rules.PollInterval
}

// Mind asks about a batch that was just recorded as accepted, from memory and as often
// as it must until its first check, which is a PollInterval from now. It returns false
// for one that waits for that. Where the ledger tells by itself the events are followed
// by questions; one that it began to tell while the acceptance was being written was
// not asked about then, and is soon.
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

// MindSoon asks once about a batch that the ledger has just accepted, before that is
// recorded: was is the row as it was claimed. If it is committed, the outcome is put;
// whatever else comes of it, the updater is told to go on without (Free). It returns
// false for one that is not asked about.
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

// mindAll asks about what is minded, until ctx is done.
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
		// What falls due close together is asked together.
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

// askMine gives the requests about what is due to free hands.
func (m *Monitor) askMine(ctx context.Context, due []*mine, now time.Time) {
	if len(due) == 0 {
		return
	}
	rows := make([]store.InFlight, 0, len(due))
	of := make(map[batch.Key]*mine, len(due))
	for _, b := range due {
		if was := of[b.f.Key]; was == nil || was.soon {
			of[b.f.Key] = b // of two, which a late question makes, the one that is recorded
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
					free = append(free, f.Key) // it is decided about by its row as it will be
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

// aged is the row after a while.
func aged(f store.InFlight, d time.Duration) store.InFlight {
	f.PostedAgo += d
	f.Age += d
	f.DoubtAgo += d
	f.ResendLeft -= d
	f.SettleLeft -= d
	f.CheckIn -= d
	return f
}

// minded is a heap of what is to be asked about next.
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
