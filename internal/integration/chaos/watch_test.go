package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// A batch may be first in its lane, unchanged and without a reason, for this many blocks and a
// poll.
const (
	maxStandBlocks   = 3
	allowedStandTime = maxStandBlocks*blockInterval + pollInterval
)

// watcher reads the first batch of each lane, and asks Explain why it does not move.
type watcher struct {
	world  *world
	st     *postgres.Store
	runner *dltbatch.Runner // of the parent process; it only explains
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu           sync.Mutex
	isCalm       bool // the faults are over
	firstBatches map[batch.ServiceID]standingBatch
	standTimes   map[string]string // how long batches stood, by the explanation
	blocks       map[string]uint64
	unexplained  []string // batches that stood too long without an explanation
	lookCount    int
}

// standingBatch is a batch that has been first in its lane since a block.
type standingBatch struct {
	key       batch.Key
	version   int64
	block     uint64
	since     time.Time
	lookCount int
}

func (w *world) watch() *watcher {
	j := childJob{Ledger: w.ledgerKind, URL: w.ledger.firstLine[0], Seed: *chaosSeed}
	ledger, err := j.newClient()
	require.NoError(w.t, err)
	s := &watcher{world: w, st: w.store(), firstBatches: map[batch.ServiceID]standingBatch{}, standTimes: map[string]string{}, blocks: map[string]uint64{}}
	s.runner, err = dltbatch.New(s.st, ledger, j.options())
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	w.t.Cleanup(func() { stop(); s.done.Wait() })
	s.done.Go(func() {
		for ctx.Err() == nil {
			s.readLanes(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(blockInterval):
			}
		}
	})
	return s
}

// readLanes reads the lanes once. If the database or the node does not answer, this time does not
// count: all batches are counted anew.
func (s *watcher) readLanes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	began := time.Now()
	open, _, err := s.st.List(ctx, store.ListQuery{Open: true, Limit: 1000})
	head, bad := s.world.nodeRPC().quantity("eth_blockNumber")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || bad != nil || time.Since(began) > time.Second {
		clear(s.firstBatches)
		return
	}
	s.lookCount++
	now := map[batch.ServiceID]standingBatch{}
	at := map[batch.ServiceID]batch.Record{}
	for _, r := range open {
		if was, ok := at[r.Service]; !ok || r.CreatedAt.Before(was.CreatedAt) {
			at[r.Service] = r
		}
	}
	for lane, r := range at {
		was, ok := s.firstBatches[lane]
		// After a fault has made the chain shorter, the count begins anew.
		if !ok || was.key != r.Key || was.version != r.Version || head < was.block {
			was = standingBatch{key: r.Key, version: r.Version, block: head, since: began}
		}
		was.lookCount++
		now[lane] = was
		if head-was.block > maxStandBlocks && began.Sub(was.since) > allowedStandTime {
			s.noteExplanation(ctx, r, was, head)
		}
	}
	s.firstBatches = now
}

// noteExplanation notes the explanation of a batch that does not move. s.mu is held.
func (s *watcher) noteExplanation(ctx context.Context, r batch.Record, was standingBatch, head uint64) {
	e, err := s.runner.Explain(ctx, r.Key)
	if err != nil || e.Version != was.version {
		return // the batch has moved
	}
	what := fmt.Sprintf("%s, %s", e.State, e.Cause)
	if s.isCalm {
		what += ", after the faults"
	}
	if n := head - was.block; n > s.blocks[what] {
		s.blocks[what] = n
		s.standTimes[what] = fmt.Sprintf("%d blocks, %s (%s)", n, time.Since(was.since).Round(time.Millisecond), e.Text)
	}
	// A worker that dies or freezes between its claim and the claim's end, or in the middle of a
	// transaction, delays a lane for the TTL of its claim. So the test fails only after that
	// additional time, and not while a worker or the database suffers a fault. It counts reads,
	// because a busy machine reads less often, too.
	well := s.world.faultlessSince()
	if late := allowedStandTime + claimTTL; well.IsZero() || min(time.Since(well), time.Duration(was.lookCount)*blockInterval) < late {
		return
	}
	if e.Cause == "" || e.Cause == batch.CauseReady || e.Cause == batch.CauseHeld || e.Cause == batch.CauseDelayed && e.LastError == nil {
		s.unexplained = append(s.unexplained, fmt.Sprintf("%s stood for %d blocks, %s: %s", r.Key, head-was.block, time.Since(was.since), e.Text))
	}
}

// endFaults says that the faults are over: the count of each batch begins anew.
func (s *watcher) endFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isCalm = true
	clear(s.firstBatches)
}

// end fails the test for batches that stood too long without an explanation.
func (s *watcher) end() {
	s.stop()
	s.done.Wait()
	for _, what := range slices.Sorted(maps.Keys(s.standTimes)) {
		s.world.t.Logf("first in its lane and unchanged at most, %s: %s", what, s.standTimes[what])
	}
	assert.Positive(s.world.t, s.lookCount)
	assert.Empty(s.world.t, s.unexplained, "stood still, and nothing said why:\n"+strings.Join(s.unexplained, "\n"))
}
