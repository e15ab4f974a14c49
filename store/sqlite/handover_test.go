package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// waitForWriters waits until n writers wait for their turn.
func waitForWriters(t *testing.T, s *Store, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.handover.mu.Lock()
		defer s.handover.mu.Unlock()
		return s.handover.waitingWriters == n
	}, 10*time.Second, time.Millisecond)
}

// Writers that wait for each other use the same connection, and the last of them returns it to the
// pool.
func TestWritersShareAConnection(t *testing.T) {
	s, _, _ := newTestStore(t)
	var used []*session
	var g errgroup.Group
	begun, goOn := make(chan struct{}), make(chan struct{})
	write := func(do func()) {
		g.Go(func() error {
			return s.write(t.Context(), "test", func(_ context.Context, x *session) error {
				used = append(used, x)
				do()
				return nil
			})
		})
	}
	write(func() { close(begun); <-goOn })
	<-begun
	write(func() {})
	write(func() {})
	waitForWriters(t, s, 2)
	close(goOn)
	require.NoError(t, g.Wait())
	require.Len(t, used, 3)
	assert.Same(t, used[0], used[1])
	assert.Same(t, used[0], used[2])
	assert.Zero(t, s.db.Stats().InUse)
}

// A writer that failed or panicked passes its connection to no other writer, and its work is
// undone.
func TestFailedWriterLeavesNothing(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no") },
		"panic": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newTestStore(t)
			var first, second *session
			var g errgroup.Group
			begun, goOn := make(chan struct{}), make(chan struct{})
			g.Go(func() error {
				defer func() { _ = recover() }()
				_ = s.write(t.Context(), "test", func(ctx context.Context, x *session) error {
					first = x
					if _, err := x.Exec(ctx, `INSERT INTO dltbatch_texts (kind, name, version, begun_at, changed_at, body) VALUES ('ledger', '', 1, 1, 1, ?)`, "wrong"); err != nil {
						return err
					}
					close(begun)
					<-goOn
					return fail()
				})
				return nil
			})
			<-begun
			g.Go(func() error {
				return s.write(t.Context(), "test", func(context.Context, *session) error { return nil })
			})
			g.Go(func() error {
				return s.write(t.Context(), "test", func(_ context.Context, x *session) error { second = x; return nil })
			})
			waitForWriters(t, s, 2)
			close(goOn)
			require.NoError(t, g.Wait())
			assert.NotSame(t, first, second)
			name, err := texts.Ledger(t.Context(), s, "")
			require.NoError(t, err)
			assert.Empty(t, name)
			assert.Zero(t, s.db.Stats().InUse)
		})
	}
}

// A connection that was left to a writer that no longer waits returns to the pool.
func TestWriterForgoesItsTurn(t *testing.T) {
	s, _, _ := newTestStore(t)
	w, err := s.takeTurn(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() { gone <- s.Add(ctx, newBatch("a", 1)) }()
	waitForWriters(t, s, 1)
	require.True(t, s.handover.pass(w), "it is left before the turn ends")
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	assert.Zero(t, s.db.Stats().InUse)
	<-s.writer
	require.NoError(t, s.Add(t.Context(), newBatch("a", 2)))
}

// If no connection is free, writers that follow each other without a pause do not keep the last
// connection from callers that wait for one.
func TestLastConnectionIsShared(t *testing.T) {
	for name, conns := range map[string]int{"the only one": 1, "the others are held": 3} {
		t.Run(name, func(t *testing.T) {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "q.db"))
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			db.SetMaxOpenConns(conns)
			s, err := New(db, nil)
			require.NoError(t, err)
			require.NoError(t, s.Migrate(t.Context()))
			for range conns - 1 {
				held, err := db.Conn(t.Context())
				require.NoError(t, err)
				defer func() { require.NoError(t, held.Close()) }()
			}
			w, err := s.takeTurn(t.Context())
			require.NoError(t, err)
			added := make(chan error, 1)
			go func() { added <- s.Add(t.Context(), newBatch("a", 1)) }()
			waitForWriters(t, s, 1)
			s.endTurn(w, true)
			require.NoError(t, <-added)
			assert.Zero(t, w.timesLeft, "it went back to the pool")
			assert.Equal(t, conns-1, db.Stats().InUse)
		})
	}
}

// Writers that follow each other without a pause get an error once the pool is closed.
func TestWritersEndWithThePool(t *testing.T) {
	s, _, _ := newTestStore(t)
	const writers = 4
	var ready atomic.Int64
	ended := make(chan error, writers)
	for range writers {
		go func() {
			var err error
			for i := 0; i < 20*maxTimesLeft && err == nil; i++ {
				err = s.write(t.Context(), "test", func(context.Context, *session) error { return nil })
				if i == 0 && ready.Add(1) == writers {
					_ = s.db.Close() // the other writers get the error that the test checks
				}
			}
			ended <- err
		}()
	}
	for range writers {
		assert.Error(t, <-ended)
	}
}

// Migrate, which takes a connection from the pool, first returns the connection that was left to
// it.
func TestMigrateGivesBackWhatWasLeft(t *testing.T) {
	s, _, _ := newTestStore(t)
	s.db.SetMaxOpenConns(1)
	w, err := s.takeTurn(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	migrated := make(chan error, 1)
	go func() { migrated <- s.Migrate(ctx) }()
	waitForWriters(t, s, 1)
	require.True(t, s.handover.pass(w), "it is left before the turn ends")
	<-s.writer
	require.NoError(t, <-migrated)
	assert.Zero(t, s.db.Stats().InUse)
}
