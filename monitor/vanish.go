package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// committed is a commit that may yet vanish: a ledger that forks takes it back
// (docs/ledgers/sawtooth.md#statuses). The monitor reports that and does nothing else: the
// batch stays Committed, since later batches have left already.
type committed struct {
	key   batch.Key
	until time.Time
}

// maxWatched bounds how many commits are watched at once; past it the oldest are dropped.
const maxWatched = 10_000

// Watch asks about a batch that this process recorded as Committed until the ledger's
// Traits.Vanish has passed. The list is in memory: a restart ends all watching.
func (m *Monitor) Watch(key batch.Key) {
	vanish := m.o.Traits(key.Service).Vanish
	if vanish <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.watched) >= maxWatched {
		m.watched = m.watched[1:]
	}
	m.watched = append(m.watched, committed{key, time.Now().Add(vanish)})
}

// watch asks about recent commits, ten times while each may vanish.
func (m *Monitor) watch(ctx context.Context) {
	for {
		m.mu.Lock()
		pause := m.o.Rules.PollInterval
		if len(m.watched) > 0 {
			pause = max(pause, m.o.Traits(m.watched[0].key.Service).Vanish/10)
		}
		m.mu.Unlock()
		if !loop.Sleep(ctx, pause) {
			return
		}
		m.watchOnce(ctx)
	}
}

func (m *Monitor) watchOnce(ctx context.Context) {
	now := time.Now()
	m.mu.Lock()
	var rows []store.InFlight
	keep := m.watched[:0]
	for _, c := range m.watched {
		rows = append(rows, store.InFlight{Ref: store.Ref{Key: c.key}})
		if now.Before(c.until) {
			keep = append(keep, c) // else it is asked about for the last time
		}
	}
	m.watched = keep
	m.mu.Unlock()
	gone := map[batch.Key]bool{}
	for _, g := range m.group(rows) {
		statuses, err := m.statuses(ctx, g)
		if err != nil && ctx.Err() == nil {
			m.o.Trouble(g.service, fmt.Errorf("batch statuses of what was committed: %w", err))
		}
		for _, f := range g.rows {
			if st := statuses[f.Key.ID]; st != nil && st.Reported != batch.ReportedCommitted {
				gone[f.Key] = true
				m.o.Vanished(f.Key, st.Reported)
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	keep = m.watched[:0]
	for _, c := range m.watched {
		if !gone[c.key] {
			keep = append(keep, c)
		}
	}
	m.watched = keep
}
