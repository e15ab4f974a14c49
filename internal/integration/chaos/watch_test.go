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
	mayStand = 3
	allowed  = mayStand*blockEvery + pollInterval
)

// watcher reads the first batch of each lane, and asks Explain why it does not move.
type watcher struct {
	w      *world
	st     *postgres.Store
	runner *dltbatch.Runner // of the parent process; it only explains
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	calmed  bool // the faults are over
	first   map[batch.ServiceID]stand
	longest map[string]string // how long batches stood, by the explanation
	blocks  map[string]uint64
	silent  []string // batches that stood too long without an explanation
	looks   int
}

// stand is a batch that has been first in its lane since a block.
type stand struct {
	key     batch.Key
	version int64
	block   uint64
	at      time.Time
	looks   int
}

func (w *world) watch() *watcher {
	j := job{Ledger: w.kind, URL: w.ledger.said[0], Seed: *chaosSeed}
	ledger, err := j.client()
	require.NoError(w.t, err)
	s := &watcher{w: w, st: w.store(), first: map[batch.ServiceID]stand{}, longest: map[string]string{}, blocks: map[string]uint64{}}
	s.runner, err = dltbatch.New(s.st, ledger, j.options())
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	w.t.Cleanup(func() { stop(); s.done.Wait() })
	s.done.Go(func() {
		for ctx.Err() == nil {
			s.look(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(blockEvery):
			}
		}
	})
	return s
}

// look reads the lanes once. If the database or the node does not answer, this time does not
// count: all batches are counted anew.
func (s *watcher) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	began := time.Now()
	open, _, err := s.st.List(ctx, store.ListQuery{Open: true, Limit: 1000})
	head, bad := s.w.chain().quantity("eth_blockNumber")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || bad != nil || time.Since(began) > time.Second {
		clear(s.first)
		return
	}
	s.looks++
	now := map[batch.ServiceID]stand{}
	at := map[batch.ServiceID]batch.Record{}
	for _, r := range open {
		if was, ok := at[r.Service]; !ok || r.CreatedAt.Before(was.CreatedAt) {
			at[r.Service] = r
		}
	}
	for lane, r := range at {
		was, ok := s.first[lane]
		// After a fault has made the chain shorter, the count begins anew.
		if !ok || was.key != r.Key || was.version != r.Version || head < was.block {
			was = stand{key: r.Key, version: r.Version, block: head, at: began}
		}
		was.looks++
		now[lane] = was
		if head-was.block > mayStand && began.Sub(was.at) > allowed {
			s.explain(ctx, r, was, head)
		}
	}
	s.first = now
}

// explain notes the explanation of a batch that does not move. s.mu is held.
func (s *watcher) explain(ctx context.Context, r batch.Record, was stand, head uint64) {
	e, err := s.runner.Explain(ctx, r.Key)
	if err != nil || e.Version != was.version {
		return // the batch has moved
	}
	what := fmt.Sprintf("%s, %s", e.State, e.Cause)
	if s.calmed {
		what += ", after the faults"
	}
	if n := head - was.block; n > s.blocks[what] {
		s.blocks[what] = n
		s.longest[what] = fmt.Sprintf("%d blocks, %s (%s)", n, time.Since(was.at).Round(time.Millisecond), e.Text)
	}
	// A worker that dies or freezes between its claim and the claim's end, or in the middle of a
	// transaction, delays a lane for the TTL of its claim. So the test fails only after that
	// additional time, and not while a worker or the database suffers a fault. It counts reads,
	// because a busy machine reads less often, too.
	well := s.w.well()
	if late := allowed + claimTTL; well.IsZero() || min(time.Since(well), time.Duration(was.looks)*blockEvery) < late {
		return
	}
	if e.Cause == "" || e.Cause == batch.CauseReady || e.Cause == batch.CauseHeld || e.Cause == batch.CauseDelayed && e.LastError == nil {
		s.silent = append(s.silent, fmt.Sprintf("%s stood for %d blocks, %s: %s", r.Key, head-was.block, time.Since(was.at), e.Text))
	}
}

// calm says that the faults are over: the count of each batch begins anew.
func (s *watcher) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calmed = true
	clear(s.first)
}

// end fails the test for batches that stood too long without an explanation.
func (s *watcher) end() {
	s.stop()
	s.done.Wait()
	for _, what := range slices.Sorted(maps.Keys(s.longest)) {
		s.w.t.Logf("first in its lane and unchanged at most, %s: %s", what, s.longest[what])
	}
	assert.Positive(s.w.t, s.looks)
	assert.Empty(s.w.t, s.silent, "stood still, and nothing said why:\n"+strings.Join(s.silent, "\n"))
}
