// Package throwaway gives examples a PostgreSQL that is gone when they end.
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

// Postgres finds PostgreSQL on this machine, or installs it (Debian's packages, as
// root), and starts a server of its own on a free port of the loopback, as another
// user where this one is root. stop ends the server and removes its files. The server
// ends with this process, too, however that ends.
func Postgres() (dsn string, stop func(), err error) {
	var t life
	// Nobody pulls this machine's plug, and what the server holds is gone in a moment.
	c := pgtest.NewCluster(&t, "fsync=off", "full_page_writes=off")
	if t.err != nil {
		return "", nil, t.err
	}
	return c.DSN(""), t.end, nil
}

// life is as much of a test as pgtest needs.
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

// Schema makes a new schema. dsn is the same as before, with the schema as the one
// that names without one are looked up in; drop removes it with all that is in it.
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

// Within returns the data source name with a search_path. It may be a URL, or words
// of the form name=value, as lib/pq has it.
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
