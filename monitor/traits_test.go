package monitor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The functions and types up to the first test are the snippets of docs/traits.md.

// waiting counts the batches of a service that wait.
func waiting(ctx context.Context, s store.BatchStore, service batch.ServiceID) (int, error) {
	lanes, err := s.Counts(ctx, store.CountsQuery{Service: &service})
	if err != nil || len(lanes) == 0 {
		return 0, err
	}
	return lanes[0].Waiting, nil
}

// due returns the batches that the ledger has to be asked about now, and leases them for a while.
func due(ctx context.Context, s monitor.PendingBatchStore) ([]store.InFlight, error) {
	return s.Pending(ctx, store.PendingQuery{Limit: 100, Lease: time.Minute})
}

// reader asks a ledger with an API of its own.
type reader struct {
	ask func(ctx context.Context, service, id string) (word string, err error)
}

// BatchStatuses implements [dlt.BatchStatusReader].
func (r reader) BatchStatuses(ctx context.Context, service batch.ServiceID, of []batch.Attempt) ([]batch.Status, error) {
	words := map[string]batch.Reported{
		"waiting": batch.ReportedPending, "done": batch.ReportedCommitted, "refused": batch.ReportedInvalid, "no such batch": batch.ReportedUnknown,
	}
	var all []batch.Status
	for _, a := range of {
		word, err := r.ask(ctx, string(service), string(a.ID))
		if err != nil {
			return all, err // what is known counts all the same
		}
		if reported, known := words[word]; known { // a word that nobody knows says nothing
			all = append(all, batch.Status{ID: a.ID, Reported: reported})
		}
	}
	return all, nil
}

// writer writes outcomes at once.
type writer struct {
	store  store.Store
	failed func(error)
}

// Put implements [monitor.BatchUpdater].
func (w writer) Put(all []store.Outcome) {
	if _, err := w.store.Record(context.Background(), all); err != nil {
		w.failed(err)
	}
}

var (
	_ dlt.BatchStatusReader = reader{}
	_ monitor.BatchUpdater  = writer{}
)

// A batch goes from Add to its outcome by the snippets alone.
func TestTraitsTogether(t *testing.T) {
	ctx := t.Context()
	st := memory.New()
	require.NoError(t, st.Add(ctx, batch.Batch{Service: "s", ID: "a", Payload: []byte("x")}))
	n, err := waiting(ctx, st, "s")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	claimed, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
		func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
	require.NoError(t, err)
	c := claimed.Runs[0].Batches[0]
	w := writer{store: st, failed: func(err error) { t.Error(err) }}
	w.Put([]store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.Accepted}})
	asked, err := due(ctx, st)
	require.NoError(t, err)
	require.Len(t, asked, 1)
	r := reader{ask: func(_ context.Context, _, id string) (string, error) {
		return map[string]string{"a": "done", "b": "a new word"}[id], map[string]error{"c": errors.New("broken")}[id]
	}}
	all, err := r.BatchStatuses(ctx, "s", []batch.Attempt{{Key: batch.Key{ID: "a"}}, {Key: batch.Key{ID: "b"}}, {Key: batch.Key{ID: "c"}}})
	require.ErrorContains(t, err, "broken")
	require.Equal(t, []batch.Status{{ID: "a", Reported: batch.ReportedCommitted}}, all)
	w.Put([]store.Outcome{{Ref: asked[0].Ref, Version: asked[0].Version, Was: asked[0].Was, By: batch.ByMonitor, Finding: store.IsCommitted}})
	rec, err := st.Get(ctx, batch.Key{Service: "s", ID: "a"})
	require.NoError(t, err)
	assert.Equal(t, batch.Committed, rec.State)
}
