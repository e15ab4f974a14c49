package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/store"
)

// claimTask is one claim from several lanes, and its result. A claim that fails is repeated from
// halves of its lanes.
type claimTask struct {
	room         int               // the most batches that it may claim
	roomLeft     int               // the part of room that is not used yet
	err          error             // the last failure
	failedLanes  int               // claims of single lanes that failed in a row
	hasSucceeded bool              // whether a claim of some of the lanes succeeded
	failedLane   batch.ServiceID   // the last lane that failed alone
	heldLanes    []batch.ServiceID // lanes that fail although the store works
	strategyErrs []strategyError
}

// strategyError is a strategy's bad answer about a lane, or its panic.
type strategyError struct {
	service batch.ServiceID
	err     error
}

// strategyErrors keeps bad answers until the claims have ended. The strategy is called within the
// claiming transaction, where Held must not be called: in Held the application may call the store,
// and would wait for this claim. Claims that are under way together share one strategyErrors.
type strategyErrors struct {
	mu  sync.Mutex
	all []strategyError
}

func (b *strategyErrors) add(s batch.ServiceID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, strategyError{s, err})
}

// take removes and returns the answers.
func (b *strategyErrors) take() (all []strategyError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.all = b.all, nil
	return all
}

// maxTasks is how many claims may be under way at once, on different lanes: while the database
// works on one, the answer to the other is on its way. With two, Serial over 100 lanes (mode
// order) posts a lane's next batch after 0.8 of the time, at 1.1 times the CPU. The second claim
// waits for room of an eighth of a claim, which takes 0.83 of the statements for each batch with
// Pipelined(32).
const maxTasks = 2

// maxFailedLanes is the number of single lanes that fail in a row from which on the store counts
// as failing, and not the lanes: TestAStoreThatIsDownIsLeftAlone counts the claims.
const maxFailedLanes = 3

// heldAfter is the pause from which on a lane's failures are reported as the lane's own: a store
// that fails only sometimes has recovered before.
const heldAfter = time.Second

// claimer makes the claims. Several claims are under way at once.
type claimer struct {
	store         Store
	submitter     Submitter
	options       *Options
	lanes         *lanes.Table
	strategyErrs  *strategyErrors // the errors that choose adds
	choose        store.Choose
	wantedBatches func(batch.Lane) int
	// oneRun is true if no other batch of a lane may be sent while a run of it is under way:
	// [queuer.Strategy.OneRun].
	oneRun bool
}

// claimInHalves claims from lanes together and, if that fails, from their halves, until a lane
// that the store cannot read is alone and delays only itself.
func (c *claimer) claimInHalves(ctx context.Context, lanes []batch.ServiceID, f *claimTask) {
	if f.failedLanes >= maxFailedLanes || f.roomLeft <= 0 {
		c.lanes.Back(time.Now(), lanes...)
		return
	}
	took, err := c.claim(ctx, lanes, f.roomLeft)
	f.roomLeft -= took
	if err == nil {
		f.failedLanes, f.hasSucceeded = 0, true
		c.lanes.Done(lanes...)
		return
	}
	f.err = err
	if len(lanes) > 1 && !errors.Is(err, errNotLoaded) && !errors.Is(err, errTooLate) {
		half := len(lanes) / 2
		c.claimInHalves(ctx, lanes[:half], f)
		c.claimInHalves(ctx, lanes[half:], f)
		return
	}
	f.failedLanes, f.failedLane = f.failedLanes+1, lanes[0]
	for _, s := range lanes {
		if c.lanes.Failed(s) >= heldAfter {
			f.heldLanes = append(f.heldLanes, s)
		}
	}
}

