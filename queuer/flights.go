package queuer

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// flights are claims under way at the same time, on different lanes: while the database works
// on one, the answer to another is on its way, and the submitter's hands wait for neither.
type flights struct {
	n      int                      // under way
	room   int                      // that the claims under way may use
	lanes  map[batch.ServiceID]bool // of the claims under way; true where a lane was named again meanwhile
	landed chan landing
}

// landing is the end of a claim.
type landing struct {
	lanes []batch.ServiceID
	room  int
	found bool // the lanes were found by a scan
	runs  int
	failures
}

// maxFlights is how many claims are under way at most. With more claims each is smaller, and
// all together cost more.
const maxFlights = 2

func newFlights() flights {
	return flights{lanes: map[batch.ServiceID]bool{}, landed: make(chan landing, maxFlights)}
}

func (f *flights) full() bool { return f.n == maxFlights }

// has reports whether a lane is part of a claim under way. If it is, the queuer looks at the
// lane again after the claim.
func (f *flights) has(s batch.ServiceID) bool {
	_, has := f.lanes[s]
	if has {
		f.lanes[s] = true
	}
	return has
}

// fly starts a claim from lanes, beside the claims under way.
func (q *Queuer) fly(ctx context.Context, lanes []batch.ServiceID, room int, found bool) {
	l := landing{lanes: lanes, found: found, room: min(room, q.o.Lanes, len(lanes)*max(1, q.o.Strategy.Window()))}
	q.flights.n++
	q.flights.room += l.room
	for _, s := range lanes {
		q.flights.lanes[s] = false
	}
	go func() {
		room := l.room
		l.runs = q.claimParts(ctx, lanes, &room, &l.failures)
		q.flights.landed <- l
	}()
}

// land records the end of a claim.
func (q *Queuer) land(l landing) {
	q.flights.n--
	q.flights.room -= l.room
	var again []batch.ServiceID
	for _, s := range l.lanes {
		if q.flights.lanes[s] {
			again = append(again, s)
		}
		delete(q.flights.lanes, s)
	}
	q.learn(l.lanes, l.failures)
	q.hintAll(again, 0)
	if l.found && l.err == nil {
		q.some.learn(len(l.lanes), l.runs)
	}
}

// landAll waits for the scan and the claims under way.
func (q *Queuer) landAll(ctx context.Context) {
	if q.place.under {
		q.scanned(ctx, <-q.place.ended)
	}
	for q.flights.n > 0 {
		q.land(<-q.flights.landed)
	}
}
