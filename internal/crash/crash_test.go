package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/ordercrash"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var (
	killsPerWindow = flag.Int("crash.kills", 6, "kills in each window, for each ledger")
	crashSeed      = flag.Uint64("crash.seed", 1, "seed of where exactly the kills fall")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(ordercrash.Variable); text != "" {
		if err := ordercrash.RunWorker(text, openOrders); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Check(m))
}

const laneCount = 5

// TestKillSawtooth kills children that submit to a Sawtooth node.
func TestKillSawtooth(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := sawtoothtest.Start(t, &sawtoothtest.Options{
		BlockInterval: 10 * time.Millisecond, CacheTime: 500 * time.Millisecond,
		Faults: &sawtoothtest.Faults{Seed: *crashSeed, ResetAfter: 0.05, Late: 0.05, MaxLateDelay: 100 * time.Millisecond, FalseInvalid: 0.03},
	})
	batches, want := countingBatches(t, 5**killsPerWindow*3, laneCount, "")
	suite := killChildren(t, childJob{Kind: "sawtooth", URL: node.URL()}, batches, *killsPerWindow)

	require.NoError(t, node.Check(want))
	suite.checkRecords(t)
}

// TestKillUnforgiving kills children that submit to a ledger that executes every duplicate, loses
// replies, and executes requests after their connection has ended.
func TestKillUnforgiving(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	traits := ledgermem.Unforgiving(lateArrival)
	faults := ledgermem.Faults{
		Seed: *crashSeed, LostReply: 0.05, LostRequest: 0.03, Late: 0.07, Busy: 0.03,
		MaxLatency: 10 * time.Millisecond, MaxDelay: lateArrival,
	}
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 10 * time.Millisecond, Fault: faults.Fault})
	server := httptest.NewServer(wireServer(ledger))
	defer server.Close()
	batches := make([]batch.Batch, 5**killsPerWindow*3)
	for i := range batches {
		batches[i] = batch.Batch{
			ID: batch.ID(fmt.Sprintf("b%05d", i)), Service: batch.ServiceID(fmt.Sprint("lane", i%laneCount)),
			Payload: fmt.Appendf(nil, "batch %d", i),
		}
	}
	suite := killChildren(t, childJob{Kind: "unforgiving", URL: server.URL}, batches, *killsPerWindow)

	order := map[batch.ServiceID][]batch.ID{}
	for _, b := range suite.added {
		order[b.Service] = append(order[b.Service], b.ID)
	}
	require.NoError(t, ledger.Verify(order))
	for service, ids := range order {
		require.Equal(t, ids, ledger.Log(service), "everything acknowledged, in order, once")
	}
	suite.checkRecords(t)
}

// killRun is what the parent knows of a run.
type killRun struct {
	file  string
	added []batch.Batch // acknowledged batches, in order
}

// killChildren kills children until every window has had its share of kills, and lets the last
// child finish. The funcs in beside work on the same file all the time.
func killChildren(t *testing.T, j childJob, batches []batch.Batch, kills int, beside ...func(context.Context, *sqlite.Store)) killRun {
	t.Logf("seed %d", *crashSeed)
	rng := rand.New(rand.NewPCG(*crashSeed, 4))
	dir := t.TempDir()
	j.BatchesPerCall = max(1, j.BatchesPerCall)
	j.DB, j.Batches = filepath.Join(dir, "queue.db"), filepath.Join(dir, "batches.json")
	require.NoError(t, writeBatches(j.Batches, batches))
	// The tables are made before the first kill, because the test is about the queue and not about
	// goose.
	db, err := sqliteopen.Open(j.DB)
	require.NoError(t, err)
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	var working sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer func() {
		stop()
		working.Wait()
		require.NoError(t, db.Close())
	}()
	for _, f := range beside {
		working.Go(func() { f(ctx, st) })
	}

	killed := map[killWindow]int{}
	for tries := 0; ; tries++ {
		left := slices.DeleteFunc(slices.Clone(killWindows), func(w killWindow) bool { return killed[w] >= kills })
		if len(left) == 0 {
			break
		}
		require.Less(t, tries, 20*kills, "children end before they are killed: %v", killed)
		j.KillWindow, j.AddCalls = left[rng.IntN(len(left))], 2+rng.IntN(3)
		j.KillAtNth = 1 + rng.Int64N(4)
		if j.KillWindow == duringAdd || j.KillWindow == duringRecord {
			j.KillAtNth = 1 + rng.Int64N(8) // several rows are written in each of these windows
		}
		acked, at := runOneChild(t, j)
		j.FirstUnacknowledged = max(j.FirstUnacknowledged, acked)
		if at != noWindow {
			killed[at]++
		}
		require.LessOrEqual(t, j.FirstUnacknowledged+8*j.BatchesPerCall, len(batches), "more batches are needed: %v", killed)
	}
	j.KillWindow, j.AddCalls = noWindow, len(batches) // the rest is delivered without a kill
	acked, at := runOneChild(t, j)
	require.Equal(t, noWindow, at)
	require.Equal(t, len(batches), acked)
	total := 0
	for _, w := range killWindows {
		t.Logf("%3d killed %s", killed[w], w)
		total += killed[w]
	}
	t.Logf("%3d killed; %d batches acknowledged", total, acked)
	return killRun{j.DB, batches}
}

// runOneChild runs one child to its end. It returns the number of acknowledged batches so far, and
// the window in which the child was killed.
func runOneChild(t *testing.T, j childJob) (acked int, at killWindow) {
	text, err := json.Marshal(j)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if w, ok := strings.CutPrefix(line, "killed "); ok {
			at = killWindow(w)
			continue
		}
		var i int
		if _, err := fmt.Sscanf(line, "acked %d", &i); err == nil {
			acked = i + 1
		}
	}
	err = cmd.Wait()
	require.NoError(t, ctx.Err(), "a child neither finished nor was killed\n%s", &stderr)
	if at == noWindow {
		require.NoError(t, err, "%s", &stderr)
	}
	return acked, at
}

// checkRecords compares the store with the ledger: every batch is Committed.
func (s killRun) checkRecords(t *testing.T) {
	db, err := sqliteopen.Open(s.file)
	require.NoError(t, err)
	defer db.Close()
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	for _, b := range s.added {
		rec, err := st.Get(t.Context(), b.Key())
		require.NoError(t, err, "acknowledged, and lost")
		require.Equal(t, batch.Committed, rec.State, "%s: %v", b.ID, rec.Error)
	}
}
