package scale

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// The longest times of a count with a million open batches in a hundred thousand lanes, and of a
// read of the counts.
const (
	maxRefreshTime = 2 * time.Second
	maxReadTime    = 100 * time.Millisecond
)

// BenchmarkStats counts what is open, and reads the counts, with -scale.rows waiting batches and
// one batch under way in each of -scale.lanes; once without a history, and once with one of
// -scale.rows. A count does not read the history (docs/design.md#counting-what-is-open).
func BenchmarkStats(b *testing.B) {
	db := newCluster(b)
	places := []*backlogCase{
		{name: "open", waiting: flags.rows},
		{name: "history", waiting: flags.rows, final: flags.rows},
	}
	for _, p := range places {
		p.db = db
		p.st, p.callTimes = newStore(b, db, p.name), map[string][]time.Duration{}
		fill(b, db, p.name, flags.lanes, p.waiting, p.final)
		exec(b, db, `INSERT INTO %[1]s.attempted_batches (seq, service_id, created_at, state, version, attempt, spent, failures, claim_expires, not_before,
			next_check, due_at, asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued,
			submission_error_message, decision, receipts, claimed_by, claim_ttl, moved_at, rollbacks, seen_attempt, seen_endpoint)
			SELECT -i, 'lane' || lpad((i %% %[2]d)::text, 6, '0'), 1600000000000000 + i, 2, 3, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, false, false,
			'the answer was lost', CASE WHEN i %% 2 = 0 THEN 'needs a decision' ELSE '' END, 0, 'host-1', 0, 0, 0, 0, '' FROM generate_series(1, %[2]d) i`, p.name, flags.lanes)
		exec(b, db, `VACUUM ANALYZE %s.attempted_batches`, p.name)
	}
	for range b.N {
		for round := range flags.rounds {
			for i := range places {
				p := places[(i+round)%len(places)]
				collectGarbage()
				p.measureStats(b)
			}
		}
	}
	var table strings.Builder
	for _, p := range places {
		for part, most := range map[string]time.Duration{"count": maxRefreshTime, "read": maxReadTime} {
			took := median(p.callTimes[part])
			fmt.Fprintf(&table, "\n%-6s %-8s %8.2f ms", part, p.name, milliseconds(took))
			b.ReportMetric(milliseconds(took), p.name+"-"+part+"-ms")
			if took > most {
				fmt.Fprintf(&table, "  more than %s", most)
			}
		}
	}
	b.Log(table.String())
}

// measureStats makes the counts, and reads them.
func (p *backlogCase) measureStats(b *testing.B) {
	ctx := b.Context()
	exec(b, p.db, `DELETE FROM %s.texts WHERE kind = 'stats'`, p.name)
	start := time.Now()
	did, err := texts.Refresh(ctx, p.st, store.RefreshQuery{OlderThan: time.Microsecond})
	require.NoError(b, err)
	p.callTimes["count"] = append(p.callTimes["count"], time.Since(start))
	start = time.Now()
	s, err := texts.Stats(ctx, p.st)
	require.NoError(b, err)
	p.callTimes["read"] = append(p.callTimes["read"], time.Since(start))
	require.True(b, did)
	require.Equal(b, flags.lanes, s.Lanes)
	require.Equal(b, flags.lanes, s.InDoubt)
	require.Equal(b, p.waiting, s.Open[1])
}
