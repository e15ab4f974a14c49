package events

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// twoBatchStore is a store in which the second batch of a lane is committed.
type twoBatchStore struct{ Reads }

func (twoBatchStore) Get(_ context.Context, key batch.Key) (batch.Record, error) {
	return batch.Record{Key: key, State: batch.Unknown, CreatedAt: time.Unix(1, 0)}, nil
}

func (twoBatchStore) List(context.Context, store.ListQuery) ([]batch.Record, store.Cursor, error) {
	return []batch.Record{{Key: batch.Key{Service: "s", ID: "second"}, State: batch.Committed, CreatedAt: time.Unix(2, 0)}}, "", nil
}

// A batch that the ledger had lost is sent again, or is executed after all, while the next batch
// of its lane is committed. That is a breach of order, unless the batch keeps prepared bytes that
// fix its place: a nonce below that of the next batch.
func TestABatchWithANumberKeepsItsPlace(t *testing.T) {
	first := store.Ref{Key: batch.Key{Service: "s", ID: "first"}}
	for name, c := range map[string]struct {
		inOrder bool
		kept    []byte
		breach  bool
	}{
		"the ledger keeps the order of submission":     {false, nil, true},
		"prepared bytes that have no place":            {false, []byte("begin 7"), true},
		"its number was used, and it gets another one": {true, nil, true},
		"it keeps the bytes with its number":           {true, []byte("nonce 7"), false},
	} {
		var seen []batch.EventKind
		r := New(Options{Final: func(batch.Key) {}, Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) { seen = append(seen, e.Kind) })})
		run := r.Begin(t.Context(), twoBatchStore{}, func(batch.ServiceID) dlt.Traits {
			return dlt.Traits{Prepares: true, PreparesInOrder: c.inOrder, ResendHarmlessFor: dlt.Forever, KeepsOrder: true}
		}, true)
		run.Claimed(t.Context(), store.ClaimedRun{Service: "s", Batches: []store.Claim{{Ref: first, From: batch.Unknown, Attempt: 2, Again: true, Prepared: c.kept}}})
		want := []batch.EventKind{batch.EventClaimed}
		if c.breach {
			want = []batch.EventKind{batch.EventOrderBreach, batch.EventClaimed}
		}
		assert.Equal(t, want, seen, "%s: sent again", name)
		seen = nil
		run.Written(t.Context(), inhand.Recorded{
			Outcome: store.Outcome{Ref: first, By: batch.ByMonitor, Finding: store.IsCommitted, Prepared: c.kept},
			Applied: store.Applied{Ref: first, Result: store.Written, From: batch.Unknown, Row: store.Row{State: batch.Committed, Attempt: 1, FinalAt: time.Unix(3, 0)}},
		})
		want = []batch.EventKind{batch.EventFinal}
		if c.breach {
			want = []batch.EventKind{batch.EventOrderBreach}
		}
		assert.Equal(t, want, seen, "%s: executed", name)
		run.End()
	}
}
