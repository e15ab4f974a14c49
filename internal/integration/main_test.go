package integration

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/postgres"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, idleSpaces.close)) }

// driver is a driver of database/sql, with its names, or pgx's own pool.
type driver struct {
	name       string // in test names
	sqlName    string // its name in database/sql
	isPool     bool   // pgx's own pool, without database/sql
	params     string // appended to the data source name
	hasBouncer bool
	isForRace  bool // also used in tests that run with the race detector
}

// inRace returns the driver for a test that also runs with the race detector. Only pgx's pool
// does, since it is the one in which much happens at once within the process; with the others most
// of the time is spent waiting for the server.
func (d driver) inRace() driver {
	d.isForRace = d == nativePool
	return d
}

// skipInRace skips a test that is not for runs with the race detector, unless the driver is raced.
func (d driver) skipInRace(t testing.TB) {
	t.Helper()
	if !d.isForRace {
		tier.Plain(t)
	}
}

var (
	nativePool    = driver{name: "native", sqlName: "pgx", isPool: true}
	pgx           = driver{name: "pgx", sqlName: "pgx"}
	libpq         = driver{name: "pq", sqlName: "postgres"}
	pooledBouncer = driver{name: "native through pgbouncer", sqlName: "pgx", isPool: true, params: "default_query_exec_mode=exec", hasBouncer: true}
	pooledSimple  = driver{name: "native's simple protocol through pgbouncer", sqlName: "pgx", isPool: true, params: "default_query_exec_mode=simple_protocol", hasBouncer: true}
	pgxBouncer    = driver{name: "pgx through pgbouncer", sqlName: "pgx", params: "default_query_exec_mode=exec", hasBouncer: true}
	pqBouncer     = driver{name: "pq through pgbouncer", sqlName: "postgres", params: "binary_parameters=yes", hasBouncer: true}
)

var schemas atomic.Int64

// testSpace is a schema of one test, with a clock of its own: its function clock_timestamp is
// found before PostgreSQL's. Behind PgBouncer the space is a database of its own, since PgBouncer
// does not pass on a search_path.
type testSpace struct {
	t       testing.TB
	driver  driver
	schema  string
	admin   *sql.DB
	dsn     string
	baseDSN string // without the driver's own parameters
}

// newSpace makes a space that no other test has used, and removes it at the end of the test.
func newSpace(t testing.TB, d driver) *testSpace {
	t.Helper()
	s := makeSpace(t, d)
	t.Cleanup(func() {
		drop := `DROP SCHEMA ` + s.schema + ` CASCADE`
		if d.hasBouncer {
			require.NoError(t, s.admin.Close())
			s.admin = openAdmin(t, pgtest.Start(t))
			drop = `DROP DATABASE ` + s.schema + ` WITH (FORCE)`
		}
		s.exec(drop)
		require.NoError(t, s.admin.Close())
	})
	return s
}

func makeSpace(t testing.TB, d driver) *testSpace {
	t.Helper()
	d.skipInRace(t)
	s := &testSpace{t: t, driver: d, schema: fmt.Sprintf("t%d_%d", os.Getpid(), schemas.Add(1))}
	dsn := pgtest.Start(t)
	s.admin = openAdmin(t, dsn)
	if d.hasBouncer {
		s.exec(`CREATE DATABASE ` + s.schema)
		s.exec(`ALTER DATABASE ` + s.schema + ` SET search_path = ` + s.schema + `, pg_catalog`)
		require.NoError(t, s.admin.Close())
		s.admin = openAdmin(t, dsnOfDatabase(t, dsn, s.schema))
		s.baseDSN = dsnOfDatabase(t, pgtest.Bouncer(t), s.schema)
	} else {
		s.baseDSN = withParams(dsn, "lock_timeout=20000&application_name="+s.schema+"&search_path="+s.schema+"%2Cpg_catalog")
	}
	s.dsn = withParams(s.baseDSN, d.params)
	s.exec(`CREATE SCHEMA ` + s.schema)
	s.exec(`CREATE TABLE ` + s.schema + `.clock (ahead interval NOT NULL)`)
	s.exec(`INSERT INTO ` + s.schema + `.clock VALUES ('0')`)
	s.exec(`CREATE FUNCTION ` + s.schema + `.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
		AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM ` + s.schema + `.clock)'`)
	return s
}

