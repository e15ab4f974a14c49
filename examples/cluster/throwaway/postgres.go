// Package throwaway gives examples a PostgreSQL server that is removed when they end.
package throwaway

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

// Postgres finds PostgreSQL on this machine, or installs it (Debian's packages, as root). It
// starts its own server on a free port of the loopback, as another user if this one is root.
// stop ends the server and removes its files. The server also ends with this process, however
// the process ends.
func Postgres() (dsn string, stop func(), err error) {
	var t life
	// A power cut does not matter: the server's data is removed in a moment.
	c := pgtest.NewCluster(&t, "fsync=off", "full_page_writes=off")
	if t.err != nil {
		return "", nil, t.err
	}
	return c.DSN(""), t.end, nil
}

// life is the part of a test that pgtest needs.
type life struct {
	testing.TB
	err  error
	ends []func()
}

func (*life) Helper() {}

func (l *life) Cleanup(end func()) { l.ends = append(l.ends, end) }

func (l *life) Fatalf(format string, args ...any) { l.err = fmt.Errorf(format, args...) }

func (l *life) end() {
	for _, end := range slices.Backward(l.ends) {
		end()
	}
}

// Schema makes a new schema. within is dsn with the schema as search path; drop removes the
// schema with everything in it.
func Schema(ctx context.Context, dsn, prefix string) (within, name string, drop func(context.Context) error, err error) {
	name = prefix + "_" + strings.ToLower(rand.Text()[:10])
	if within, err = Within(dsn, name); err != nil {
		return "", "", nil, err
	}
	if err := execute(ctx, dsn, `CREATE SCHEMA "`+name+`"`); err != nil {
		return "", "", nil, err
	}
	return within, name, func(ctx context.Context) error { return execute(ctx, dsn, `DROP SCHEMA "`+name+`" CASCADE`) }, nil
}

// Within returns the data source name with a search_path. It may be a URL, or lib/pq's words
// of the form name=value.
func Within(dsn, schema string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " search_path=" + schema, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the data source name is no URL") // the cause would show its password
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func execute(ctx context.Context, dsn, statement string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
