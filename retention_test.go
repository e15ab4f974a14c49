package dltbatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// What is final is removed when its time has come, and not before; what is open
// stays; and a batch that was removed is not sent again.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Service == "down" {
				return ledgermem.Fault{Kind: ledgermem.Unavailable}
			}
			return ledgermem.Fault{}
		}})
		r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Retention: 24 * time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		var all []batch.Batch
		for i := range 1200 { // more than two chunks
			all = append(all, batch.Batch{ID: batch.ID(fmt.Sprintf("b%04d", i)), Service: batch.ServiceID(fmt.Sprint(i % 40)), Payload: []byte("x")})
		}
		open := batch.Batch{ID: "open", Service: "down", Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, append(all, open)...))
		for _, b := range all {
			_, err := r.Await(ctx, b.Key())
			require.NoError(t, err)
		}
		time.Sleep(23 * time.Hour)
		_, err = r.Get(ctx, all[0].Key())
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		for _, b := range all {
			_, err := r.Get(ctx, b.Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
		}
		rec, err := r.Get(ctx, open.Key())
		require.NoError(t, err)
		require.False(t, rec.Final())
		require.NoError(t, r.Add(ctx, all[0]), "known by its tombstone")
		time.Sleep(time.Minute)
		require.Len(t, ledger.Log("0"), 30, "and not sent again")
		cancel()
		require.NoError(t, <-done)
	})
}

func TestRetentionOutlastsTheWindow(t *testing.T) {
	week := dlt.Traits{Name: "l", ResendHarmlessFor: 7 * 24 * time.Hour}
	r, err := dltbatch.New(memory.New(), ledgermem.New(&ledgermem.Options{Traits: &week}), &dltbatch.Options{Retention: 24 * time.Hour})
	require.NoError(t, err)
	err = r.Run(t.Context())
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	require.ErrorContains(t, err, "24h0m0s")
	require.ErrorContains(t, err, "168h0m0s")
}
