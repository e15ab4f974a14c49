package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// passes is how many claims of lanes that somebody named go before one of those that a
// scan came upon: where there is always another that is named, these have their turns all
// the same.
const passes = 4

// pick takes lanes for one claim: of those that a scan came upon, or that are named.
func (q *Queuer) pick(most int, found bool) []batch.ServiceID {
	if found {
		return q.take(q.some.of(most), q.hints.takeFound)
	}
	return q.take(most, func(n int) []batch.ServiceID { return q.hints.take(n, time.Now()) })
}

// take returns lanes whose service is not closed, and that do not rest; the others
// come back when they may. from is one of two methods of hints.
func (q *Queuer) take(n int, from func(n int) []batch.ServiceID) (lanes []batch.ServiceID) {
	for len(lanes) < n {
		q.mu.Lock()
		got := from(n - len(lanes))
		q.mu.Unlock()
		if len(got) == 0 {
			return lanes
		}
		for _, s := range got {
			if q.flights.has(s) {
				continue
			}
			if wait := max(q.sub.Closed(s), q.rests(s)); wait > 0 {
				q.hintAll([]batch.ServiceID{s}, wait)
				continue
			}
			lanes = append(lanes, s)
		}
	}
	return lanes
}
