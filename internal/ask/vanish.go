package ask

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// watchCommits asks about commits that the ledger may still take back, ten times in the period in
// which each may vanish: a ledger that forks takes some back (docs/ledgers/sawtooth.md#statuses).
// The monitor only reports a commit that vanished: the batch stays Committed, because later
// batches have been sent already. The list is in memory, so a restart ends the watch.
func (m *Monitor) watchCommits(ctx context.Context) {
	pause := m.options.Rules.PollInterval
	for loop.Sleep(ctx, pause) {
		pause = m.watchOnce(ctx)
	}
}

// watchOnce asks about all watched commits, and returns the time until the next questions.
func (m *Monitor) watchOnce(ctx context.Context) time.Duration {
	rows := m.table.Watched()
	pause := time.Duration(math.MaxInt64)
	for i := range rows {
		pause = min(pause, m.ledger.Traits(rows[i].Row.Key.Service).Vanish/10)
	}
	if len(rows) == 0 {
		pause = 0
	}
	pause = max(pause, m.options.Rules.PollInterval)
	var gone []batch.Key
	for _, g := range m.ledger.group(rows) {
		statuses, err := m.ledger.statuses(ctx, g)
		if err != nil && ctx.Err() == nil {
			m.options.Trouble(fmt.Errorf("batch statuses of committed batches: %w", err))
		}
		for i := range g.rows {
			key := g.rows[i].Row.Key
			if st := statuses[key.ID]; st != nil && st.Reported != batch.ReportedCommitted {
				gone = append(gone, key)
				m.options.Vanished(key, st.Reported)
			}
		}
	}
	m.table.Unwatch(gone)
	return pause
}
