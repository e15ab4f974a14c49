package queuer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that the queuer needs.
type Store interface {
	Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error)
	Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error)
	Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error)
}

// Submitter is the part of a submitter that the queuer needs.
type Submitter interface {
	// Room returns how many batches can be taken now. If that is 0, again is the time after
	// which to ask again (0: when woken).
	Room() (n int, again time.Duration)
	// Closed returns for how long no batch of a service may be sent; 0 if sending is allowed.
	Closed(service batch.ServiceID) time.Duration
	// Post takes a run over. Its requests must have ended at until. A nil payload was not
	// found; the run stops there.
	Post(run store.ClaimedRun, payloads [][]byte, until time.Time)
	// Return takes over claims that will not be posted.
	Return(claims []store.Claim)
}

// Options of a queuer; all must be set.
type Options struct {
	Strategy     Strategy
	TTL          time.Duration // of a claim
	Margin       time.Duration // a claim's requests end this long before the claim does
	ScanInterval time.Duration
	// Busy is how long a lane with a batch under way is left alone at most, where no other
	// batch of the lane may leave; with 0 the lane is not left alone.
	Busy        time.Duration
	ScanLanes   int // lanes that one scan reads at most
	Lanes       int // lanes that one claim looks at
	Resend      func(batch.ServiceID) store.Resend
	MaxInFlight func(batch.ServiceID) int // batches of a lane under way at once; 0 means no bound
	Budget      func(batch.ServiceID) batch.Budget
	Instance    string // names the claiming process
	// KeepsOrder says whether a lane's ledger keeps the order of submission; nil: no ledger
	// does.
	KeepsOrder func(batch.ServiceID) bool
	// Held is called when a lane cannot go on: for a strategy's bad answer or panic, a lost
	// payload, or a lane over which the store fails again and again.
	Held func(batch.ServiceID, error)
	// Claimed is called for every claimed run, after the claim is committed and before anything
	// is posted.
	Claimed func(store.ClaimedRun)
	// Trouble is called for each failure of the store; the queuer retries.
	Trouble func(error)
}

// Queuer goes round the lanes. Hint, HintIn and Wake may be called at any time.
type Queuer struct {
	store  Store
	sub    Submitter
	o      Options
	choose store.Choose
	wants  func(batch.Lane) int
	serial bool // one batch of a lane is under way at once
	// reliant strategies have at most one run of a lane out: see [OrderReliant].
	reliant bool
	wake    chan struct{} // capacity one: a wake-up that is due
	place   scan          // Run's own; kept from one Run to the next
	flights flights       // Run's own
	some    some          // Run's own
	passed  int           // Run's own: claims since the last claim of lanes that a scan found
	pauses  pauses        // Run's own

	mu      sync.Mutex
	hints   *hints
	resting resting
	busy    busy // empty where a lane may have several batches under way
}

// New returns a queuer; Run makes it work.
func New(s Store, sub Submitter, o Options) *Queuer {
	_, serial := o.Strategy.(Serial)
	return &Queuer{
		store: s, sub: sub, o: o,
		choose: Choose(o.Strategy, o.KeepsOrder, o.Held), reliant: ReliesOnOrder(o.Strategy),
		wants: Wants(o.Strategy, o.KeepsOrder), serial: serial,
		wake:  make(chan struct{}, 1),
		place: scan{start: true, due: time.Now(), pause: loop.Brief(), ended: make(chan scanned, 1)},
		hints: newHints(),

		resting: resting{}, busy: busy{},
		flights: newFlights(),
		pauses:  newPauses(),
	}
}

// Hint says that lanes may have work now, and that nothing under way is known to block them.
// Correctness never depends on it.
func (q *Queuer) Hint(lanes ...batch.ServiceID) {
	if len(lanes) > 0 {
		q.mu.Lock()
		for _, s := range lanes {
			delete(q.busy, s)
		}
		q.mu.Unlock()
		q.hintAll(lanes, 0)
		q.Wake()
	}
}

// HintIn is Hint for a lane that may have work after d.
func (q *Queuer) HintIn(s batch.ServiceID, d time.Duration) {
	now := time.Now()
	q.mu.Lock()
	delete(q.busy, s)
	q.hints.add(s, now.Add(d), now)
	q.mu.Unlock()
	q.Wake()
}

// Wake makes the queuer look again at once.
func (q *Queuer) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run claims and hands over until ctx is done. Where the store fails, Run retries only that
// scan or claim, after a short backoff; nothing else waits for it.
func (q *Queuer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer q.landAll(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
		case l := <-q.flights.landed:
			q.land(l)
		case s := <-q.place.ended:
			q.scanned(ctx, s)
		}
		if q.scanDue(time.Now()) {
			q.scan(ctx)
		}
		again := q.round(ctx)
		timer.Reset(max(0, min(again, q.place.wait())))
	}
}