// openAdmin opens a connection that outlasts the test. If a test left a transaction open, a
// statement that waits for its locks fails after 20 s and does not hang.
func openAdmin(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", withParams(dsn, "lock_timeout=20000"))
	require.NoError(t, err)
	db.SetMaxOpenConns(2)
	return db
}

func dsnOfDatabase(t testing.TB, dsn, name string) string {
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func withParams(dsn, params string) string {
	switch {
	case params == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + params
	}
	return dsn + "?" + params
}

// spacePool holds spaces that tests have left clean, by driver and way of connecting. Making a
// space takes longer than most tests.
type spacePool struct {
	mu         sync.Mutex
	idleSpaces map[bool][]*testSpace
}

var idleSpaces = spacePool{idleSpaces: map[bool][]*testSpace{}}

// take returns an idle space, or nil.
func (p *spacePool) take(t testing.TB, d driver) *testSpace {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.idleSpaces[d.hasBouncer]
	if len(free) == 0 {
		return nil
	}
	s := *free[len(free)-1]
	p.idleSpaces[d.hasBouncer] = free[:len(free)-1]
	s.t, s.driver, s.dsn = t, d, withParams(s.baseDSN, d.params)
	return &s
}

func (p *spacePool) put(s *testSpace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idleSpaces[s.driver.hasBouncer] = append(p.idleSpaces[s.driver.hasBouncer], s)
}

func (p *spacePool) close() {
	for _, free := range p.idleSpaces {
		for _, s := range free {
			_ = s.admin.Close()
		}
	}
}

// usedSpace returns a migrated space that another test may have used before: its tables are empty
// and its clock is right.
func usedSpace(t testing.TB, d driver) *testSpace {
	t.Helper()
	d.skipInRace(t)
	s := idleSpaces.take(t, d)
	if s == nil {
		s = makeSpace(t, d)
	}
	t.Cleanup(func() {
		s.clear()
		idleSpaces.put(s)
	})
	return s
}

// clear empties the store's tables except the record of its migrations, and sets the clock right.
// DELETE would leave dead rows, which later tests would read. TRUNCATE makes new files for a table
// and its indexes, which takes longer than most tests, so a table without pages is left alone: no
// row was written to it since the last TRUNCATE.
func (s *testSpace) clear() {
	s.t.Helper()
	if used := s.tables("pg_relation_size(format('%I.%I', schemaname, tablename)::regclass) > 0"); used != "" {
		s.exec(`TRUNCATE ` + used)
	}
	s.exec(`UPDATE ` + s.schema + `.clock SET ahead = '0'`)
}

// tables lists the store's tables for which a condition holds, except the record of its
// migrations.
func (s *testSpace) tables(where string) (list string) {
	s.t.Helper()
	require.NoError(s.t, s.admin.QueryRow(`SELECT coalesce(string_agg(format('%I.%I', schemaname, tablename), ', '), '')
		FROM pg_tables WHERE schemaname = $1 AND tablename <> 'clock' AND tablename <> $2 AND `+where,
		s.schema, postgres.MigrationsTable).Scan(&list))
	return list
}

// analyze analyzes all tables that the store's statements read, and no others: other tests run
// at the same time.
func (s *testSpace) analyze(command string) {
	s.t.Helper()
	s.exec(command + ` ` + s.tables("true") + `, pg_database`)
}

// countSessions counts the store's sessions for which a condition holds.
func (s *testSpace) countSessions(where string) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND `+where, s.schema).Scan(&n))
	return n
}

func (s *testSpace) exec(statement string) {
	s.t.Helper()
	_, err := s.admin.ExecContext(context.Background(), statement)
	require.NoError(s.t, err)
}

func (s *testSpace) stepClock(d time.Duration) {
	s.exec(fmt.Sprintf(`UPDATE %s.clock SET ahead = ahead + %d * interval '1 microsecond'`, s.schema, d.Microseconds()))
}

// openDSN opens a database as an application with database/sql would.
func openDSN(t testing.TB, d driver, dsn string) *sql.DB {
	t.Helper()
	var db *sql.DB
	if d.sqlName == pgx.sqlName {
		db = openWatched(t, dsn)
	} else {
		var err error
		db, err = sql.Open(d.sqlName, dsn)
		require.NoError(t, err)
	}
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// store returns a migrated store in the space, and its database.
func (s *testSpace) store() (*postgres.Store, *sql.DB) {
	s.t.Helper()
	a := s.app()
	return a.Store, a.db
}
