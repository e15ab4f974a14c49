package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// A cancelled call does nothing, and leaves no transaction open.
func TestCancelled(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range callsWith(ctx, s) {
		assert.ErrorIs(t, call(), context.Canceled, name)
	}
	require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
	// While another caller writes, a call returns when its own context ends.
	s.writer <- struct{}{}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, s.Add(ctx, newBatch("a", 2)), context.DeadlineExceeded)
	<-s.writer
}

// A long Add stops between two batches when its context ends, and then no batch is stored.
func TestCancelledInTheMiddle(t *testing.T) {
	s, _, _ := newTestStore(t)
	in, err := sqlstore.Prepare([]batch.Batch{newBatch("a", 1), newBatch("a", 2), newBatch("a", 3)})
	require.NoError(t, err)
	asked := 0
	err = s.write(t.Context(), "add", func(ctx context.Context, x *session) error {
		_, err := x.add(ctx, in, func() error {
			if asked++; asked == 2 {
				return context.Canceled
			}
			return nil
		})
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 2, asked)
	found, _, err := s.List(t.Context(), store.ListQuery{})
	require.NoError(t, err)
	assert.Empty(t, found)
}

// While another process writes, a call returns when its context ends, although SQLite goes on
// waiting. The connection that waits is returned to the pool afterwards.
func TestCancelledWhileAnotherProcessWrites(t *testing.T) {
	s, _, path := newTestStore(t) // waits up to 20 s for a writer
	other, err := sqliteopen.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	tx, err := other.Begin()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	assert.ErrorIs(t, s.Add(ctx, newBatch("a", 1)), context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, tx.Rollback())
	require.NoError(t, s.Add(t.Context(), newBatch("a", 2)))
	assert.Zero(t, s.db.Stats().InUse)
	found, _, err := s.List(t.Context(), store.ListQuery{})
	require.NoError(t, err)
	assert.Len(t, found, 1)
}

// A call that is cancelled before its commit is undone.
func TestCancelledBeforeTheCommit(t *testing.T) {
	s, _, _ := newTestStore(t)
	require.NoError(t, s.Add(t.Context(), newBatch("a", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.Claim(ctx, claimQuery("a"), func(l batch.Lane) []batch.Run {
		cancel()
		return chooseSerially(l)
	})
	require.ErrorIs(t, err, context.Canceled)
	rec, err := s.Get(t.Context(), newBatch("a", 1).Key())
	require.NoError(t, err)
	assert.Equal(t, batch.Queued, rec.State)
}
