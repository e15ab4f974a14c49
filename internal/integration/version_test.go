package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// nextVersion is a migration that follows docs/migrations.md: columns in each table that an Add, a
// claim or a record writes, a table, and an index of a table that grows.
const nextVersion = `-- +goose NO TRANSACTION
-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
	SET LOCAL lock_timeout = '1s';
	ALTER TABLE {services} ADD COLUMN IF NOT EXISTS next timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp();
	ALTER TABLE {batches} ADD COLUMN IF NOT EXISTS next text NOT NULL DEFAULT '';
	ALTER TABLE {waiting_batches} ADD COLUMN IF NOT EXISTS next bigint NOT NULL DEFAULT 0;
	ALTER TABLE {attempted_batches} ADD COLUMN IF NOT EXISTS next bigint;
	ALTER TABLE {outcomes} ADD COLUMN IF NOT EXISTS next boolean NOT NULL DEFAULT false;
END $$;
-- +goose StatementEnd
CREATE TABLE IF NOT EXISTS {nexts} (id bigint PRIMARY KEY);
DROP INDEX CONCURRENTLY IF EXISTS {batches_next};
CREATE INDEX CONCURRENTLY {.batches_next} ON {batches} (next, created_at);
`

// migrateNext migrates to the version after this code's, as the code of that version will: it
// tries again if it cannot get a lock.
func (s *testSpace) migrateNext(ctx context.Context) {
	s.t.Helper()
	files, err := postgres.Migrations(&postgres.Options{Schema: s.schema})
	require.NoError(s.t, err)
	first, err := fs.ReadFile(files, "00001_tables.sql")
	require.NoError(s.t, err)
	next := strings.NewReplacer("{.", "", "{", s.schema+".", "}", "").Replace(nextVersion)
	p, err := goose.NewProvider(goose.DialectPostgres, s.admin, fstest.MapFS{
		"00001_tables.sql": &fstest.MapFile{Data: first}, "00002_next.sql": &fstest.MapFile{Data: []byte(next)},
	}, goose.WithTableName(s.schema+"."+postgres.MigrationsTable), goose.WithDisableGlobalRegistry(true))
	require.NoError(s.t, err)
	for {
		_, err := p.Up(ctx)
		if err == nil {
			return
		}
		var refused *pgconn.PgError
		require.True(s.t, errors.As(err, &refused) && refused.Code == "55P03", "%v", err)
	}
}

// While two processes of this version add and deliver, the schema is migrated to the next version.
// No batch is lost, none is submitted a second time, and each lane stays in order, also with
// processes of this version that start afterwards. The ledger executes a batch each time it is
// sent.
func TestTheNextVersionComesUnderLoad(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
			s.app()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			traits := memory.Unforgiving(10 * time.Millisecond)
			ledger := memory.New(&memory.Options{Traits: &traits, CommitAfter: 2 * time.Millisecond})
			done := make(chan error, 3)
			start := func() *dltbatch.Runner {
				r, err := dltbatch.New(s.open(nil).Store, ledger, &dltbatch.Options{PollInterval: 20 * time.Millisecond, ScanInterval: 50 * time.Millisecond})
				require.NoError(t, err)
				go func() { done <- r.Run(ctx) }()
				return r
			}
			runners := []*dltbatch.Runner{start(), start()}
			stopped, stopAdders := context.WithCancel(ctx)
			order := map[batch.ServiceID][]batch.ID{}
			var mu sync.Mutex
			var adders sync.WaitGroup
			defer adders.Wait()
			defer stopAdders()
			add := func(r *dltbatch.Runner, lane string, i int) {
				b := newBatch(lane, fmt.Sprint(lane, " ", i))
				if assert.NoError(t, r.Add(ctx, b)) {
					mu.Lock()
					defer mu.Unlock()
					order[b.Service] = append(order[b.Service], b.ID)
				}
			}
			for p, r := range runners {
				adders.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stopped.Done():
							return
						default:
							add(r, fmt.Sprint("lane ", p, " ", i%3), i)
						}
					}
				})
			}
			committed := func() (n int) {
				for _, e := range ledger.Journal() {
					if e.Kind == memory.Answered && e.Reported == batch.ReportedCommitted {
						n++
					}
				}
				return n
			}
			waitFor(t, func() bool { return committed() > 10 })
			s.migrateNext(ctx)
			at := committed()
			waitFor(t, func() bool { return committed() > at+10 })
			require.NoError(t, s.open(nil).Migrate(ctx), "it leaves a newer schema as it is")
			require.Equal(t, 2, s.version())
			late := start()
			add(late, "late", 0)
			stopAdders()
			adders.Wait()
			wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			require.NoError(t, late.Idle(wait))
			stop()
			for range 3 {
				require.NoError(t, <-done)
			}
			require.NoError(t, ledger.Verify(order))
			total := 0
			for service, ids := range order {
				assert.Equal(t, ids, ledger.Log(service), service)
				total += len(ids)
			}
			var final, valid int
			require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM `+s.schema+`.outcomes WHERE state = 7 AND NOT next`).Scan(&final))
			assert.Equal(t, total, final)
			require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_index WHERE indexrelid = $1::regclass AND indisvalid`, s.schema+".batches_next").Scan(&valid))
			assert.Equal(t, 1, valid)
			t.Logf("%d batches, %d before the migration", total, at)
		})
	}
}

