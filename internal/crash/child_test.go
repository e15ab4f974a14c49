package crash

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// killWindow is a part of the child's work in which the parent lets the child die.
type killWindow string

const (
	duringAdd    killWindow = "inside Add"
	afterClaim   killWindow = "after a claim commits"
	duringPost   killWindow = "mid-POST"
	afterReply   killWindow = "after the reply, before the record"
	duringRecord killWindow = "mid-record"
	noWindow     killWindow = "" // the child runs until everything is final
)

var killWindows = []killWindow{duringAdd, afterClaim, duringPost, afterReply, duringRecord}

// childJob is the configuration of a child, as JSON in its environment.
type childJob struct {
	DB      string
	URL     string
	Kind    string // the kind of ledger: "sawtooth", "sawtooth lists", "splinter" or "unforgiving"
	Batches string // the path of a file of the batches to add, in order

	Parallel            bool // true for queuer.Parallel instead of queuer.Serial
	Pipelined           int  // n for queuer.Pipelined(n), unless it is 0
	FirstUnacknowledged int  // the index of the first batch that is not acknowledged
	BatchesPerCall      int  // the number of batches added in one call
	AddCalls            int  // the number of calls that add batches
	KillWindow          killWindow
	KillAtNth           int64  // the child dies the n-th time that it reaches the window
	FaultSeed           uint64 // the seed by which one statement in ten fails; 0 means that none does
}

const jobVariable = "DLTBATCH_CRASH_JOB"

// These times are short, so that a claim of a dead child expires soon.
const (
	requestTimeout = 250 * time.Millisecond
	claimTTL       = 500 * time.Millisecond
	stuckAfter     = 30 * time.Second
)

// killer ends the process, as kill -9 does, once the process has reached a window often enough.
type killer struct {
	job          childJob
	reachedCount atomic.Int64
	faults       *flaky.Faults
	storeWindow  atomic.Value // the window that the store is in
}

func (k *killer) dieIfReached(w killWindow) {
	if w != noWindow && w == k.job.KillWindow && k.reachedCount.Add(1) == k.job.KillAtNth {
		fmt.Println("killed", w)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // waits until the signal arrives
	}
}

// inWindow runs a call of the store and marks its window, so that the database's hook knows the
// window.
func (k *killer) inWindow(w killWindow, f func() error) error {
	k.storeWindow.Store(w)
	defer k.storeWindow.Store(noWindow)
	return f()
}

func (k *killer) openDB() (*sql.DB, error) {
	k.storeWindow.Store(noWindow)
	sql.Register("sqlite3_killer", &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterUpdateHook(func(int, string, string, int64) { k.dieIfReached(k.storeWindow.Load().(killWindow)) })
		c.RegisterCommitHook(func() int { k.dieIfReached(k.storeWindow.Load().(killWindow)); return 0 })
		return nil
	}})
	return k.faults.Open("sqlite3_killer", "file:"+k.job.DB+"?_journal_mode=WAL&_busy_timeout=5000&_synchronous=FULL&_txlock=immediate&_foreign_keys=on")
}

// killerStore is a store that kills the process in the windows of its calls.
type killerStore struct {
	*sqlite.Store
	killer *killer
}

func (s killerStore) Add(ctx context.Context, batches ...batch.Batch) error {
	return s.killer.inWindow(duringAdd, func() error { return s.Store.Add(ctx, batches...) })
}

func (s killerStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	c, err := s.Store.Claim(ctx, q, choose)
	if err == nil && len(c.Runs) > 0 {
		s.killer.dieIfReached(afterClaim)
	}
	return c, err
}

func (s killerStore) Record(ctx context.Context, outcomes []store.Outcome) (applied []store.Applied, err error) {
	err = s.killer.inWindow(duringRecord, func() error {
		applied, err = s.Store.Record(ctx, outcomes)
		return err
	})
	return applied, err
}

