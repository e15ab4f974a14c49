package integration

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store/postgres"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A driver of database/sql, and how it is told apart.
type driver struct {
	name    string // in test names
	sql     string // in database/sql
	params  string // added to the data source name
	bouncer bool
}

var (
	pgx        = driver{name: "pgx", sql: "pgx"}
	libpq      = driver{name: "pq", sql: "postgres"}
	pgxBounced = driver{name: "pgx through pgbouncer", sql: "pgx", params: "default_query_exec_mode=exec", bouncer: true}
	pgxSimple  = driver{name: "pgx's simple protocol through pgbouncer", sql: "pgx", params: "default_query_exec_mode=simple_protocol", bouncer: true}
	pqBounced  = driver{name: "pq through pgbouncer", sql: "postgres", params: "binary_parameters=yes", bouncer: true}
)

var schemas atomic.Int64

// space is a schema of one test, with a clock of its own: a function clock_timestamp
// that is found before PostgreSQL's. Behind PgBouncer it is a database of one test,
// since PgBouncer does not pass a search_path on.
type space struct {
	t      testing.TB
	d      driver
	schema string
	admin  *sql.DB
	dsn    string
}

func newSpace(t testing.TB, d driver) *space {
	t.Helper()
	s := &space{t: t, d: d, schema: fmt.Sprintf("t%d_%d", os.Getpid(), schemas.Add(1))}
	dsn := pgtest.Start(t)
	dsn = with(dsn, "lock_timeout=20000") // a transaction that a test left open is an error, not a hang
	s.admin = openDSN(t, "pgx", dsn)
	if d.bouncer {
		s.exec(`CREATE DATABASE ` + s.schema)
		t.Cleanup(func() { s.exec(`DROP DATABASE ` + s.schema + ` WITH (FORCE)`) })
		s.exec(`ALTER DATABASE ` + s.schema + ` SET search_path = ` + s.schema + `, pg_catalog`)
		outer := s.admin
		s.admin = openDSN(t, "pgx", inDatabase(t, dsn, s.schema))
		t.Cleanup(func() { s.admin = outer })
		dsn = inDatabase(t, pgtest.Bouncer(t), s.schema)
	} else {
		t.Cleanup(func() { s.exec(`DROP SCHEMA ` + s.schema + ` CASCADE`) })
		dsn = with(pgtest.Start(t), "search_path="+s.schema+"%2Cpg_catalog")
	}
	s.dsn = with(dsn, d.params)
	s.exec(`CREATE SCHEMA ` + s.schema)
	s.exec(`CREATE TABLE ` + s.schema + `.clock (ahead interval NOT NULL)`)
	s.exec(`INSERT INTO ` + s.schema + `.clock VALUES ('0')`)
	s.exec(`CREATE FUNCTION ` + s.schema + `.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
		AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM ` + s.schema + `.clock)'`)
	return s
}

func inDatabase(t testing.TB, dsn, name string) string {
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func with(dsn, params string) string {
	switch {
	case params == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + params
	}
	return dsn + "?" + params
}

func (s *space) exec(statement string) {
	s.t.Helper()
	_, err := s.admin.ExecContext(context.Background(), statement)
	require.NoError(s.t, err)
}

func (s *space) step(d time.Duration) {
	s.exec(fmt.Sprintf(`UPDATE %s.clock SET ahead = ahead + interval '%d microseconds'`, s.schema, d.Microseconds()))
}

func openDSN(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// db opens the space as an application would.
func (s *space) db() *sql.DB { return openDSN(s.t, s.d.sql, s.dsn) }

// store is a migrated store in the space.
func (s *space) store() (*postgres.Store, *sql.DB) {
	s.t.Helper()
	db := s.db()
	st, err := postgres.New(db, &postgres.Options{Schema: s.schema})
	require.NoError(s.t, err)
	require.NoError(s.t, st.Migrate(s.t.Context()))
	return st, db
}
