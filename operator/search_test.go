package operator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// Search finds open batches by properties that have no index, and finds no final batch.
func TestSearch(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s", "t")
		s, others := o.addLane("s", 3), o.addLane("t", 1200)
		claimed := o.claim(queuer.Serial(), "s")
		gone := o.readRecord(others[5])
		_, err := o.Cancel(o.ctx(), gone, ada)
		require.NoError(o, err)

		search := func(q operator.SearchQuery) operator.SearchResult {
			o.Helper()
			got, err := o.Search(o.ctx(), q)
			require.NoError(o, err)
			return got
		}
		names := func(q operator.SearchQuery) (ids []batch.ID) {
			o.Helper()
			got := search(q)
			assert.False(o, got.Incomplete)
			assert.Equal(o, 1202, got.Examined)
			for _, rec := range got.Batches {
				ids = append(ids, rec.ID)
			}
			return ids
		}
		assert.Equal(o, []batch.ID{s[0].ID}, names(operator.SearchQuery{Attempts: 1}))
		assert.Equal(o, []batch.ID{s[0].ID}, names(operator.SearchQuery{Filter: operator.Filter{States: []batch.State{batch.Submitting}}}))
		assert.Equal(o, []batch.ID{s[0].ID}, names(operator.SearchQuery{Filter: operator.Filter{Causes: []batch.Cause{batch.CauseClaimed}}}))
		assert.Empty(o, names(operator.SearchQuery{Filter: operator.Filter{Kinds: []batch.ErrorKind{batch.KindInvalid}}}))
		traced := newBatch("t", "traced")
		traced.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		o.add(traced)
		for trace, want := range map[string][]batch.Record{
			"4bf92f3577b34da6a3ce929d0e0e4736": {o.readRecord(traced)}, "4BF92F3577B34DA6A3CE929D0E0E4736": {o.readRecord(traced)}, "00f067aa0ba902b700f067aa0ba902b7": {},
		} {
			assert.Equal(o, want, search(operator.SearchQuery{Trace: trace}).Batches)
		}
		for _, bad := range []string{"4bf9", "4bf92f3577b34da6a3ce929d0e0e473x", traced.TraceParent} {
			_, err := o.Search(o.ctx(), operator.SearchQuery{Trace: bad})
			require.ErrorIs(o, err, batch.ErrInvalidInput)
		}
		service := batch.ServiceID("s")
		behind := search(operator.SearchQuery{Filter: operator.Filter{Service: &service, Causes: []batch.Cause{batch.CauseBehind}}})
		assert.Len(o, behind.Batches, 2)
		assert.Equal(o, 3, behind.Examined)

		some := search(operator.SearchQuery{Limit: 7})
		assert.Len(o, some.Batches, 7)
		assert.True(o, some.Incomplete)
		assert.Empty(o, search(operator.SearchQuery{Filter: operator.Filter{Quarantined: true}}).Batches)
		o.recordEnds(store.Unposted, claimed...)
	})
}

// slowPageStore is a store that takes a second for each page.
type slowPageStore struct{ store.Store }

func (s slowPageStore) List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.List(ctx, q)
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// A search that reaches its time limit returns what it has found, and says that this is not
// everything.
func TestSearchEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		all := make([]batch.Batch, 5000)
		for i := range all {
			all[i] = newBatch("s", batch.ID(string(rune('a'+i%26))+time.Duration(i).String()))
		}
		require.NoError(t, st.Add(t.Context(), all...))
		desk, err := operator.New(slowPageStore{st})
		require.NoError(t, err)
		begin := time.Now()
		got, err := desk.Search(t.Context(), operator.SearchQuery{Attempts: 1, Within: 2500 * time.Millisecond})
		require.NoError(t, err)
		assert.True(t, got.Incomplete)
		assert.Equal(t, 2000, got.Examined)
		assert.Equal(t, 2500*time.Millisecond, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = desk.Search(ctx, operator.SearchQuery{})
		require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own time is an error")
	})
}
