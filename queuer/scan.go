package queuer

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// scan is the position and state of the rotating scan.
type scan struct {
	after batch.ServiceID
	start bool
	due   time.Time
	pause *backoff.ExponentialBackOff // after a scan that failed
	under bool                        // a scan is under way
	ended chan scanned                // capacity one
}

// scanned is the end of a scan.
type scanned struct {
	lanes []batch.ServiceID
	took  time.Duration
	err   error
}

// wait returns for how long there is nothing to do.
func (s *scan) wait() time.Duration {
	if s.under {
		return orLong(0) // its end wakes the queuer
	}
	return time.Until(s.due)
}

// scanDue reports whether to scan now. While most of the lanes that the last scan found still
// wait for their turn, a scan would find only the same lanes, or others that wait longer. With
// several busy instances at one database, each would read all lanes for the others' work.
func (q *Queuer) scanDue(now time.Time) bool {
	if q.place.under || now.Before(q.place.due) {
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

// scan reads the next lanes that have open batches, beside the claims: if the database holds
// many dead rows, a scan takes seconds, and claims do not wait for it.
func (q *Queuer) scan(ctx context.Context) {
	query := store.LanesQuery{After: q.place.after, Start: q.place.start, Limit: q.o.ScanLanes}
	q.place.under = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, q.o.TTL/4)
		defer cancel()
		var s scanned
		began := time.Now()
		s.err = loop.Contain(func() (err error) {
			s.lanes, err = q.store.Lanes(ctx, query)
			return err
		})
		s.took = time.Since(began)
		q.place.ended <- s
	}()
}

// scanned adds the lanes that a scan read. A lane without a hint is found here, at the latest
// after as many scans as it takes to read all lanes. A scan that failed is made again soon,
// from the same place.
func (q *Queuer) scanned(ctx context.Context, s scanned) {
	now, place := time.Now(), &q.place
	place.under = false
	share := min(scanShare*s.took, longestPause)
	if s.err != nil {
		place.due = now.Add(max(place.pause.NextBackOff(), share))
		if ctx.Err() == nil {
			q.o.Trouble(fmt.Errorf("scan lanes: %w", s.err))
		}
		return
	}
	place.pause.Reset()
	q.mu.Lock()
	for _, s := range s.lanes {
		q.hints.find(s)
	}
	q.resting.sweep(now)
	q.busy.sweep(now)
	q.mu.Unlock()
	place.start = len(s.lanes) < q.o.ScanLanes
	if len(s.lanes) > 0 {
		place.after = s.lanes[len(s.lanes)-1]
	}
	place.due = now.Add(max(q.o.ScanInterval, share))
}

// A slow scan costs the database so much that it would hold up claims: where many dead rows
// cannot be removed yet, say. So scans have at most one part in scanShare of the time, but the
// next starts after longestPause at the latest.
const (
	scanShare    = 20
	longestPause = time.Minute
)

// some is how many of the lanes that a scan found go into one claim. While hardly any of them
// has work the number is small, so that a lane that is named meanwhile does not wait long.
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
