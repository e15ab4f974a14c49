package flaky_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/mattn/go-sqlite3" // registers the driver

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// openSQLite returns a migrated store whose statements fail.
func openSQLite(t *testing.T, f *flaky.Faults) *sqlite.Store {
	_, s := openDatabaseAndStore(t, f)
	return s
}

// openDatabaseAndStore returns the database, and a migrated store whose statements fail.
func openDatabaseAndStore(t *testing.T, f *flaky.Faults) (*sql.DB, *sqlite.Store) {
	dsn := fmt.Sprintf("file:%s?_journal_mode=WAL&_busy_timeout=5000&_synchronous=NORMAL&_foreign_keys=on&_txlock=immediate", filepath.Join(t.TempDir(), "q.db"))
	db, err := f.Open("sqlite3", dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlite.New(db, &sqlite.Options{AllowNormal: true})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return db, s
}

func TestContractSQLite(t *testing.T) {
	f := flaky.New(1, 10)
	flaky.CheckErrorPromises(t, openSQLite(t, f), f)
}

// If one statement in ten fails, all batches become final, once and in order. The test runs in
// real time, and prints the latencies.
func TestOneStatementInTenFailsSQLite(t *testing.T) {
	load := flaky.Load{Lanes: 8, MeanPause: 200 * time.Millisecond, Duration: 4 * time.Second}
	calm := flaky.New(1, 1<<30)
	t.Logf("no faults: %s", load.Run(t, openSQLite(t, calm), calm, nil))
	f := flaky.New(uint64(time.Now().UnixNano()), 10)
	t.Logf("one in ten: %s\n%s", load.Run(t, openSQLite(t, f), f, nil), f)
}

// A transaction whose BEGIN lost its answer is ended, since otherwise it would keep all others
// from writing for ever. This is so even if the ROLLBACK fails, too, and the connection is closed
// with statements that other writers have prepared on it.
func TestABeginWithoutAnAnswer(t *testing.T) {
	for _, rollback := range []bool{false, true} {
		f := flaky.New(1, 10)
		s := openSQLite(t, f)
		var others sync.WaitGroup
		stop := make(chan struct{})
		for i := range 4 { // several, so that connections are passed from one writer to the next
			others.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						b := batch.Batch{ID: batch.ID(fmt.Sprint(i, "-", n)), Service: "t", Payload: []byte("x")}
						if err := s.Add(t.Context(), b); err != nil && !errors.Is(err, flaky.ErrAfter) && !errors.Is(err, flaky.ErrBefore) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		for i := range 20 {
			if rollback {
				f.FailNext("ROLLBACK", false)
			}
			f.FailNext("BEGIN", true)
			time.Sleep(2 * time.Millisecond)
			err := s.Add(t.Context(), batch.Batch{ID: batch.ID(fmt.Sprint("b", i)), Service: "s", Payload: []byte("x")})
			if err != nil && !errors.Is(err, flaky.ErrAfter) {
				t.Error(err)
				break
			}
		}
		close(stop)
		others.Wait()
	}
}

// Each statement of each operation fails once, in each way in which SQLite's statements can fail.
func TestEveryStatementFailsSQLite(t *testing.T) {
	tier.Long(t)
	f := flaky.New(1, 10)
	db, s := openDatabaseAndStore(t, f)
	flaky.FailEachStatement(t, flaky.FailingStore{
		Store: s, Faultless: s, Faults: f, Kinds: []flaky.Kind{flaky.Before, flaky.After, flaky.RolledBack}, ManyBatches: 12,
		AddTx: func(ctx context.Context, batches ...batch.Batch) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := s.Tx(tx).Add(ctx, batches...); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
	})
}
