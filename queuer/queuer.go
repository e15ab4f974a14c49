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

// Store is what the queuer needs of a store.
type Store interface {
	Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error)
	Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error)
	Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error)
}

// Submitter is what the queuer needs of a submitter.
type Submitter interface {
	// Room returns how many batches can be taken now and, where that is 0, after
	// what time to ask again (0: when woken).
	Room() (n int, again time.Duration)
	// Closed returns for how long nothing of a service may be sent; 0 if it may.
	Closed(service batch.ServiceID) time.Duration
	// Post takes a run over. Its requests must have ended at until. A payload that is
	// nil could not be found; the run stops there.
	Post(run store.ClaimedRun, payloads [][]byte, until time.Time)
	// Return takes claims over that will not be posted.
	Return(claims []store.Claim)
}

// Options of a queuer; all must be set.
type Options struct {
	Strategy     Strategy
	TTL          time.Duration // of a claim
	Margin       time.Duration // a claim's requests end this long before the claim does
	ScanInterval time.Duration
	// Busy is how long a lane is left alone at most for a batch of it that is under way,
	// where nothing else of it may leave; 0: none is.
	Busy        time.Duration
	ScanLanes   int // lanes that one scan reads at most
	Lanes       int // lanes that one claim looks at
	Resend      func(batch.ServiceID) store.Resend
	MaxInFlight func(batch.ServiceID) int // of a lane under way at once; 0 is no bound
	Budget      func(batch.ServiceID) batch.Budget
	Instance    string // names who claims
	// KeepsOrder says whether a lane's ledger keeps the order of submission; nil: none does.
	KeepsOrder func(batch.ServiceID) bool
	// Held is told of what keeps a lane where it is: a strategy's bad answer or panic, a
	// payload that is gone, or that the store fails over it again and again.
	Held func(batch.ServiceID, error)
	// Claimed is told of every claim after it is committed.
	Claimed func(store.Claim)
	// Trouble is told of what the store failed to do, which is tried again.
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
	passed  int           // Run's own: claims since the last of what a scan came upon
	pauses  pauses        // Run's own

	mu      sync.Mutex
	hints   *hints
	resting resting
	busy    busy // empty where more of a lane may be under way
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

// Hint says that lanes may have something to do now, and that nothing of them is known to
// be in the way. Correctness never depends on it.
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

// HintIn is Hint of a lane that may have something to do after d.
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

// Run claims and hands over until ctx is done. Where the store fails, a scan or a claim is
// tried again by itself, briefly, and nothing else waits for that.
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

// round claims from the lanes that are named, as many as the submitter has room
// for, and returns when to look again.
func (q *Queuer) round(ctx context.Context) (again time.Duration) {
	for ctx.Err() == nil {
		if wait := time.Until(q.pauses.all.until); wait > 0 {
			return wait
		}
		room, wait := q.sub.Room()
		if room -= q.flights.room; room <= 0 || q.flights.full() || q.flights.n > 0 && room < q.o.Lanes/8 {
			return orLong(wait) // what lands wakes it, too
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

// next returns when the next lane is due.
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

// lockedPause is how long a lane that another instance was choosing from is left alone.
const lockedPause = 5 * time.Millisecond

// claim takes from the lanes and hands over. until is reckoned from before the
// claim, on this process's monotonic clock, so that no request outlives its claim
// whatever the database's clock does. It returns what it took; after an error that is nothing,
// or is being put back.
func (q *Queuer) claim(ctx context.Context, lanes []batch.ServiceID, room int) (took []store.ClaimedRun, err error) {
	began := time.Now()
	until := began.Add(q.o.TTL - q.o.Margin)
	// A stop does not cut a claim short: what it took would be unknown, and wait for its expiry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.o.TTL/4)
	defer cancel()
	var waiting []batch.ServiceID // lanes with a batch whose time has not come
	var read []batch.Lane         // what was shown of deep lanes
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
		// What may be claimed all the same nobody else can know of, and nobody posts it: it
		// is put back by version, which says whether it was claimed.
		q.putBack(claimed.Runs)
		return nil, fmt.Errorf("claim: %w", err)
	}
	q.mu.Lock()
	for _, lane := range read {
		q.resting.after(lane, time.Now())
	}
	if q.serial {
		for _, r := range claimed.Runs { // before one of them can be over
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

// takeTurns returns the lanes that the limit left out, and behind them those that it
// cut short: a lane of much that may leave at once would use up every claim. Of a
// strategy that posts a lane's batches in one run what is cut short is no use to look
// at before that has ended.
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

// pace is how long n lanes that wait are left alone at least: NextReady is that of the
// first of them, and looking at all again for each would cost more than the scans
// do, whose rate this is.
func (q *Queuer) pace(n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.o.ScanInterval * time.Duration(n+len(q.hints.due)) / time.Duration(max(1, q.o.ScanLanes))
}
