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

var fullTime = flag.Duration("full.for", 0, "let TestFullDisk stay full for so long, at least 5m, and see which alert fires first, and when")

// fullTest is a measured Runner on a SQLite database.
type fullTest struct {
	*dltbatch.Runner
	db    *sql.DB
	st    *sqlite.Store
	book  *meterBook
	added int // number of batches that were added
}

// newFullTest starts a Runner on a database in the folder dir.
func newFullTest(t *testing.T, dir string) *fullTest {
	t.Helper()
	db, err := sqliteopen.Open(filepath.Join(dir, "queue.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1) // the pragma is set for one connection
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	b := newMeterBook()
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
	f := &fullTest{Runner: r, db: db, st: st, book: b}
	require.NoError(t, f.add(t))
	require.NoError(t, f.Idle(t.Context()))
	require.Zero(t, f.refusedClaimCount())
	return f
}

// add adds a batch of 8 KiB.
func (f *fullTest) add(t *testing.T) error {
	err := f.Add(t.Context(), batch.Batch{Service: "lane", ID: batch.ID(fmt.Sprint(f.added)), Payload: make([]byte, 8192)})
	if err == nil {
		f.added++
	}
	return err
}

// addUntilFull adds batches until the database takes no more.
func (f *fullTest) addUntilFull(t *testing.T) {
	t.Helper()
	var err error
	for err == nil && f.added < 10_000 {
		err = f.add(t)
	}
	require.ErrorContains(t, err, "full")
}

// refusedClaimCount returns how many Adds are counted in the series of the alert
// DltbatchWritesFail.
func (f *fullTest) refusedClaimCount() int {
	return f.book.countOf("dltbatch.store.operation.duration{dltbatch.operation=add,error.type=_OTHER}")
}

// checkRecovery checks that all batches are delivered once there is room, and none is lost.
func (f *fullTest) checkRecovery(t *testing.T) {
	t.Helper()
	require.NoError(t, f.add(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, f.Idle(ctx))
	for i := range f.added {
		rec, err := f.Get(t.Context(), batch.Key{Service: "lane", ID: batch.ID(fmt.Sprint(i))})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	}
}

// An Add to a SQLite database that may not grow any more fails, and is counted in the series of
// the alert DltbatchWritesFail. Once there is room, all goes on.
func TestFullDatabase(t *testing.T) {
	f := newFullTest(t, t.TempDir())
	var pages int
	require.NoError(t, f.db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		_, err := f.db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", n))
		require.NoError(t, err)
	}
	limit(pages + 20)
	f.addUntilFull(t)
	assert.Equal(t, 1, f.refusedClaimCount())
	_, err := texts.Stats(t.Context(), f.st)
	require.NoError(t, err, "it can be read")
	limit(1 << 30)
	f.checkRecovery(t)
}

// The same test on a full disk: a file system of 8 MiB in memory, if the system lets a test mount
// one. Each Add that is tried meanwhile is counted, too, and the database can be read.
func TestFullDisk(t *testing.T) {
	tier.Plain(t)
	dir, resize, err := tmpfs(t, 8<<20)
	if err != nil {
		t.Logf("THE DISK IS NOT STAGED HERE: no tmpfs may be mounted (%v; on Linux it takes root). TestFullDatabase limits the database's pages instead.", err)
		require.Zero(t, *fullTime, "-full.for wants a tmpfs")
		return
	}
	f := newFullTest(t, dir)
	seen := prometheusData{metrics: definitionsByName(t), series: map[string][]string{}}
	if *fullTime > 0 {
		for range 8 { // Prometheus collects from a healthy service
			seen.scrape(t, f.book)
			time.Sleep(scrapeEvery)
		}
	}
	quiet := seen.scrapeCount
	since := time.Now()
	f.addUntilFull(t)
	fillFileSystem(t, dir)
	require.Equal(t, 1, f.refusedClaimCount())
	t.Logf("%d batches of 8 KiB fit; the metric shows the first Add that failed, %s after the first of them", f.added, time.Since(since).Round(time.Millisecond))
	for range 5 {
		require.ErrorContains(t, f.add(t), "full")
	}
	assert.Equal(t, 6, f.refusedClaimCount())
	_, err = texts.Stats(t.Context(), f.st)
	require.NoError(t, err, "it can be read")
	if *fullTime > 0 {
		f.stayFull(t, &seen, quiet)
	}
	require.NoError(t, resize(64<<20))
	f.checkRecovery(t)
}

// stayFull collects while the application goes on trying, and lets promtool find which alert fires
// first.
func (f *fullTest) stayFull(t *testing.T, seen *prometheusData, quiet int) {
	t.Helper()
	for end := time.Now().Add(*fullTime); time.Now().Before(end); {
		seen.scrape(t, f.book)
		for next := time.Now().Add(scrapeEvery); time.Now().Before(next); time.Sleep(time.Second) {
			assert.Error(t, f.add(t))
		}
	}
	used := map[string]bool{}
	for _, r := range alertRules(t) {
		of, _ := namesOfQuery(r.Expr)
		for _, metric := range of {
			used[metric] = true
		}
	}
	c := troubleCases["the disk is full"]
	at := func(times int) string { return (time.Duration(times) * scrapeEvery).String() }
	testRules(t, scrapeEvery.String(), []promGroup{seen.group("the disk is full", used,
		firedTest(at(quiet-1)), firedTest(at(quiet+int((c.alertAfter-time.Minute)/scrapeEvery))), firedTest(at(quiet+int(c.alertAfter/scrapeEvery)), c.alert))})
	t.Logf("%s fired between %s and %s after the disk was full, before every other alert", c.alert, c.alertAfter-time.Minute, c.alertAfter)
}

// fillFileSystem fills a file system to its last byte.
func fillFileSystem(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "full"))
	require.NoError(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, errors.Join(err, file.Close()), syscall.ENOSPC)
}
