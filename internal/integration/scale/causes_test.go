package scale

import (
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// BenchmarkCauses groups -scale.rows waiting batches in -scale.lanes lanes by the reason why they
// wait, and lets the command show the groups and the counts. In each lane the first batch was
// attempted, and all others wait behind it: two fifths of the first ones are in doubt, a fifth
// needs a decision, a fifth is at its ledger, and a fifth waits for its next attempt. Every
// hundredth lane is paused.
func BenchmarkCauses(b *testing.B) {
	dsn := newServer(b, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on")
	db := open(b, dsn)
	exec(b, db, `CREATE EXTENSION pg_stat_statements`)
	st := newStore(b, db, "causes")
	fill(b, db, "causes", flags.lanes, flags.rows, 0)
	exec(b, db, `WITH front AS (DELETE FROM %[1]s.waiting_batches WHERE seq <= %[2]d RETURNING seq, service_id, created_at)
		INSERT INTO %[1]s.attempted_batches (seq, service_id, created_at, state, version, attempt, spent, failures, claim_expires, not_before,
			next_check, due_at, asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued,
			submission_error, submission_error_message, decision, receipts, claimed_by,
			claim_ttl, moved_at, rollbacks, seen_attempt, seen_endpoint)
		SELECT seq, service_id, created_at, CASE seq %% 5 WHEN 3 THEN 3 WHEN 4 THEN 5 ELSE 2 END, 3, 1, 0, 0, 1,
			CASE seq %% 5 WHEN 4 THEN 4000000000000000 ELSE 0 END, 1, 1, 0, 1, 0, CASE WHEN seq %% 5 < 3 THEN 1 ELSE 0 END, 1, 1, 0, false, false,
			'busy', 'the answer was lost', CASE WHEN seq %% 5 = 2 THEN 'needs a decision' ELSE '' END, 0, 'host-1', 0, 0, 0, 0, '' FROM front`, "causes", flags.lanes)
	exec(b, db, `INSERT INTO %[1]s.controls (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by, halt_reason, version)
		SELECT false, 'lane' || lpad((i * 100)::text, 6, '0'), 1, 'ada', 'maintenance', 0, 0, '', '', 1 FROM generate_series(0, %[2]d / 100 - 1) i`, "causes", flags.lanes)
	exec(b, db, `INSERT INTO %[1]s.texts (kind, name, version, begun_at, changed_at, body) SELECT 'served', service_id, 1, 1, 1, 'ledger' FROM %[1]s.services`, "causes")
	record := relied.Record{Settings: relied.SettingsOf("lane000000", dlt.Traits{Name: "ledger", ResendHarmlessFor: dlt.Forever}, time.Minute, queuer.Serial())}
	for i := 1; !record.Full(); i++ {
		record = record.Compare(laneName(i))
	}
	text, err := json.Marshal(record)
	require.NoError(b, err)
	_, err = texts.Put(b.Context(), st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: string(text)})
	require.NoError(b, err)
	for _, table := range []string{"waiting_batches", "attempted_batches", "controls", "texts"} {
		exec(b, db, `VACUUM ANALYZE %s.%s`, "causes", table)
	}
	d, err := operator.New(st)
	require.NoError(b, err)
	exec(b, db, `SELECT pg_stat_statements_reset()`)
	collectGarbage()
	for b.Loop() {
		c, err := d.Causes(b.Context(), operator.CausesQuery{Within: time.Hour})
		require.NoError(b, err)
		require.Equal(b, flags.rows, c.Batches)
		require.Equal(b, flags.lanes, c.Lanes)
	}
	b.Log(costliestStatements(b, db, "causes"))
	var reads []time.Duration
	for range flags.rounds {
		other, err := operator.New(st) // as another process
		require.NoError(b, err)
		start := time.Now()
		c, err := other.Causes(b.Context(), operator.CausesQuery{Kept: true})
		require.NoError(b, err)
		reads = append(reads, time.Since(start))
		require.Equal(b, flags.rows, c.Batches)
	}
	b.ReportMetric(milliseconds(median(reads)), "kept-ms")
	did, err := texts.Refresh(b.Context(), st, store.RefreshQuery{By: "benchmark"})
	require.NoError(b, err)
	require.True(b, did)
	program := filepath.Join(b.TempDir(), "dltbatch")
	build := osexec.Command("go", "build", "-C", filepath.Join("..", "..", ".."), "-o", program, "./cmd/dltbatch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	for _, command := range []string{"status", "causes", "causes --refresh"} {
		var took, used []time.Duration
		for range flags.rounds {
			c := osexec.CommandContext(b.Context(), program, append(strings.Fields(command), "--schema", "causes")...)
			c.Env = append(os.Environ(), "DLTBATCH_DSN="+dsn)
			start := time.Now()
			out, err := c.CombinedOutput()
			took = append(took, time.Since(start))
			require.NoError(b, err, "%s", out)
			used = append(used, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
		b.ReportMetric(milliseconds(median(took)), strings.ReplaceAll(command, " ", "")+"-ms")
		b.Logf("dltbatch %s: %.0f ms from its start to its end, %.0f ms of its own CPU", command, milliseconds(median(took)), milliseconds(median(used)))
	}
}