// claim claims from the lanes and gives the runs to the submitter. It computes until from a time
// before the claim, on this process's monotonic clock, so that no request outlives its claim, even
// if the database's clock jumps. It returns how many batches it gave. After an error, batches that
// were claimed are being put back.
func (c *claimer) claim(ctx context.Context, lanes []batch.ServiceID, room int) (took int, err error) {
	began := time.Now()
	until := began.Add(c.options.Query.TTL - c.options.Margin)
	// A stop does not cut a claim short: its batches would be unknown, and would wait for the
	// claim's expiry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.Query.TTL/4)
	defer cancel()
	reads := make([]laneRead, 0, len(lanes))
	query := c.options.Query
	query.Lanes, query.Limit, query.Bytes, query.Wants, query.Salt = lanes, room, c.bytesShare(), c.wantedBatches, rand.Uint32()
	claimed, err := c.store.Claim(ctx, query, func(lane batch.Lane) []batch.Run {
		waits := slices.ContainsFunc(lane.Batches, func(b batch.LaneBatch) bool { return b.State.Claimable() && !b.Ready })
		reads = append(reads, laneRead{lane.Service, len(lane.Batches), waits})
		return c.choose(lane)
	})
	if err != nil {
		// The claim may be committed nevertheless. No other process knows of its batches, and none
		// posts them. So they are put back by version, which shows whether they were claimed.
		c.putBack(claimed.Runs)
		return 0, fmt.Errorf("claim: %w", err)
	}
	c.noteLanes(claimed, reads, began) // before one of the batches can be final
	return c.handOver(ctx, claimed, until)
}

// bytesShare returns how many bytes of payloads one more claim may take.
func (c *claimer) bytesShare() int {
	if c.options.MaxBytes == nil {
		return 0
	}
	n := c.options.MaxBytes()
	if n > 0 {
		n = max(1, n/maxTasks)
	}
	return n
}

// laneRead has the facts that one claim read about a lane.
type laneRead struct {
	service     batch.ServiceID
	openBatches int  // open batches
	hasUnready  bool // whether a batch waits that is not ready yet
}

// restPerBatch is how long a lane rests for each open batch that a claim has read: a lane of a
// thousand open batches is read a hundred times a second at most. Without this rest, 930 batches
// were read for each that was sent, because each batch that becomes final, is added, or is left
// out by a limit names the lane.
const restPerBatch = 10 * time.Microsecond

// lockedPause is how long a lane waits that another instance had locked: about half of the time
// that a claim takes (docs/performance-appendix.md#modes-that-are-gone). Without it the queuer
// would claim in a tight loop until the other claim ends.
const lockedPause = 5 * time.Millisecond

// noteLanes writes the facts that a claim has read about its lanes into the table.
func (c *claimer) noteLanes(claimed store.Claimed, reads []laneRead, began time.Time) {
	now := time.Now()
	var waiting []batch.ServiceID
	for _, l := range reads {
		c.lanes.Rest(l.service, now.Add(time.Duration(l.openBatches)*restPerBatch))
		if l.hasUnready {
			waiting = append(waiting, l.service)
		}
	}
	if c.oneRun {
		for _, r := range claimed.Runs {
			// This rest takes 0.86 of the CPU at half of the full rate over 100 lanes, and 0.67 of
			// the time to the next POST (docs/performance-appendix.md).
			c.lanes.RunBegan(r.Service, began.Add(c.options.BusyRest))
		}
	}
	c.lanes.Name(now.Add(lockedPause), claimed.Locked...)
	// The lanes that the limit left out come first, because a lane with many ready batches would
	// otherwise use up every claim.
	served := make(map[batch.ServiceID]bool, len(claimed.Runs))
	for _, r := range claimed.Runs {
		served[r.Service] = true
	}
	var cut []batch.ServiceID
	for _, s := range claimed.Left {
		if served[s] {
			cut = append(cut, s)
		} else {
			c.lanes.Name(now, s)
		}
	}
	c.lanes.Name(now, cut...)
	if claimed.NextReady > 0 {
		c.lanes.Name(now.Add(max(claimed.NextReady, c.waitingLanesPause(len(waiting)))), waiting...)
	}
}

// waitingLanesPause returns the least time for which n waiting lanes are left alone. NextReady is
// the time of the first lane only. With this pause the n lanes are read again as often as scans
// read them: for a hundred lanes 7,600 reads a minute, instead of 6,000,000 at each NextReady
// (TestManyWaitingLanesCostNoMoreThanAScan).
func (c *claimer) waitingLanesPause(n int) time.Duration {
	_, others := c.lanes.Waiting()
	return c.options.ScanInterval * time.Duration(n+others) / time.Duration(max(1, c.options.LanesPerScan))
}
