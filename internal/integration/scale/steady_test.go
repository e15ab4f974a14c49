package scale

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// The allowed growth in the last quarter of a soak over the second quarter. Small tables vary by
// as much as autovacuum lets pile up before it runs.
const (
	maxGrowth     = 1.5
	slackBytes    = 2 << 20
	slackDeadRows = 4000
)

// tableSize is a table's size and its dead rows at one time.
type tableSize struct{ bytes, dead int64 }

// Under a steady load, with autovacuum and with retention, which removes as much as is added, no
// table grows, and no table collects dead rows. All tables are checked: final batches are kept for
// a tenth of the time only.
func BenchmarkSteady(b *testing.B) {
	const quarters, lanes, perSecond = 4, 1000, 20
	keep := flags.soakTime / 10
	every := min(flags.sampleInterval, flags.soakTime/40)
	db := newCluster(b)
	st := newStore(b, db, "steady")
	r, err := dltbatch.New(st, fastLedger(), &dltbatch.Options{Retention: keep})
	require.NoError(b, err)
	for range b.N {
		ctx, stop := context.WithCancel(b.Context())
		done, added := make(chan error, 1), make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		go func() { added <- addLoad(ctx, r, lanes, max(1, flags.soakRate/perSecond), time.Second/perSecond) }()
		samples := map[string][]tableSize{}
		start := time.Now()
		tick := time.NewTicker(every)
		for time.Since(start) < flags.soakTime {
			<-tick.C
			look := tableSizes(b, db)
			line := ""
			for _, t := range tables {
				samples[t] = append(samples[t], look[t])
				line += fmt.Sprintf("  %s %.1f MB %d dead", t, float64(look[t].bytes)/(1<<20), look[t].dead)
			}
			fmt.Printf("%6.0f s%s\n", time.Since(start).Seconds(), line)
		}
		tick.Stop()
		open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 1000})
		require.NoError(b, err)
		stop()
		require.NoError(b, <-added)
		require.NoError(b, <-done)
		assert.Less(b, len(open), 1000, "batches are left behind: the load is more than it can take")
		for _, t := range tables {
			all := samples[t]
			quarter := len(all) / quarters
			early, late := all[quarter:2*quarter], all[len(all)-quarter:]
			bytes := func(s []tableSize) float64 {
				return float64(slices.MaxFunc(s, func(a, b tableSize) int { return int(a.bytes - b.bytes) }).bytes)
			}
			dead := func(s []tableSize) float64 {
				return float64(slices.MaxFunc(s, func(a, b tableSize) int { return int(a.dead - b.dead) }).dead)
			}
			b.Logf("%-20s second quarter at most %.1f MB, %.0f dead; last quarter %.1f MB, %.0f dead",
				t, bytes(early)/(1<<20), dead(early), bytes(late)/(1<<20), dead(late))
			assert.LessOrEqual(b, bytes(late), maxGrowth*bytes(early)+slackBytes, "bytes of %s", t)
			assert.LessOrEqual(b, dead(late), maxGrowth*dead(early)+slackDeadRows, "dead rows of %s", t)
		}
	}
}

// addLoad adds n batches at a time, until ctx is done.
func addLoad(ctx context.Context, r *dltbatch.Runner, lanes, n int, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for made := 0; ; {
		bs := make([]batch.Batch, n)
		for i := range bs {
			made++
			id := sha256.Sum256(fmt.Append(nil, made))
			bs[i] = batch.Batch{
				ID: batch.ID(hex.EncodeToString(id[:])), Service: laneName(made % lanes), Payload: slices.Repeat(id[:], 16),
				Transactions: []batch.Transaction{{ID: "t" + hex.EncodeToString(id[:]), FamilyName: "intkey", FamilyVersion: "1.0"}},
			}
		}
		if err := r.Add(ctx, bs...); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the load ends
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tableSizes returns the sizes of all tables with their indexes.
func tableSizes(b *testing.B, db *sql.DB) map[string]tableSize {
	rows, err := db.Query(`SELECT relname, pg_total_relation_size(relid), n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'steady'`)
	require.NoError(b, err)
	defer func() { require.NoError(b, rows.Close()) }()
	found := map[string]tableSize{}
	for rows.Next() {
		var name string
		var s tableSize
		require.NoError(b, rows.Scan(&name, &s.bytes, &s.dead))
		found[name] = s
	}
	require.NoError(b, rows.Err())
	return found
}
