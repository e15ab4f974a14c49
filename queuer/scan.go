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

// scanIn returns after what time the next scan is due. While most of the lanes that the last scan
// found still wait for their turn, a scan would find only the same lanes, or others that wait
// longer; and several busy instances at one database would each read all lanes for the others'
// work. This takes 0.9 of the CPU of a batch, over 10,000 lanes (258 us instead of 288).
func (q *Queuer) scanIn() time.Duration {
	if found, _ := q.lanes.Waiting(); q.place.under || found > q.o.ScanLanes/2 {
		return time.Hour // the scan's end wakes the queuer, or a claim of these lanes
	}
	return time.Until(q.place.due)
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
		q.lanes.Find(nil) // it also forgets what hints have left
		if ctx.Err() == nil {
			q.o.Trouble(fmt.Errorf("scan lanes: %w", s.err))
		}
		return
	}
	place.pause.Reset()
	q.lanes.Find(s.lanes)
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