func (s *testSpace) version() (v int) {
	s.t.Helper()
	require.NoError(s.t, s.admin.QueryRow(`SELECT max(version_id) FROM `+s.schema+`.`+postgres.MigrationsTable).Scan(&v))
	return v
}

// Every call refuses a database that a version from before the first release made, and Migrate
// refuses it before it writes anything.
func TestUnreleasedSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		for _, version := range []int{1, 2, 8} {
			t.Run(fmt.Sprint(d.name, "/", version), func(t *testing.T) {
				s := newSpace(t, d)
				s.exec(`CREATE TABLE ` + s.schema + `.dltbatch_migrations (id int GENERATED BY DEFAULT AS IDENTITY, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp DEFAULT now())`)
				for v := range version + 1 {
					s.exec(fmt.Sprintf(`INSERT INTO %s.dltbatch_migrations (version_id, is_applied) VALUES (%d, true)`, s.schema, v))
				}
				st := s.open(nil)
				want := fmt.Sprintf("schema %q: dltbatch: a version from before the first release made the database, and nothing migrates it: make a new one: "+
					"it has the table dltbatch_migrations, at version %d, and no dltbatch_schema", s.schema, version)
				require.ErrorIs(t, st.Migrate(t.Context()), store.ErrUnreleasedSchema)
				require.ErrorContains(t, st.Migrate(t.Context()), want)
				for name, call := range storeCalls(t, st.Store) {
					assert.ErrorIs(t, call(), store.ErrUnreleasedSchema, name)
				}
				_, err := st.Schema(t.Context())
				require.ErrorContains(t, err, want)
				tx := st.mustBegin(t)
				require.ErrorIs(t, st.addTx(t.Context(), tx, newBatch("a", 1)), store.ErrUnreleasedSchema)
				require.NoError(t, tx.rollback())
				var tables string
				require.NoError(t, s.admin.QueryRow(`SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = $1`, s.schema).Scan(&tables))
				assert.Equal(t, "clock dltbatch_migrations", tables)
			})
		}
	}
}

// A trace context that is not valid is not stored.
func TestTraceContextsAreWhole(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st := s.app()
	require.NoError(t, st.Add(t.Context(), newBatch("s", 1)))
	require.NoError(t, st.AddOrders(t.Context(), anOrder("a", "1")))
	for _, table := range []string{"batches", "orders"} {
		_, err := s.admin.Exec(`UPDATE ` + s.schema + `.` + table + ` SET trace_parent = 'short'`)
		require.ErrorContains(t, err, table+"_trace_parent_check")
	}
}
