package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
)

// holdReader begins a transaction that has read, on a connection of its own, as a report or a
// backup does. release ends it.
func holdReader(t testing.TB, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_query_only=1")
	require.NoError(t, err)
	tx, err := db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	var n int
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM dltbatch_texts").Scan(&n))
	return sync.OnceFunc(func() {
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.Close())
	})
}

// newWarningStore returns a store on a new file that warns of a log of 1 MiB.
func newWarningStore(t testing.TB) (*Store, string) {
	t.Helper()
	_, c, path := newTestStore(t)
	s, err := New(openClock(t, path, c), &Options{AllowNormal: true, LogWarning: 1 << 20})
	require.NoError(t, err)
	return s, path
}

// largeBatch returns a batch that grows the log by half of that limit.
func largeBatch(n int) batch.Batch {
	b := newBatch("large", n)
	b.Payload = make([]byte, 1<<19)
	return b
}

func logBytes(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	return info.Size()
}

// While a reader stays open the log grows, and Upkeep warns. After the reader has ended, the log's
// file becomes small again, the warning ends, and nothing is lost.
func TestTheLogShrinksWhenTheReaderHasGone(t *testing.T) {
	s, path := newWarningStore(t)
	ctx := t.Context()
	look := func() []store.Warning {
		warnings, err := s.Upkeep(ctx)
		require.NoError(t, err)
		return warnings
	}
	for round := range 2 { // the warning may begin again after it has ended
		release := holdReader(t, path)
		defer release()
		assert.Empty(t, look())
		for i := range 4 {
			require.NoError(t, s.Add(ctx, largeBatch(10*round+i)))
		}
		size := logBytes(t, path)
		require.Greater(t, size, int64(1<<20))
		for range 2 {
			got := look()
			require.Len(t, got, 1)
			var logErr *LogError
			require.ErrorAs(t, got[0].Err, &logErr)
			assert.Equal(t, LogError{Path: path + "-wal", Size: size, Limit: 1 << 20}, *logErr)
			assert.Equal(t, size, logBytes(t, path), "somebody reads what is in it")
		}
		require.NoError(t, s.Add(ctx, largeBatch(10*round+4)), "who writes is not kept from it")
		release()
		assert.Empty(t, look())
		assert.Less(t, logBytes(t, path), int64(1<<19))
	}
	for round := range 2 {
		for i := range 5 {
			got, err := s.Payloads(ctx, []store.Ref{{Key: largeBatch(10*round + i).Key()}})
			require.NoError(t, err)
			assert.Len(t, got[0], 1<<19)
		}
	}
	// No connection keeps the timeout of 0 that cutLog sets.
	var conns []*sql.Conn
	for range 4 {
		c, err := s.db.Conn(ctx)
		require.NoError(t, err)
		conns = append(conns, c)
		var busy int
		require.NoError(t, c.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy))
		assert.Equal(t, 20000, busy)
	}
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
}

// Upkeep does not truncate a small log.
func TestASmallLogIsLeftAlone(t *testing.T) {
	s, path := newWarningStore(t)
	b := newBatch("small", 1)
	b.Payload = make([]byte, 1<<18)
	require.NoError(t, s.Add(t.Context(), b))
	size := logBytes(t, path)
	require.Positive(t, size)
	_, err := s.Upkeep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, size, logBytes(t, path))
}

// upkeepSoon requires that Upkeep waits for no reader and no writer: the connections' busy_timeout
// is 20 s.
func upkeepSoon(t *testing.T, s *Store) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Upkeep(t.Context())
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(15 * time.Second):
		t.Error("it waits for somebody")
	}
}

// If a reader began after everything was copied, the file cannot be truncated. Upkeep does not
// wait for that reader, and does not wait with the lock that other writers need.
func TestCuttingTheLogWaitsForNobody(t *testing.T) {
	s, path := newWarningStore(t)
	ctx := t.Context()
	early := holdReader(t, path)
	for i := range 3 {
		require.NoError(t, s.Add(ctx, largeBatch(i)))
	}
	late := holdReader(t, path) // reads the whole log, and needs it
	early()
	upkeepSoon(t, s)
	assert.Greater(t, logBytes(t, path), int64(1<<20))
	late()
	warnings, err := s.Upkeep(ctx)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Less(t, logBytes(t, path), int64(1<<19))
}

// If an application's transaction holds the lock with which the log is truncated, Upkeep truncates
// it another time.
func TestCuttingTheLogBesideAWriter(t *testing.T) {
	s, path := newWarningStore(t)
	ctx := t.Context()
	for i := range 3 {
		release := holdReader(t, path)
		require.NoError(t, s.Add(ctx, largeBatch(i)))
		release()
	}
	tx, err := s.db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, s.Tx(tx).Add(ctx, newBatch("tx", 99)))
	upkeepSoon(t, s)
	require.NoError(t, tx.Commit())
}

// Options.LogWarning has a range and a default.
func TestLogWarning(t *testing.T) {
	_, c, path := newTestStore(t)
	for limit, want := range map[int64]int64{0: DefaultLogWarning, 1 << 20: 1 << 20, 1 << 40: 1 << 40, -1: -1} {
		s, err := New(openClock(t, path, c), &Options{AllowNormal: true, LogWarning: limit})
		require.NoError(t, err)
		assert.Equal(t, want, s.logWarning)
	}
	var inputErr *batch.InputError
	_, err := New(openClock(t, path, c), &Options{AllowNormal: true, LogWarning: 1<<20 - 1})
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "LogWarning", inputErr.Field)
	assert.Equal(t, "1048575", inputErr.Value)

	s, err := New(openClock(t, path, c), &Options{AllowNormal: true, LogWarning: -1})
	require.NoError(t, err)
	defer holdReader(t, path)()
	for i := range 4 {
		require.NoError(t, s.Add(t.Context(), largeBatch(i)))
	}
	warnings, err := s.Upkeep(t.Context())
	require.NoError(t, err)
	assert.Empty(t, warnings, "never")
}

// A database in memory has no log.
func TestNoLogInMemory(t *testing.T) {
	db, err := sql.Open("sqlite3", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	s, err := New(db, nil)
	require.NoError(t, err)
	warnings, err := s.Upkeep(t.Context())
	require.NoError(t, err)
	assert.Empty(t, warnings)
}

// A Runner reports a large log once, and reports nothing after the log is small again.
func TestARunnerReportsALargeLog(t *testing.T) {
	s, path := newWarningStore(t)
	told := make(chan error, 100)
	r, err := dltbatch.New(s, ledgermem.New(nil), &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		if e.Kind == batch.EventTrouble {
			told <- e.Err
		}
	})})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	release := holdReader(t, path)
	defer release()
	for i := range 4 {
		require.NoError(t, r.Add(ctx, largeBatch(i)))
	}
	var logErr *LogError
	require.ErrorAs(t, <-told, &logErr)
	assert.GreaterOrEqual(t, logErr.Size, logErr.Limit)
	require.Eventually(t, func() bool {
		w := r.Health().Warnings
		return len(w) == 1 && assert.ErrorAs(t, w[0], &logErr)
	}, 20*time.Second, 10*time.Millisecond)
	for i := range 4 {
		_, err := r.Await(ctx, largeBatch(i).Key())
		require.NoError(t, err)
	}
	release()
	require.Eventually(t, func() bool { return len(r.Health().Warnings) == 0 }, 20*time.Second, 10*time.Millisecond)
	assert.Less(t, logBytes(t, path), int64(1<<20))
	stop()
	require.NoError(t, <-ended)
	assert.Empty(t, told, fmt.Sprint("said once, of ", logErr))
}
