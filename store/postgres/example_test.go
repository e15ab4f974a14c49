package postgres_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/lib/pq" // or pgx: _ "github.com/jackc/pgx/v5/stdlib", and sql.Open("pgx", ...)

	"github.com/dltbatch/dltbatch/store/postgres"
)

// The example opens a store in a schema of its own. It is not run here, because it needs a server;
// examples/outbox starts a server.
func ExampleNew() { //nolint:testableexamples // it needs a server
	db, err := sql.Open("postgres", "postgres://user:password@host/database")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16) // with the default, 2, connections are opened and closed all the time
	st, err := postgres.New(db, &postgres.Options{Schema: "dltbatch"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := st.Migrate(context.Background()); err != nil { // any number of processes may call Migrate at the same time
		fmt.Println(err)
	}
}
