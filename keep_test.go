package dltbatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// prepareFirstLedger is a ledger that has to prepare before the first POST.
type prepareFirstLedger struct {
	*ledgermem.Ledger
	store *slowKeepStore
	t     *testing.T
}

func (p prepareFirstLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := p.Ledger.Traits(s)
	t.Prepares = true
	return t
}

func (prepareFirstLedger) Prepare(_ context.Context, b batch.Attempt) ([]byte, error) {
	return []byte(b.ID), nil
}

func (p prepareFirstLedger) Submit(ctx context.Context, a batch.Attempt) error {
	p.store.mu.Lock()
	assert.Equal(p.t, string(a.ID), string(p.store.kept[a.ID]), "nothing is posted before it is kept")
	p.store.mu.Unlock()
	assert.Equal(p.t, string(a.ID), string(a.Prepared))
	return p.Ledger.Submit(ctx, a)
}

// slowKeepStore is a store whose KeepPrepared is slow.
type slowKeepStore struct {
	*memory.Store
	mu     sync.Mutex
	writes int
	kept   map[batch.ID][]byte
}

func (k *slowKeepStore) KeepPrepared(ctx context.Context, p []store.Prepared) ([]bool, error) {
	time.Sleep(5 * time.Millisecond)
	did, err := k.Store.KeepPrepared(ctx, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	for i := range did {
		k.kept[p[i].Key.ID] = p[i].Bytes
	}
	return did, err
}

// The prepared data of many first POSTs is kept in few writes, each before its POSTs.
func TestFirstPostsShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		st := &slowKeepStore{Store: memory.New(), kept: map[batch.ID][]byte{}}
		r, err := dltbatch.New(st, prepareFirstLedger{ledgermem.New(nil), st, t}, nil)
		require.NoError(t, err)
		var batches []batch.Batch
		for i := range n {
			id := fmt.Sprintf("b%03d", i)
			batches = append(batches, batch.Batch{ID: batch.ID(id), Service: batch.ServiceID(id), Payload: []byte(id)})
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Idle(t.Context()))
		stop()
		require.NoError(t, <-done)
		assert.Len(t, st.kept, n)
		assert.Less(t, st.writes, n/8)
		t.Log(st.writes, "writes")
	})
}
