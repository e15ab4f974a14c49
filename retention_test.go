package dltbatch_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var retentionTime = flag.Duration("retention.time", 2*time.Hour, "virtual time of TestRetentionKeepsUp, more than 65 minutes")

// A final batch is removed after the retention and not before, an open batch stays, and a removed
// batch is not sent again.
func TestRetention(t *testing.T) {
	tier.Plain(t)
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
		var batches []batch.Batch
		for i := range 1200 { // more than two chunks
			batches = append(batches, batch.Batch{ID: batch.ID(fmt.Sprintf("b%04d", i)), Service: batch.ServiceID(fmt.Sprint(i % 40)), Payload: []byte("x")})
		}
		open := batch.Batch{ID: "open", Service: "down", Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, append(batches, open)...))
		for _, b := range batches {
			_, err := r.Await(ctx, b.Key())
			require.NoError(t, err)
		}
		time.Sleep(23 * time.Hour)
		_, err = r.Get(ctx, batches[0].Key())
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		for _, b := range batches {
			rec, err := r.Await(ctx, b.Key())
			require.NoError(t, err)
			require.Equal(t, batch.Committed, rec.State)
			require.False(t, rec.PrunedAt.IsZero(), "only a tombstone is left")
		}
		rec, err := r.Get(ctx, open.Key())
		require.NoError(t, err)
		require.False(t, rec.Final())
		require.NoError(t, r.Add(ctx, batches[0]), "known by its tombstone")
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

// TestRetentionKeepsUp: removal keeps pace with new final batches and orders, in any mixture
// of kinds. Otherwise a hundred thousand are overdue after the first two hours.
func TestRetentionKeepsUp(t *testing.T) {
	tier.Plain(t)
	const (
		retention = time.Hour
		slack     = 5 * time.Minute
		every     = 6 * time.Second // time between two additions of a load
	)
	for name, load := range map[string]func(ctx context.Context, t *testing.T, r *dltbatch.Runner, st *memory.Store, i int){
		"1,500 orders and 10 batches a minute": func(ctx context.Context, t *testing.T, r *dltbatch.Runner, st *memory.Store, i int) {
			orders := make([]order.Order, 150)
			for k := range orders {
				orders[k] = order.Order{ID: order.ID(fmt.Sprintf("o%05d-%03d", i, k)), Party: "p", Payload: []byte("x"), Deadline: time.Now()}
			}
			require.NoError(t, st.AddOrders(ctx, orders...))
			expired, err := st.ExpireOrders(ctx, 500) // overdue orders become final
			require.NoError(t, err)
			require.Len(t, expired, len(orders))
			require.NoError(t, r.Add(ctx, batch.Batch{ID: batch.ID(fmt.Sprintf("b%05d", i)), Service: "s", Payload: []byte("x")}))
		},
		"100 ids of a stream a second": func(ctx context.Context, t *testing.T, _ *dltbatch.Runner, st *memory.Store, i int) {
			epoch, held, err := st.LeaseStream(ctx, "events", "test", time.Hour)
			require.NoError(t, err)
			require.True(t, held)
			ids := make([]string, 600)
			for k := range ids {
				ids[k] = fmt.Sprintf("%05d-%03d", i, k)
			}
			held, err = st.AppendStream(ctx, batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: ids})
			require.NoError(t, err)
			require.True(t, held)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				r, err := dltbatch.New(st, ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{Name: "test", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true}}),
					&dltbatch.Options{Retention: retention, ScanInterval: time.Minute, PollInterval: time.Minute})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				for i := range int(*retentionTime / every) {
					load(ctx, t, r, st, i)
					time.Sleep(every)
				}
				synctest.Wait()
				cancel()
				require.NoError(t, <-done)
				// Only orders and batches younger than the retention may be left.
				overdue, err := st.Prune(t.Context(), store.PruneQuery{OlderThan: retention + slack, Limit: 100_000_000})
				require.NoError(t, err)
				require.Zero(t, overdue, "older than Retention and 5 minutes")
				kept, err := st.Prune(t.Context(), store.PruneQuery{Limit: 100_000_000})
				require.NoError(t, err)
				require.Positive(t, kept.Orders+kept.StreamIDs, "what is younger stays")
			})
		})
	}
}

