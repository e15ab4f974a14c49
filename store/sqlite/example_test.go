package sqlite_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// add opens the database, stores a batch, and stores it a second time, which changes nothing.
func add(ctx context.Context, path string, b batch.Batch) error {
	db, err := sqliteopen.Open(path) // or use your own *sql.DB
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	st, err := sqlite.New(db, nil) // checks the settings, and changes nothing
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil { // creates the tables
		return err
	}
	for range 2 {
		if err := st.Add(ctx, b); err != nil {
			return err
		}
	}
	rec, err := st.Get(ctx, b.Key())
	fmt.Println(rec, rec.Tags)
	return err
}

func Example() {
	b := batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("tea"), Tags: batch.Tags{"invoice": "4711"}}
	if err := add(context.Background(), sqliteopen.Memory, b); err != nil { // or the path of a file
		fmt.Println(err)
	}
	// Output: shipments/b1: queued invoice=4711
}
