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
	wake     chan struct{} // a wake-up that is due; its capacity is one

	mu           sync.Mutex
	lanes        map[batch.ServiceID]*lane
	queues       queues
	namedClaims  int // claims of named lanes since the last claim of found lanes
	foundClaimed int // found lanes that a claim looks at now
}

// lane is an entry and its place in a queue.
type lane struct {
	entry
	service        batch.ServiceID
	pauses         *backoff.ExponentialBackOff // the pauses after failures in a row; nil after a success
	claimedAsFound bool                        // whether the present claim has the lane from the queue of found lanes

	queuedFor  request
	dueAt      time.Time // when the lane is due
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

// Added tells the table that batches were added to lanes, and wakes the queuer. While a run of a
// lane is under way and nothing may be sent beside it, the queuer looks at the lane only when that
// run has ended.
func (t *Table) Added(lanes ...batch.ServiceID) {
	t.Name(time.Now(), lanes...)
	t.Wake()
}

// Name tells the table that lanes may have work at a time. It does not end the rest of a lane.
func (t *Table) Name(at time.Time, lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) { l.setNamed(at, now) })
}

// Free is Name for lanes that no longer have a run under way, as far as this process knows. It
// ends their rests, and wakes the queuer. Correctness does not depend on it.
func (t *Table) Free(at time.Time, lanes ...batch.ServiceID) {
	if len(lanes) > 0 {
		t.changeEach(lanes, func(l *lane, now time.Time) { l.setFree(at, now) })
		t.Wake()
	}
}

// RunEnded frees a lane if a run of it was under way and nothing has freed the lane since. For any
// other lane, and for a lane that the table has forgotten, it only wakes the queuer.
func (t *Table) RunEnded(s batch.ServiceID) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, now time.Time) {
		if l.runIsOut {
			l.setFree(now, now)
		}
	})
	t.Wake()
}

// Find adds lanes that a scan found, and removes empty entries.
func (t *Table) Find(lanes []batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) { l.setFound(now) })
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for s, l := range t.lanes {
		if l.isIdle(now) {
			delete(t.lanes, s)
		}
	}
}

// namedPerFound is how many claims of named lanes are made before one of found lanes. Otherwise a
// found lane would never be looked at while other lanes are named all the time
// (TestAScanHasItsTurnsAmongLanesThatAreNamed).
const namedPerFound = 4

// Take begins a claim of lanes that are due now, in their order: up to n named lanes or, when it
// is their turn, found lanes. There is one claim of found lanes at a time, so that a lane that is
// named meanwhile finds a free claim if the submitter has room
// (TestANamedLaneDoesNotWaitForAScan). A lane that has failed is taken alone until a claim of it
// succeeds: its rows may be locked for hours, and the lanes in the same claim would wait with it.
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
			break // this lane is the first of the next claim
		}
		if l.request, l.isClaimed, l.claimedAsFound = requestNone, true, in == requestFound; l.claimedAsFound {
			t.foundClaimed++
		}
		t.queues.place(l)
		lanes = append(lanes, l.service)
		if failed {
			break
		}
	}
	if t.namedClaims++; in == requestFound || len(lanes) == 0 {
		t.namedClaims = 0 // found lanes had their turn, or there was no other lane
	}
	return lanes
}

// Done ends a claim of lanes that succeeded.
func (t *Table) Done(lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, _ time.Time) {
		t.end(l)
		l.pauses = nil
	})
}

// Back ends a claim in which the lanes were not read, and names them for a time.
func (t *Table) Back(at time.Time, lanes ...batch.ServiceID) {
	t.changeEach(lanes, func(l *lane, now time.Time) {
		t.end(l)
		l.setNamed(at, now)
	})
}

// Failed ends a claim of one lane that failed in the store. The lane is named, and rests for the
// time that Failed returns, which grows with each failure in a row. Free does not end this rest.
func (t *Table) Failed(s batch.ServiceID) (wait time.Duration) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, now time.Time) {
		t.end(l)
		if l.pauses == nil {
			l.pauses = loop.NewBriefPauses()
		}
		wait = l.pauses.NextBackOff()
		l.runIsOut, l.restUntil = false, now.Add(wait)
		l.setNamed(now, now)
	})
	return wait
}

func (t *Table) end(l *lane) {
	if l.claimedAsFound {
		t.foundClaimed--
	}
	l.isClaimed, l.claimedAsFound = false, false
}

// Rest leaves a lane alone until a time, because a claim has just read many of its batches. Each
// batch that becomes final or is added names the lane, and one claim serves all of them.
func (t *Table) Rest(s batch.ServiceID, until time.Time) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, _ time.Time) { l.restUntil = until })
}

// RunBegan tells the table that a run of a lane is under way, and that no other batch of the lane
// may be sent. The lane is left alone until Free or RunEnded: a claim would find nothing, and its
// lock would delay the next claim. The lane is due again after until, because this table is not
// told when another process frees the lane.
func (t *Table) RunBegan(s batch.ServiceID, until time.Time) {
	t.changeEach([]batch.ServiceID{s}, func(l *lane, _ time.Time) { l.runIsOut, l.restUntil = true, until })
}

// Waiting returns how many lanes that a scan found wait for their turn, and how many lanes wait
// for a claim altogether, now or later.
func (t *Table) Waiting() (found, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues.byRequest[requestFound]), len(t.queues.byRequest[requestFound]) + len(t.queues.byRequest[requestNamed])
}

// Next returns the time until Take has a lane, at most an hour.
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

// changeEach changes lanes, and moves each to the queue that the rule wants.
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
