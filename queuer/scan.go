package queuer

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// scan is the rotating scan's place.
type scan struct {
	after batch.ServiceID
	start bool
	due   time.Time
	pause *backoff.ExponentialBackOff // after one that failed
}

// scanDue reports whether to scan. While most of what the last one came upon waits for its
// turn it would only be found again, or others that wait longer: where several instances
// are busy at one database, each of them would read all lanes for the others' work.
func (q *Queuer) scanDue(now time.Time) bool {
	if now.Before(q.place.due) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hints.finds > q.o.ScanLanes/2 {
		q.place.due = now.Add(q.o.ScanInterval / 8)
		return false
	}
	return true
}

// scan names the next lanes that have open batches. A lane that no hint names is
// found here, at the latest after as many scans as it takes to read all lanes. One that
// fails is made again soon, from the same place; lanes that are named do not wait for it.
func (q *Queuer) scan(ctx context.Context, place *scan) {
	bounded, cancel := context.WithTimeout(ctx, q.o.TTL/4)
	defer cancel()
	began := time.Now()
	lanes, err := q.store.Lanes(bounded, store.LanesQuery{After: place.after, Start: place.start, Limit: q.o.ScanLanes})
	now := time.Now()
	if err != nil {
		place.due = now.Add(place.pause.NextBackOff())
		if ctx.Err() == nil {
			q.o.Trouble(fmt.Errorf("scan lanes: %w", err))
		}
		return
	}
	place.pause.Reset()
	q.mu.Lock()
	for _, s := range lanes {
		q.hints.find(s)
	}
	q.resting.sweep(now)
	q.busy.sweep(now)
	q.mu.Unlock()
	place.start = len(lanes) < q.o.ScanLanes
	if len(lanes) > 0 {
		place.after = lanes[len(lanes)-1]
	}
	place.due = now.Add(max(q.o.ScanInterval, min(scanShare*now.Sub(began), longestPause)))
}

// A scan that takes long costs the database so much that it would hold up those who claim:
// where much is dead and cannot be removed yet, say. So it has no more than one part in
// scanShare of the time, but is made after longestPause.
const (
	scanShare    = 20
	longestPause = time.Minute
)

// some is how many of the lanes that a scan came upon are claimed from together. While
// hardly any of them has something to do they are few, so that a lane that is named
// meanwhile does not wait long for its turn.
type some struct{ n int }

const fewLanes = 16

func (s *some) of(most int) int {
	if s.n == 0 {
		s.n = most
	}
	return min(most, s.n)
}

// learn takes in how many runs a claim from so many lanes gave.
func (s *some) learn(lanes, runs int) {
	if runs < lanes/4 {
		s.n = max(fewLanes, s.n/2)
	} else {
		s.n = min(2*s.n, 1<<20)
	}
}
