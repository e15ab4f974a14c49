package otelbatch

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var fullFor = flag.Duration("full.for", 0, "let TestFullDisk stay full for so long, at least 5m, and see which alert fires first, and when")

// fullRig is a measured Runner on a SQLite database.
type fullRig struct {
	*dltbatch.Runner
	db *sql.DB
	st *sqlite.Store
	b  *book
	n  int // number of batches that were added
}

// fill starts a Runner on a database in the folder dir.
func fill(t *testing.T, dir string) *fullRig {
	t.Helper()
	db, err := sqliteopen.Open(filepath.Join(dir, "queue.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1) // the pragma is set for one connection
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	b := newBook()
	m, err := NewMetrics(b)
	require.NoError(t, err)
	r, err := m.NewRunner(st, ledgermem.New(nil), nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	f := &fullRig{Runner: r, db: db, st: st, b: b}
	require.NoError(t, f.add(t))
	require.NoError(t, f.Idle(t.Context()))
	require.Zero(t, f.refused())
	return f
}

// add adds a batch of 8 KiB.
func (f *fullRig) add(t *testing.T) error {
	err := f.Add(t.Context(), batch.Batch{Service: "lane", ID: batch.ID(fmt.Sprint(f.n)), Payload: make([]byte, 8192)})
	if err == nil {
		f.n++
	}
	return err
}

// untilFull adds batches until the database takes no more.
func (f *fullRig) untilFull(t *testing.T) {
	t.Helper()
	var err error
	for err == nil && f.n < 10_000 {
		err = f.add(t)
	}
	require.ErrorContains(t, err, "full")
}

// refused returns how many Adds are counted in the series of the alert DltbatchWritesFail.
func (f *fullRig) refused() int {
	return f.b.times("dltbatch.store.operation.duration{dltbatch.operation=add,error.type=_OTHER}")
}

// goesOn checks that all batches are delivered once there is room, and none is lost.
func (f *fullRig) goesOn(t *testing.T) {
	t.Helper()
	require.NoError(t, f.add(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, f.Idle(ctx))
	for i := range f.n {
		rec, err := f.Get(t.Context(), batch.Key{Service: "lane", ID: batch.ID(fmt.Sprint(i))})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	}
}

// An Add to a SQLite database that may not grow any more fails, and is counted in the series of
// the alert DltbatchWritesFail. Once there is room, all goes on.
func TestFullDatabase(t *testing.T) {
	f := fill(t, t.TempDir())
	var pages int
	require.NoError(t, f.db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		_, err := f.db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", n))
		require.NoError(t, err)
	}
	limit(pages + 20)
	f.untilFull(t)
	assert.Equal(t, 1, f.refused())
	_, err := texts.Stats(t.Context(), f.st)
	require.NoError(t, err, "it can be read")
	limit(1 << 30)
	f.goesOn(t)
}

// The same test on a full disk: a file system of 8 MiB in memory, if the system lets a test mount
// one. Each Add that is tried meanwhile is counted, too, and the database can be read.
func TestFullDisk(t *testing.T) {
	tier.Plain(t)
	dir, resize, err := tmpfs(t, 8<<20)
	if err != nil {
		t.Logf("THE DISK IS NOT STAGED HERE: no tmpfs may be mounted (%v; on Linux it takes root). TestFullDatabase limits the database's pages instead.", err)
		require.Zero(t, *fullFor, "-full.for wants a tmpfs")
		return
	}
	f := fill(t, dir)
	seen := scrapes{metrics: byName(t), series: map[string][]string{}}
	if *fullFor > 0 {
		for range 8 { // Prometheus collects from a healthy service
			seen.take(t, f.b)
			time.Sleep(scrapeEvery)
		}
	}
	quiet := seen.times
	since := time.Now()
	f.untilFull(t)
	eatUp(t, dir)
	require.Equal(t, 1, f.refused())
	t.Logf("%d batches of 8 KiB fit; the metric shows the first Add that failed, %s after the first of them", f.n, time.Since(since).Round(time.Millisecond))
	for range 5 {
		require.ErrorContains(t, f.add(t), "full")
	}
	assert.Equal(t, 6, f.refused())
	_, err = texts.Stats(t.Context(), f.st)
	require.NoError(t, err, "it can be read")
	if *fullFor > 0 {
		f.stayFull(t, &seen, quiet)
	}
	require.NoError(t, resize(64<<20))
	f.goesOn(t)
}

// stayFull collects while the application goes on trying, and lets promtool find which alert fires
// first.
func (f *fullRig) stayFull(t *testing.T, seen *scrapes, quiet int) {
	t.Helper()
	for end := time.Now().Add(*fullFor); time.Now().Before(end); {
		seen.take(t, f.b)
		for next := time.Now().Add(scrapeEvery); time.Now().Before(next); time.Sleep(time.Second) {
			assert.Error(t, f.add(t))
		}
	}
	used := map[string]bool{}
	for _, r := range rules(t) {
		of, _ := names(r.Expr)
		for _, metric := range of {
			used[metric] = true
		}
	}
	c := troubles["the disk is full"]
	at := func(times int) string { return (time.Duration(times) * scrapeEvery).String() }
	testRules(t, scrapeEvery.String(), []promGroup{seen.group("the disk is full", used,
		fired(at(quiet-1)), fired(at(quiet+int((c.after-time.Minute)/scrapeEvery))), fired(at(quiet+int(c.after/scrapeEvery)), c.alert))})
	t.Logf("%s fired between %s and %s after the disk was full, before every other alert", c.alert, c.after-time.Minute, c.after)
}

// eatUp fills a file system to its last byte.
func eatUp(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "full"))
	require.NoError(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, errors.Join(err, file.Close()), syscall.ENOSPC)
}
