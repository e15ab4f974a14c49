package lanes

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Table remembers lanes. Parts that know of work name lanes, and the queuer takes them. All
// methods may be called concurrently.
type Table struct {
	maxFound int
	wake     chan struct{} // capacity one: a wake-up that is due

	mu           sync.Mutex
	lanes        map[batch.ServiceID]*lane
	queues       queues
	namedClaims  int // claims of named lanes since found lanes had their turn
	foundClaimed int // found lanes that a claim looks at now
}

// lane is an entry and its place in a queue.
type lane struct {
	entry
	service        batch.ServiceID
	pauses         *backoff.ExponentialBackOff // of failures in a row; nil after a success
	claimedAsFound bool                        // the claim under way has it from the queue of found lanes

	queuedFor  request
	dueAt      time.Time // it is due
	tieBreak   uint64    // decides between equal times
	queueIndex int
}

// New returns an empty table. A claim has at most few lanes that a scan found.
func New(few int) *Table {
	return &Table{maxFound: few, wake: make(chan struct{}, 1), lanes: map[batch.ServiceID]*lane{}}
}

// Wake makes the queuer look again at once.
func (t *Table) Wake() { loop.Poke(t.wake) }

// Woken gives the queuer its wake-ups.
func (t *Table) Woken() <-chan struct{} { return t.wake }

// Added says that batches were added to lanes, and wakes the queuer. While a run of a lane is out
// and nothing may leave beside it, the queuer looks at the lane only when that run is over.
func (t *Table) Added(lanes ...batch.ServiceID) {
	t.Name(time.Now(), lanes...)
	t.Wake()
}

// Name says that lanes may have work at a time. A lane that rests goes on resting.
func (t *Table) Name(at time.Time, lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) { l.name(at, now) })
}

// Free is Name for lanes that have no run out any more, as far as this process knows. It ends
// their rests, and wakes the queuer. Correctness never depends on it.
func (t *Table) Free(at time.Time, lanes ...batch.ServiceID) {
	if len(lanes) > 0 {
		t.changeEach(lanes, func(l *lane, now time.Time) { l.free(at, now) })
		t.Wake()
	}
}

// RunEnded frees a lane if a run of it was out and nobody has freed the lane since. It does
// nothing for any other lane, nor for a lane that the table has forgotten, but wakes the queuer.
func (t *Table) RunEnded(s batch.ServiceID) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, now time.Time) {
		if l.runOut {
			l.free(now, now)
		}
	})
	t.Wake()
}

// Find adds lanes that a scan found, and forgets the entries that say nothing any more.
func (t *Table) Find(lanes []batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) { l.find(now) })
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for s, l := range t.lanes {
		if l.idle(now) {
			delete(t.lanes, s)
		}
	}
}

// namedPerFound is how many claims of named lanes go before one of found lanes. Without it a found
// lane is never looked at while others are named all the time
// (TestAScanHasItsTurnsAmongLanesThatAreNamed).
const namedPerFound = 4

// Take begins a claim of lanes that are due now, in their order: up to n named lanes,
// or, in their turn, found lanes. There is one claim of found lanes at a time, so that a lane
// that is named meanwhile finds a claim free where the submitter has room
// (TestANamedLaneDoesNotWaitForAScan). A lane that has failed is taken alone until a claim of it
// goes well: somebody may hold its rows for hours, and the lanes beside it would wait with it.
// Each lane's claim ends by Done, Failed or Back.
func (t *Table) Take(n int) (lanes []batch.ServiceID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, second := requestNamed, requestFound
	if t.namedClaims >= namedPerFound {
		first, second = requestFound, requestNamed
	}
	if lanes = t.take(first, n); len(lanes) == 0 {
		lanes = t.take(second, n)
	}
	return lanes
}

func (t *Table) take(in request, n int) (lanes []batch.ServiceID) {
	if in == requestFound {
		if t.foundClaimed > 0 {
			return nil
		}
		n = min(n, t.maxFound)
	}
	now := time.Now()
	for q := &t.queues.byRequest[in]; len(lanes) < n && len(*q) > 0 && !(*q)[0].dueAt.After(now); {
		l := (*q)[0]
		failed := l.pauses != nil
		if failed && len(lanes) > 0 {
			break // it comes first in the next claim
		}
		if l.request, l.claimed, l.claimedAsFound = requestNone, true, in == requestFound; l.claimedAsFound {
			t.foundClaimed++
		}
		t.queues.place(l)
		lanes = append(lanes, l.service)
		if failed {
			break
		}
	}
	if t.namedClaims++; in == requestFound || len(lanes) == 0 {
		t.namedClaims = 0 // found lanes had their turn, or no others were before them
	}
	return lanes
}

// Done ends a claim of lanes that went well.
func (t *Table) Done(lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, _ time.Time) {
		t.end(l)
		l.pauses = nil
	})
}

// Back ends a claim of lanes that nobody has looked at, and names them for a time.
func (t *Table) Back(at time.Time, lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) {
		t.end(l)
		l.name(at, now)
	})
}

// Failed ends a claim of one lane over which the store failed. The lane is named, and rests for
// the time that Failed returns, longer after each failure in a row; Free does not end this rest.
func (t *Table) Failed(s batch.ServiceID) (wait time.Duration) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, now time.Time) {
		t.end(l)
		if l.pauses == nil {
			l.pauses = loop.NewBriefPauses()
		}
		wait = l.pauses.NextBackOff()
		l.runOut, l.restUntil = false, now.Add(wait)
		l.name(now, now)
	})
	return wait
}

func (t *Table) end(l *lane) {
	if l.claimedAsFound {
		t.foundClaimed--
	}
	l.claimed, l.claimedAsFound = false, false
}

// Rest leaves a lane alone until a time, because a claim has just read a long window of it. Each
// batch that becomes final or is added names the lane, and one claim serves all.
func (t *Table) Rest(s batch.ServiceID, until time.Time) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, _ time.Time) { l.restUntil = until })
}

// RunBegan says that a run of a lane is out, and that no other batch of the lane may leave. The
// lane is left alone until Free or RunEnded: a claim would find nothing, and its lock would hold
// up the next claim. After until it is looked at all the same: this table does not hear of it when
// another process frees the lane.
func (t *Table) RunBegan(s batch.ServiceID, until time.Time) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, _ time.Time) { l.runOut, l.restUntil = true, until })
}

// Waiting returns how many lanes that a scan found wait for their turn, and how many lanes wait
// for a claim altogether, now or later.
func (t *Table) Waiting() (found, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues.byRequest[requestFound]), len(t.queues.byRequest[requestFound]) + len(t.queues.byRequest[requestNamed])
}

// Next returns after what time Take has a lane, an hour at most.
func (t *Table) Next() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := time.Hour
	for in, q := range t.queues.byRequest {
		if len(q) > 0 && (request(in) == requestNamed || t.foundClaimed == 0) {
			wait = min(wait, time.Until(q[0].dueAt))
		}
	}
	return wait
}

// changeEach changes lanes and moves them to where the rule wants them.
func (t *Table) changeEach(lanes []batch.ServiceID, change func(l *lane, now time.Time)) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range lanes {
		l := t.lanes[s]
		if l == nil {
			l = &lane{service: s}
			t.lanes[s] = l
		}
		change(l, now)
		t.queues.place(l)
	}
}
