package scale

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/memory"
)

// minDrainRatio is the smallest allowed rate of many short lanes, relative to the rate of few long
// ones.
const minDrainRatio = 0.5

// fastLedger returns a ledger inside the process that commits at once.
func fastLedger() *memory.Ledger {
	return memory.New(&memory.Options{IgnoreDuplicates: true, Traits: &dlt.Traits{
		Name: "fast", ResendHarmlessFor: dlt.Forever, MaxIDsPerQuery: 100,
	}})
}

// A backlog of one batch in each of very many lanes drains at no less than half the rate of a
// backlog with a thousandth of the lanes. A whole Runner finds the backlog when it starts.
func BenchmarkDrain(b *testing.B) {
	db := newCluster(b, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on")
	exec(b, db, `CREATE EXTENSION pg_stat_statements`)
	n := 0
	for range b.N {
		took := map[string][]time.Duration{}
		for range flags.drainRuns {
			for _, c := range []struct {
				name  string
				lanes int
			}{{"many", flags.drainBatches}, {"few", max(1, flags.drainBatches/1000)}} {
				n++
				schema := fmt.Sprintf("%s%d", c.name, n)
				d := drain(b, db, schema, c.lanes)
				took[c.name] = append(took[c.name], d)
				b.Logf("%s: %.0f batches/s; %s", schema, float64(flags.drainBatches)/d.Seconds(), costliestStatements(b, db, schema))
				exec(b, db, `DROP SCHEMA %s CASCADE`, schema)
			}
		}
		many, few := median(took["many"]), median(took["few"])
		ratio := few.Seconds() / many.Seconds()
		b.ReportMetric(float64(flags.drainBatches)/many.Seconds(), "many-batches/s")
		b.ReportMetric(float64(flags.drainBatches)/few.Seconds(), "few-batches/s")
		b.ReportMetric(ratio, "ratio")
		assert.GreaterOrEqual(b, ratio, minDrainRatio, "%d lanes of one took %s, %d lanes %s", flags.drainBatches, many, flags.drainBatches/1000, few)
	}
}

// drain returns the time in which a Runner delivers all waiting batches of a schema.
func drain(b *testing.B, db *sql.DB, schema string, lanes int) time.Duration {
	st := newStore(b, db, schema)
	fill(b, db, schema, lanes, flags.drainBatches, 0)
	exec(b, db, `TRUNCATE %s.services`, schema) // as if no batch was ever claimed from them
	exec(b, db, `SELECT pg_stat_statements_reset()`)
	collectGarbage()
	r, err := dltbatch.New(st, fastLedger(), nil)
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- r.Run(ctx) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for open := true; open; <-tick.C { // reads the tables, because Runner.Idle lists batches, which costs more
		require.NoError(b, db.QueryRowContext(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM %[1]s.waiting_batches) OR EXISTS (SELECT 1 FROM %[1]s.attempted_batches)`, schema)).Scan(&open))
	}
	took := time.Since(start)
	stop()
	require.NoError(b, <-done)
	var final int
	require.NoError(b, db.QueryRow(fmt.Sprintf(`SELECT count(*) FROM %s.outcomes WHERE state = 7`, schema)).Scan(&final))
	require.Equal(b, flags.drainBatches, final)
	return took
}

// costliestStatements names the statements that took most of the server's time.
func costliestStatements(b *testing.B, db *sql.DB, schema string) string {
	rows, err := db.Query(`SELECT calls, (total_exec_time + total_plan_time)::bigint, total_plan_time::bigint, regexp_replace(query, '\s+', ' ', 'g')
		FROM pg_stat_statements WHERE query LIKE $1 ORDER BY 2 DESC LIMIT 12`, "%"+schema+"%")
	require.NoError(b, err)
	defer func() { require.NoError(b, rows.Close()) }()
	var all strings.Builder
	for rows.Next() {
		var calls, total, plan int64
		var query string
		require.NoError(b, rows.Scan(&calls, &total, &plan, &query))
		query = strings.NewReplacer(`"`+schema+`".`, "", schema+".", "").Replace(query)
		if len(query) > 120 { // many statements begin alike
			query = query[:25] + " ... " + query[len(query)-90:]
		}
		fmt.Fprintf(&all, "\n%7d calls %7d ms (%d of it planning)  %s", calls, total, plan, query)
	}
	require.NoError(b, rows.Err())
	return all.String()
}

// collectGarbage collects the garbage before the next measurement.
func collectGarbage() { runtime.GC() }
