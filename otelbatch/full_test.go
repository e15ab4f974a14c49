package otelbatch

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// An Add to a SQLite database that may not grow any more fails, and counts in the series of
// DltbatchWritesFail. Once there is room, everything goes on.
func TestFullDatabase(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1) // the pragma is of a connection
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(ctx))
	b := newBook()
	m, err := NewMetrics(b)
	require.NoError(t, err)
	r, err := m.NewRunner(st, ledgermem.New(nil), nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	add := func(n int) error {
		return r.Add(ctx, batch.Batch{Service: "lane", ID: batch.ID(fmt.Sprint(n)), Payload: make([]byte, 8192)})
	}
	refused := func() int {
		return b.times("dltbatch.store.operation.duration{dltbatch.operation=add,error.type=_OTHER}")
	}
	require.NoError(t, add(0))
	require.NoError(t, r.Idle(ctx))
	require.Zero(t, refused())

	var pages int
	require.NoError(t, db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", n))
		require.NoError(t, err)
	}
	limit(pages + 20)
	n := 0
	for err = nil; err == nil && n < 1000; {
		n++
		err = add(n)
	}
	require.ErrorContains(t, err, "full")
	assert.Equal(t, 1, refused())
	_, err = st.Stats(ctx)
	require.NoError(t, err, "it can be read")

	limit(1 << 30)
	require.NoError(t, add(n))
	ctx2, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.NoError(t, r.Idle(ctx2))
	for i := range n + 1 {
		rec, err := r.Get(ctx, batch.Key{Service: "lane", ID: batch.ID(fmt.Sprint(i))})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	}
	stop()
	require.NoError(t, <-ended)
}
