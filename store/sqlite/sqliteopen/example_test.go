package sqliteopen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// The example makes a new database file, and opens a store in it.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sqliteopen.Open(filepath.Join(dir, "queue.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	st, err := sqlite.New(db, nil) // New refuses a database with unsafe settings
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(st.Migrate(context.Background()))
	var journal string
	err = db.QueryRow("PRAGMA journal_mode").Scan(&journal)
	fmt.Println(journal, err)
	// Output:
	// <nil>
	// wal <nil>
}
