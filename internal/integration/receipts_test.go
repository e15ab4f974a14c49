package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// TestReceiptsAreKept checks that PostgreSQL has the receipts of every commit that a Runner finds
// by asking a Sawtooth node.
func TestReceiptsAreKept(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
			st, _ := s.store()
			n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 100 * time.Millisecond})
			client, err := sawtooth.New(n.URL(), &sawtooth.Options{Receipts: true})
			require.NoError(t, err)
			r, err := dltbatch.New(st, client, nil)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			defer func() { cancel(); assert.NoError(t, <-done) }()

			key, err := sawtooth.GeneratePrivateKey()
			require.NoError(t, err)
			var all []batch.Batch
			for i := range 6 {
				payload, address := sawtoothtest.Set(fmt.Sprint("x", i), 1)
				b, err := sawtooth.Build(key, batch.ServiceID(fmt.Sprint("lane", i%2)), sawtooth.Transaction{
					FamilyName: sawtoothtest.IntKey.Name, FamilyVersion: sawtoothtest.IntKey.Version, Nonce: fmt.Sprint(i),
					Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
				})
				require.NoError(t, err)
				all = append(all, b)
			}
			require.NoError(t, r.Add(ctx, all...))
			for _, b := range all {
				_, err := r.Await(ctx, b.Key())
				require.NoError(t, err)
				rec, err := r.Get(ctx, b.Key())
				require.NoError(t, err)
				require.Equal(t, batch.Committed, rec.State)
				require.Len(t, rec.Receipts, 1)
				assert.Equal(t, b.Transactions[0].ID, rec.Receipts[0].TransactionID)
				assert.Contains(t, string(rec.Receipts[0].Data), `"state_changes"`)
			}
		})
	}
}
