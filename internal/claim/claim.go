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

// flight is a claim from lanes, with its parts.
type flight struct {
	room    int               // that it may use
	left    int               // of it
	err     error             // the last failure
	strikes int               // claims of one lane that failed in a row
	went    bool              // a claim went well
	failed  batch.ServiceID   // the lane of the last one of these
	held    []batch.ServiceID // lanes whose failures are their own
	bad     []badAnswer
}

// badAnswer is a strategy's bad answer about a lane, or its panic.
type badAnswer struct {
	service batch.ServiceID
	err     error
}

// badAnswers keeps bad answers until the claims have ended. The strategy is asked inside of the
// claiming transaction, where Held must not be called: the application may call the store in it,
// and would wait for this very claim. Claims that are under way together share it.
type badAnswers struct {
	mu  sync.Mutex
	all []badAnswer
}

func (b *badAnswers) add(s batch.ServiceID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, badAnswer{s, err})
}

// take returns the answers and forgets them.
func (b *badAnswers) take() (all []badAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.all = b.all, nil
	return all
}

// maxFlights is how many claims are under way at once, on different lanes: while the database
// works on one, the answer to the other is on its way. Serial over 100 lanes (mode order) then
// posts a lane's next batch after 0.8 of the time, at 1.1 times the CPU. The second claim waits
// for room of an eighth of a claim, which takes 0.83 of the statements for each batch with
// Pipelined(32).
const maxFlights = 2

// maxStrikes is the number of lanes that fail alone, in a row, from which on the store is at
// fault and not the lanes: TestAStoreThatIsDownIsLeftAlone counts the claims.
const maxStrikes = 3

// heldFrom is the pause from which on a lane's failures are reported as the lane's own: a
// store that fails only now and then recovers before.
const heldFrom = time.Second

// claimer makes the claims; several are under way at once.
type claimer struct {
	store  Store
	sub    Submitter
	o      *Options
	lanes  *lanes.Table
	bad    *badAnswers // of choose
	choose store.Choose
	wants  func(batch.Lane) int
	// single says that no other batch of a lane leaves while a run of it is out:
	// [queuer.Strategy.OneRun].
	single bool
}

// parts claims from lanes together and, where that fails, from their halves, until a lane
// that the store cannot read is alone and keeps only itself waiting.
func (c *claimer) parts(ctx context.Context, lanes []batch.ServiceID, f *flight) {
	if f.strikes >= maxStrikes || f.left <= 0 {
		c.lanes.Back(time.Now(), lanes...)
		return
	}
	took, err := c.claim(ctx, lanes, f.left)
	f.left -= took
	if err == nil {
		f.strikes, f.went = 0, true
		c.lanes.Done(lanes...)
		return
	}
	f.err = err
	if len(lanes) > 1 && !errors.Is(err, errPayloads) && !errors.Is(err, errLate) {
		half := len(lanes) / 2
		c.parts(ctx, lanes[:half], f)
		c.parts(ctx, lanes[half:], f)
		return
	}
	f.strikes, f.failed = f.strikes+1, lanes[0]
	for _, s := range lanes {
		if c.lanes.Failed(s) >= heldFrom {
			f.held = append(f.held, s)
		}
	}
}

// claim claims from the lanes and hands over. It computes until from a time before the claim,
// on this process's monotonic clock, so that no request outlives its claim, even if the
// database's clock jumps. claim returns how many batches it took; after an error these are
// being put back, if there are any.
func (c *claimer) claim(ctx context.Context, lanes []batch.ServiceID, room int) (took int, err error) {
	began := time.Now()
	until := began.Add(c.o.Query.TTL - c.o.Margin)
	// A stop does not cut a claim short: its batches would be unknown, and wait for its
	// expiry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Query.TTL/4)
	defer cancel()
	looks := make([]look, 0, len(lanes))
	query := c.o.Query
	query.Lanes, query.Limit, query.Bytes, query.Wants, query.Salt = lanes, room, c.share(), c.wants, rand.Uint32()
	claimed, err := c.store.Claim(ctx, query, func(lane batch.Lane) []batch.Run {
		waits := slices.ContainsFunc(lane.Batches, func(b batch.Waiting) bool { return b.State.Claimable() && !b.Ready })
		looks = append(looks, look{lane.Service, len(lane.Batches), waits})
		return c.choose(lane)
	})
	if err != nil {
		// The claim may be committed all the same. No other process knows of its batches, and
		// nobody posts them. So they are put back by version, which shows whether they were
		// claimed.
		c.putBack(claimed.Runs)
		return 0, fmt.Errorf("claim: %w", err)
	}
	c.learn(claimed, looks, began) // before one of the batches can be over
	return c.handOver(ctx, claimed, until)
}

// share returns the bytes of payloads that are left to one of the claims under way.
func (c *claimer) share() int {
	if c.o.Bytes == nil {
		return 0
	}
	n := c.o.Bytes()
	if n > 0 {
		n = max(1, n/maxFlights)
	}
	return n
}

// look is what one claim saw of a lane.
type look struct {
	service batch.ServiceID
	read    int  // open batches
	waits   bool // for a batch that is not ready yet
}

// restPerBatch is how long a lane rests for each open batch that a claim has read: a lane of a
// thousand is read a hundred times a second at most. Without it 930 batches were read for each
// that left, because each batch that is final, is added, or is cut off by a limit names the lane.
const restPerBatch = 10 * time.Microsecond

// lockedPause is how long a lane waits that another instance had locked: about half of the time
// that a claim takes (docs/performance-appendix.md#modes-that-are-gone). Without it the queuer
// would spin until the other claim ends.
const lockedPause = 5 * time.Millisecond

// learn notes in the table the facts that a claim has found out about its lanes.
func (c *claimer) learn(claimed store.Claimed, looks []look, began time.Time) {
	now := time.Now()
	var waiting []batch.ServiceID
	for _, l := range looks {
		c.lanes.Rest(l.service, now.Add(time.Duration(l.read)*restPerBatch))
		if l.waits {
			waiting = append(waiting, l.service)
		}
	}
	if c.single {
		for _, r := range claimed.Runs {
			// This takes 0.86 of the CPU at half of the full rate over 100 lanes, and 0.67 of
			// the time to the next POST (docs/performance-appendix.md).
			c.lanes.Out(r.Service, began.Add(c.o.Busy))
		}
	}
	c.lanes.Name(now.Add(lockedPause), claimed.Locked...)
	// The lanes that the limit left out come first: else a lane with many ready batches would use
	// up every claim.
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
		c.lanes.Name(now.Add(max(claimed.NextReady, c.pace(len(waiting)))), waiting...)
	}
}

// pace returns for how long n waiting lanes are left alone at least. NextReady is the time of
// the first lane only, so pace lets all n be looked at again as often as the scans read: of a
// hundred lanes 7,600 reads a minute, 6,000,000 at each NextReady
// (TestManyWaitingLanesCostNoMoreThanAScan).
func (c *claimer) pace(n int) time.Duration {
	_, others := c.lanes.Waiting()
	return c.o.ScanInterval * time.Duration(n+others) / time.Duration(max(1, c.o.ScanLanes))
}
