package postgres_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/lib/pq" // or pgx: _ "github.com/jackc/pgx/v5/stdlib", and sql.Open("pgx", ...)

	"github.com/dltbatch/dltbatch/store/postgres"
)

// A store in a schema of its own. It wants a server, so it is not run here; examples/outbox
// starts one.
func ExampleNew() { //nolint:testableexamples // it wants a server
	db, err := sql.Open("postgres", "postgres://user:password@host/database")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16) // the default, 2, opens and closes connections all the time
	st, err := postgres.New(db, &postgres.Options{Schema: "dltbatch"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := st.Migrate(context.Background()); err != nil { // any number of processes may do this at once
		fmt.Println(err)
	}
}
