package scale

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// options are the flags of the benchmarks.
type options struct {
	rows, smallRows, lanes, rounds int
	drainBatches, drainRuns        int
	soakTime, sampleInterval       time.Duration
	soakRate                       int
}

var flags = options{}

func TestMain(m *testing.M) {
	flag.IntVar(&flags.rows, "scale.rows", 200_000, "batches of the long backlog, and of the long history")
	flag.IntVar(&flags.smallRows, "scale.small", 10_000, "batches of the short backlog")
	flag.IntVar(&flags.lanes, "scale.lanes", 10_000, "lanes of each backlog")
	flag.IntVar(&flags.rounds, "scale.rounds", 20, "claims that are measured of each")
	flag.IntVar(&flags.drainBatches, "scale.drain", 10_000, "batches that are drained, in that many lanes and in a thousandth of it")
	flag.IntVar(&flags.drainRuns, "scale.runs", 1, "drains that are measured of each")
	flag.DurationVar(&flags.soakTime, "soak.time", 10*time.Minute, "how long the steady load lasts")
	flag.DurationVar(&flags.sampleInterval, "soak.sample", 10*time.Second, "how often sizes are taken, at most")
	flag.IntVar(&flags.soakRate, "soak.rate", 200, "batches a second of the steady load")
	flag.Parse()
	os.Exit(pgtest.Main(m))
}

// newCluster starts a server with autovacuum and enough memory, and without protection against a
// crash of the machine, which would cost all cases the same. It returns a connection.
func newCluster(b *testing.B, settings ...string) *sql.DB {
	b.Helper()
	return open(b, newServer(b, settings...))
}

// newServer starts the same server, and returns its data source name.
func newServer(b *testing.B, settings ...string) string {
	b.Helper()
	c := pgtest.NewCluster(b, slices.Concat([]string{
		"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=16GB", "checkpoint_timeout=1h",
		"shared_buffers=1GB", "maintenance_work_mem=1GB", "autovacuum_naptime=10s",
	}, settings)...)
	return c.DSN("")
}

func open(b *testing.B, dsn string) *sql.DB {
	b.Helper()
	db, err := sql.Open("pgx", dsn)
	require.NoError(b, err)
	db.SetMaxIdleConns(16)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	return db
}

func newStore(b *testing.B, db *sql.DB, schema string) *postgres.Store {
	b.Helper()
	st, err := postgres.New(db, &postgres.Options{Schema: schema})
	require.NoError(b, err)
	require.NoError(b, st.Migrate(b.Context()))
	return st
}

func exec(b *testing.B, db *sql.DB, format string, args ...any) {
	b.Helper()
	_, err := db.ExecContext(context.Background(), fmt.Sprintf(format, args...))
	require.NoError(b, err, format)
}

// fill stores batches as if they were added, one lane after the other: lanes of the same length
// that wait, and others that were committed in the last hour. Payloads are tiny; ids are as random
// as signatures.
func fill(b *testing.B, db *sql.DB, schema string, lanes, waiting, final int) {
	b.Helper()
	start := time.Now()
	all := waiting + final
	exec(b, db, `INSERT INTO %[1]s.batches (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key, trace,
			payload_hash, budget_attempts, budget_every_try, footprint, serialized_batch)
		SELECT i, md5(i::text)::uuid, md5(i::text) || md5('x' || i), 'lane' || lpad((i %% %[2]d)::text, 6, '0'), 1700000000000000 + i, '', '', false,
			sha256(int4send(i)), 0, false, NULL, '\x00' FROM generate_series(1, %[3]d) i`, schema, lanes, all)
	exec(b, db, `INSERT INTO %[1]s.waiting_batches (seq, service_id, created_at, version, requeued)
		SELECT seq, service_id, created_at, 1, false FROM %[1]s.batches WHERE seq > %[2]d`, schema, final)
	exec(b, db, `INSERT INTO %[1]s.outcomes (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at, final_at,
			requeued, submission_error, submission_error_message, receipts)
		SELECT seq, 7, 4, 1, 0, 0, 0, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 3600000000 + seq * 360, false, NULL, '', 0
		FROM %[1]s.batches WHERE seq <= %[2]d`, schema, final)
	exec(b, db, `INSERT INTO %[1]s.services SELECT 'lane' || lpad((i %% %[2]d)::text, 6, '0') FROM generate_series(1, %[2]d) i`, schema, lanes)
	exec(b, db, `SELECT setval('%s.batch_seq', %d)`, schema, all)
	for _, table := range tables {
		exec(b, db, `VACUUM ANALYZE %s.%s`, schema, table)
	}
	b.Logf("%s: %d waiting and %d final in %d lanes, %d MB, loaded in %s", schema, waiting, final, lanes, schemaMegabytes(b, db, schema), time.Since(start).Round(time.Second))
}

var tables = [...]string{"batches", "transactions", "batch_tags", "services", "waiting_batches", "attempted_batches", "outcomes", "transaction_receipts", "tombstones"}

func schemaMegabytes(b *testing.B, db *sql.DB, schema string) (n int) {
	b.Helper()
	require.NoError(b, db.QueryRow(`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint >> 20 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&n))
	return n
}

// median returns the median of durations.
func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
