package claim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/store"
)

// scan is the rotating scan. It finds the lanes that were not named.
type scan struct {
	store   Store
	options *Options
	lanes   *lanes.Table

	afterLane  batch.ServiceID
	beginsAnew bool
	dueAt      time.Time
	// isHinted is true if another process told of lanes that this one does not know, or of many.
	// The next scan may then begin at soonestScan. Scans that were not made move that into the
	// past.
	isHinted    atomic.Bool
	soonestScan time.Time
	pause       *backoff.ExponentialBackOff // the pauses after failed scans
	isRunning   bool                        // whether a scan is under way
	ended       chan scanResult             // its capacity is one

	// rest is the pause after the last scan, if it found nothing open and no lane was named since;
	// else 0. emptySince is the start of the first of the scans in a row that found nothing.
	rest       time.Duration
	emptySince time.Time
	// empty is set if the last scan read all lanes and found none open. It may be read at any
	// time.
	empty atomic.Pointer[emptyPeriod]
}

// emptyPeriod records that a scan found nothing open.
type emptyPeriod struct {
	since     time.Time // since then scans have found nothing, and no lane was named
	scanBegan time.Time // when the scan began
	nextScan  time.Time // when the next scan begins, unless a lane is named before
}

// scanResult is the result of a scan.
type scanResult struct {
	lanes   []batch.ServiceID
	beganAt time.Time
	took    time.Duration
	err     error
}

// dueIn returns the time until the next scan is due. While most of the lanes that the last scan
// found still wait for their turn, a scan would find only the same lanes, or others that have to
// wait longer. Several busy instances on one database would each read all lanes for the others'
// work. This takes 0.9 of the CPU of a batch, over 10,000 lanes (258 us instead of 288).
func (p *scan) dueIn() time.Duration {
	if found, _ := p.lanes.Waiting(); p.isRunning || found > p.options.LanesPerScan/2 {
		return time.Hour // the end of the scan, or of a claim of these lanes, wakes the queuer
	}
	if p.isHinted.Load() && p.soonestScan.Before(p.dueAt) {
		return time.Until(p.soonestScan)
	}
	return time.Until(p.dueAt)
}

// begin reads the next lanes that have open batches, beside the claims: if the database has many
// dead rows, a scan takes seconds, and claims do not wait for it.
func (p *scan) begin(ctx context.Context) {
	query := store.LanesQuery{After: p.afterLane, Start: p.beginsAnew, Limit: p.options.LanesPerScan}
	p.isRunning = true
	p.isHinted.Store(false)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, p.options.Query.TTL/4)
		defer cancel()
		s := scanResult{beganAt: time.Now()}
		s.lanes, s.err = p.store.Lanes(ctx, query)
		s.took = time.Since(s.beganAt)
		p.ended <- s
	}()
}

// end adds the lanes that a scan read to the table. A lane without a hint is found here, at the
// latest after as many scans as it takes to read all lanes. A scan that failed is repeated soon,
// from the same place.
func (p *scan) end(ctx context.Context, s scanResult) {
	now := time.Now()
	p.isRunning = false
	p.empty.Store(nil)
	nothing := p.beginsAnew && s.err == nil && len(s.lanes) == 0
	share := min(max(s.took, scanShare*(s.took-time.Duration(len(s.lanes))*freeTimePerLane)), longestPause)
	if s.err != nil {
		p.rest = 0
		p.dueAt = now.Add(max(p.pause.NextBackOff(), share))
		p.soonestScan = p.dueAt
		p.lanes.Find(nil) // this also removes entries that hints have left
		if ctx.Err() == nil {
			p.options.Trouble(fmt.Errorf("scan lanes: %w", s.err))
		}
		return
	}
	p.pause.Reset()
	p.lanes.Find(s.lanes)
	p.beginsAnew = len(s.lanes) < p.options.LanesPerScan
	if len(s.lanes) > 0 {
		p.afterLane = s.lanes[len(s.lanes)-1]
	}
	if spared := now.Add(-hintedScansAtOnce * hintedScanPause); p.soonestScan.Before(spared) {
		p.soonestScan = spared
	}
	p.soonestScan = p.soonestScan.Add(s.took + max(hintedScanPause, share))
	if !nothing {
		p.rest = 0
		p.dueAt = now.Add(max(p.options.ScanInterval, share))
		return
	}
	if p.rest == 0 {
		p.emptySince = s.beganAt
	}
	p.rest = max(p.options.ScanInterval, min(4*p.rest, p.options.Rest()))
	p.dueAt = now.Add(max(p.rest, share))
	p.empty.Store(&emptyPeriod{p.emptySince, s.beganAt, p.dueAt.Add(p.options.Query.TTL / 4)})
}

// endRest ends a rest, because a lane was named, or because no hints arrive any more. From now on
// scans are made as often as usual, until they find nothing again.
func (p *scan) endRest() {
	if p.rest == 0 {
		return
	}
	if p.rest > p.options.ScanInterval {
		if soon := time.Now().Add(p.options.ScanInterval); soon.Before(p.dueAt) {
			p.dueAt = soon
		}
	}
	p.rest = 0
	if e := p.empty.Load(); e != nil {
		p.empty.Store(&emptyPeriod{scanBegan: e.scanBegan})
	}
}

// Hints cause at most one scan in each hintedScanPause. After a rest, hintedScansAtOnce scans need
// not wait for that pause, so that a few new lanes, one after the other, are each served at once.
const (
	hintedScanPause   = 100 * time.Millisecond
	hintedScansAtOnce = 10
)

// A slow scan costs the database so much that it would delay claims, for example if many dead rows
// cannot be removed yet. So scans have at most one part in scanShare of the time, and the next
// scan starts after longestPause at the latest. A freeTimePerLane for each lane found does not
// count: on a busy machine a scan of thousands of lanes takes long, and the Runner, once it has
// claimed from all of them, would rest for seconds while as many others wait. Each scan is
// followed by a rest as long as itself.
const (
	scanShare       = 20
	longestPause    = time.Minute
	freeTimePerLane = time.Millisecond
)
