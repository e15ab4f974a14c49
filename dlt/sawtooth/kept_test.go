package sawtooth_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// TestReceiptsAreKept shows that each commit which a Runner finds by asking is recorded with its
// receipts: a commit written together with the acceptance, and commits of batches that were asked
// about from memory, as a row, or after an event about a block.
func TestReceiptsAreKept(t *testing.T) {
	stores := map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			st, err := sqlite.New(db, nil)
			require.NoError(t, err)
			require.NoError(t, st.Migrate(context.Background()))
			return st
		},
	}
	for name, o := range map[string]struct {
		client sawtooth.Options
		runner dltbatch.Options
		block  time.Duration
	}{
		"with its acceptance": {sawtooth.Options{NoEvents: true}, dltbatch.Options{FirstPoll: 20 * time.Millisecond}, 5 * time.Millisecond},
		"from memory":         {sawtooth.Options{NoEvents: true}, dltbatch.Options{}, 300 * time.Millisecond},
		"as a row":            {sawtooth.Options{NoEvents: true}, dltbatch.Options{FirstPoll: 50 * time.Millisecond, PollInterval: 50 * time.Millisecond}, 150 * time.Millisecond},
		"told of a block":     {sawtooth.Options{}, dltbatch.Options{}, 100 * time.Millisecond},
	} {
		for kind, open := range stores {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: o.block})
				client := o.client
				client.Receipts = true
				r, err := dltbatch.New(open(t), newClient(t, n.URL(), &client), &o.runner)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				defer func() { cancel(); assert.NoError(t, <-done) }()

				var all []batch.Batch
				for i := range 6 {
					payload, address := sawtoothtest.Set(fmt.Sprint("x", i), 1)
					b := batchOf(t, name+fmt.Sprint(i), payload, address)
					b.Service = batch.ServiceID(fmt.Sprint("lane", i%2))
					all = append(all, b)
				}
				require.NoError(t, r.Add(ctx, all...))
				for _, b := range all {
					rec, err := r.Await(ctx, b.Key())
					require.NoError(t, err)
					require.Equal(t, batch.Committed, rec.State)
					if rec, err = r.Get(ctx, b.Key()); assert.NoError(t, err) && assert.Len(t, rec.Receipts, 1) {
						assert.Equal(t, b.Transactions[0].ID, rec.Receipts[0].TransactionID)
						assert.True(t, rec.Receipts[0].Valid)
						assert.Contains(t, string(rec.Receipts[0].Data), `"state_changes"`)
					}
				}
			})
		}
	}
}