// If an Add of an old id might take effect again, the ids of all batches are kept, however the
// batches ended. A caller that repeats its Add after the retention gets the first outcome, or an
// error that says how the batch ended. This holds also if the kept bytes may be sent again for
// ever.
func TestAddAgainAfterRetention(t *testing.T) {
	for name, traits := range map[string]dlt.Traits{
		"nothing is said":                     {Name: "test"},
		"the same bytes may be sent again":    {Name: "test", ResendHarmlessFor: dlt.Forever},
		"adding again is said to be harmless": {Name: "test", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
					if a.ID == "refused" {
						return ledgermem.Fault{Kind: ledgermem.Rejected}
					}
					return ledgermem.Fault{}
				}})
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Retention: time.Hour})
				require.NoError(t, r.Add(t.Context(), newBatch("s", "cancelled")))
				rec, err := r.Get(t.Context(), newBatch("s", "cancelled").Key())
				require.NoError(t, err)
				_, err = r.Cancel(t.Context(), rec, batch.By{Actor: "ada", Reason: "not now"})
				require.NoError(t, err)
				stop := startRun(t, r)
				require.NoError(t, r.Add(t.Context(), newBatch("s", "paid"), newBatch("s", "refused")))
				time.Sleep(2 * time.Hour)
				if traits.AddAgainHarmless {
					_, err = r.Get(t.Context(), newBatch("s", "paid").Key())
					require.ErrorIs(t, err, batch.ErrNotFound, "nothing is kept")
					require.NoError(t, stop())
					return
				}
				require.NoError(t, r.Add(t.Context(), newBatch("s", "paid")))
				for id, kind := range map[batch.ID]batch.ErrorKind{"cancelled": batch.KindCancelled, "refused": batch.KindRejected} {
					var ended *batch.EndedError
					require.ErrorAs(t, r.Add(t.Context(), newBatch("s", id)), &ended)
					require.Equal(t, kind, ended.Record.Error.Kind)
					require.ErrorContains(t, ended, string(kind))
				}
				for id, state := range map[batch.ID]batch.State{"paid": batch.Committed, "cancelled": batch.Rejected, "refused": batch.Rejected} {
					rec, err := r.Await(t.Context(), newBatch("s", id).Key())
					require.NoError(t, err)
					require.Equal(t, state, rec.State)
				}
				time.Sleep(time.Hour)
				require.Equal(t, []batch.ID{"paid"}, ledger.Log("s"), "executed once")
				require.NoError(t, stop())
			})
		})
	}
}

// Traits that let an old id be added again for ever are refused if the client would prepare other
// bytes for a forgotten batch, or if the ledger forgets ids.
func TestContradictingTraitsAreRefused(t *testing.T) {
	for name, traits := range map[string]dlt.Traits{
		"prepares":                {Name: "test", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, Prepares: true},
		"prepares once more":      {Name: "test", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, Prepares: true, Renews: true},
		"resends harm":            {Name: "test", AddAgainHarmless: true},
		"resends harm after some": {Name: "test", ResendHarmlessFor: time.Hour, AddAgainHarmless: true},
	} {
		ledger := emptyPrepareLedger{ledgermem.New(&ledgermem.Options{Traits: &traits})}
		_, err := dltbatch.New(memory.New(), ledger, nil)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		require.ErrorContains(t, err, "AddAgainHarmless", name)
		_, err = dlt.NewRouter(dlt.Route{Ledger: ledger})
		require.ErrorContains(t, err, "AddAgainHarmless", name)
	}
}
