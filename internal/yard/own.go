package main

import (
	"context"
	"fmt"
	"net/url"
	"os"

	pgxdriver "github.com/jackc/pgx/v5"
)

// ownDatabase creates a database for this process on a server, so that the yard drops, vacuums and
// counts only its own tables. dsn is a URL.
func ownDatabase(ctx context.Context, dsn string) (own string, drop func() error, err error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("dltbatch_yard_%d", os.Getpid())
	do := func(ctx context.Context, statement string) error {
		c, err := pgxdriver.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, statement)
		return err
	}
	if err := do(ctx, `CREATE DATABASE `+name); err != nil {
		return "", nil, fmt.Errorf("make a database: %w", err)
	}
	u.Path = "/" + name
	return u.String(), func() error {
		// The database is dropped even when ctx is done, because the server may belong to a user.
		if err := do(context.WithoutCancel(ctx), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			return fmt.Errorf("drop a database: %w", err)
		}
		return nil
	}, nil
}
