package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// passes is how many claims of named lanes go before one claim of lanes that a scan found, so
// that found lanes have their turns even when there is always another named lane.
const passes = 4

// pick takes lanes for one claim: lanes that a scan found, or named lanes.
func (q *Queuer) pick(most int, found bool) []batch.ServiceID {
	if found {
		return q.take(q.some.of(most), q.hints.takeFound)
	}
	return q.take(most, func(n int) []batch.ServiceID { return q.hints.take(n, time.Now()) })
}

// take returns lanes whose service is open and that do not rest; the others come back when
// they may. from is a method of hints: take or takeFound.
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