// round claims from the named lanes, as much as the submitter has room for, and returns after
// what time to look again.
func (q *Queuer) round(ctx context.Context) (again time.Duration) {
	for ctx.Err() == nil {
		if wait := time.Until(q.pauses.all.until); wait > 0 {
			return wait
		}
		room, wait := q.sub.Room()
		if room -= q.flights.room; room <= 0 || q.flights.full() || q.flights.n > 0 && room < q.o.Lanes/8 {
			return orLong(wait) // a claim that lands wakes it, too
		}
		most := min(q.o.Lanes, room)
		found := q.passed >= passes
		lanes := q.pick(most, found)
		if len(lanes) == 0 {
			found = !found
			lanes = q.pick(most, found)
		}
		if q.passed++; found {
			q.passed = 0
		}
		if len(lanes) == 0 {
			return q.next()
		}
		q.fly(ctx, lanes, room, found)
	}
	return q.next()
}

// next returns after what time the next lane is due.
func (q *Queuer) next() time.Duration {
	q.mu.Lock()
	at, ok := q.hints.next(time.Now())
	q.mu.Unlock()
	if !ok {
		return orLong(0)
	}
	return time.Until(at)
}

func orLong(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Hour
	}
	return d
}

func (q *Queuer) rests(s batch.ServiceID) time.Duration {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.resting.left(s, now), q.busy.left(s, now), q.pauses.left(s, now))
}

func (q *Queuer) hintAll(lanes []batch.ServiceID, d time.Duration) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range lanes {
		q.hints.add(s, now.Add(d), now)
	}
}

// lockedPause is how long the queuer leaves a lane alone that another instance had locked.
const lockedPause = 5 * time.Millisecond

// claim claims from the lanes and hands over. It computes until from a time before the claim,
// on this process's monotonic clock, so that no request outlives its claim, even if the
// database's clock jumps. claim returns the runs it took; after an error these are being put
// back, if there are any.
func (q *Queuer) claim(ctx context.Context, lanes []batch.ServiceID, room int) (took []store.ClaimedRun, err error) {
	began := time.Now()
	until := began.Add(q.o.TTL - q.o.Margin)
	// A stop does not cut a claim short: its batches would be unknown, and wait for its
	// expiry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.o.TTL/4)
	defer cancel()
	var waiting []batch.ServiceID // lanes with a batch that is not ready yet
	var read []batch.Lane         // deep lanes, as the strategy saw them
	claimed, err := q.store.Claim(ctx, store.ClaimQuery{
		Lanes: lanes, Limit: room, Window: max(1, q.o.Strategy.Window()), TTL: q.o.TTL,
		Resend: q.o.Resend, MaxInFlight: q.o.MaxInFlight, Budget: q.o.Budget, Instance: q.o.Instance,
		Wants: q.wants, Salt: rand.Uint32(),
	}, func(lane batch.Lane) []batch.Run {
		if len(lane.Batches) >= restFrom {
			read = append(read, lane)
		}
		if slices.ContainsFunc(lane.Batches, func(b batch.Waiting) bool { return b.State.Claimable() && !b.Ready }) {
			waiting = append(waiting, lane.Service)
		}
		return q.choose(lane)
	})
	if err != nil {
		// The claim may be committed all the same. No other process knows of its batches, and
		// nobody posts them. So they are put back by version, which shows whether they were
		// claimed.
		q.putBack(claimed.Runs)
		return nil, fmt.Errorf("claim: %w", err)
	}
	q.mu.Lock()
	for _, lane := range read {
		q.resting.after(lane, time.Now())
	}
	if q.serial {
		for _, r := range claimed.Runs { // before one of the batches can be over
			q.busy[r.Service] = began.Add(q.o.Busy)
		}
	}
	q.mu.Unlock()
	q.hintAll(claimed.Locked, lockedPause)
	q.hintAll(takeTurns(claimed, !q.reliant), 0)
	if claimed.NextReady > 0 {
		q.hintAll(waiting, max(claimed.NextReady, q.pace(len(waiting))))
	}
	return claimed.Runs, q.handOver(ctx, claimed, until)
}

// takeTurns returns first the lanes that the limit left out, then the lanes that it cut short:
// else a lane with many ready batches would use up every claim. cutToo is false for a strategy
// that posts a lane's batches in one run: a look at a lane that was cut short is useless until
// that run has ended.
func takeTurns(c store.Claimed, cutToo bool) []batch.ServiceID {
	served := make(map[batch.ServiceID]bool, len(c.Runs))
	for _, r := range c.Runs {
		served[r.Service] = true
	}
	turns := make([]batch.ServiceID, 0, len(c.Left))
	for _, cut := range [...]bool{false, true} {
		for _, s := range c.Left {
			if served[s] == cut && (cutToo || !cut) {
				turns = append(turns, s)
			}
		}
	}
	return turns
}

// pace returns for how long n waiting lanes are left alone at least. NextReady is the time of
// the first lane only. To look at all n again for each would cost more than the scans do, so
// pace uses the rate of the scans.
func (q *Queuer) pace(n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.o.ScanInterval * time.Duration(n+len(q.hints.due)) / time.Duration(max(1, q.o.ScanLanes))
}