// killingHooks returns hooks that kill the process while a request is on the wire, or right after
// the reply.
func killingHooks(k *killer) hooked.Hooks {
	traced := func(ctx context.Context) context.Context {
		return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn:      func(httptrace.GotConnInfo) { k.dieIfReached(duringPost) },
			WroteRequest: func(httptrace.WroteRequestInfo) { k.dieIfReached(duringPost) },
		})
	}
	return hooked.Hooks{
		Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			err := next(traced(ctx), a)
			k.dieIfReached(afterReply)
			return err
		},
		SubmitList: func(ctx context.Context, as []batch.Attempt, next func(context.Context, []batch.Attempt) error) error {
			err := next(traced(ctx), as)
			k.dieIfReached(afterReply)
			return err
		},
	}
}

// runChild is the main func of the process that is killed.
func runChild(text string) error {
	var k killer
	if err := json.Unmarshal([]byte(text), &k.job); err != nil {
		return err
	}
	k.faults = flaky.New(k.job.FaultSeed+uint64(k.job.FirstUnacknowledged), 10) // calm, so that no statement fails yet
	db, err := k.openDB()
	if err != nil {
		return err
	}
	defer db.Close()
	inner, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := inner.Migrate(ctx); err != nil {
		return err
	}
	ledger, err := k.ledger(inner)
	if err != nil {
		return err
	}
	strategy := queuer.Serial()
	if k.job.Parallel {
		strategy = queuer.Parallel(0)
	}
	if k.job.Pipelined > 0 {
		strategy = queuer.Pipelined(k.job.Pipelined)
	}
	hooks := killingHooks(&k)
	if k.job.Kind != "sawtooth lists" {
		hooks.Traits = func(s batch.ServiceID, next func(batch.ServiceID) dlt.Traits) dlt.Traits {
			t := next(s)
			t.MaxList = 0
			return t
		}
	}
	ledger = hooked.Wrap(ledger, hooks)
	runner, err := dltbatch.New(killerStore{inner, &k}, ledger, &dltbatch.Options{
		RequestTimeout: requestTimeout, ClaimTTL: claimTTL, PollInterval: 50 * time.Millisecond,
		ScanInterval: 50 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 50 * time.Millisecond, QuickRetryPause: 20 * time.Millisecond},
		Drain: time.Second, StuckAfter: stuckAfter, Strategy: strategy,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()

	for k.job.FaultSeed != 0 && !runner.Health().Running && len(ended) == 0 { // the Runner does not repeat its first read of the store
		time.Sleep(time.Millisecond)
	}
	k.faults.SetCalm(k.job.FaultSeed == 0)

	batches, err := readBatches(k.job.Batches)
	if err != nil {
		return err
	}
	for group := range slices.Chunk(batches[k.job.FirstUnacknowledged:min(len(batches), k.job.FirstUnacknowledged+k.job.AddCalls*k.job.BatchesPerCall)], k.job.BatchesPerCall) {
		if err := retryOnFault(func() error { return runner.Add(ctx, group...) }); err != nil {
			return err
		}
		k.job.FirstUnacknowledged += len(group)
		fmt.Println("acked", k.job.FirstUnacknowledged-1)
	}
	if err := retryOnFault(func() error { return runner.Idle(ctx) }); err != nil {
		return err
	}
	k.faults.SetCalm(true)
	stop()
	return <-ended
}

func (k *killer) ledger(journal dlt.Journal) (dlt.Ledger, error) {
	switch k.job.Kind {
	case "sawtooth", "sawtooth lists":
		o := sawtooth.Options{
			Grace: 300 * time.Millisecond, ResendQuiet: 700 * time.Millisecond, Settle: 100 * time.Millisecond,
			SingleValidator: k.job.Pipelined > 0,
		}
		if k.job.Kind == "sawtooth" {
			o.MaxList = 1
		}
		return sawtooth.New(k.job.URL, &o)
	case "splinter":
		return splinter.New(k.job.URL, &splinter.Options{
			LateArrival: scabbardLate, CoordinatorTimeout: 100 * time.Millisecond, Journal: journal,
			ClockMargin: 100 * time.Millisecond, ProbeInterval: 50 * time.Millisecond, StreamLease: 400 * time.Millisecond,
		})
	}
	return &wireLedger{url: k.job.URL, client: &http.Client{}}, nil
}
