// Package claim is the queuer at work: it takes lanes in turn, claims the batches that a strategy
// picks, and gives them to the submitter.
package claim

import (
	"cmp"
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that the queuer needs.
type Store interface {
	Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error)
	Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error)
	Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error)
}

// Submitter is the part of a submitter that the queuer needs.
type Submitter interface {
	// Room returns how many batches can be taken now. If n is 0, again is the time after which to
	// ask again; 0 means when woken.
	Room() (n int, again time.Duration)
	// Closed returns for how long no batch of a service may be sent; 0 if sending is allowed.
	Closed(service batch.ServiceID) time.Duration
	// Post takes a run. Its requests must have ended at until. A nil payload was not found, and
	// the run stops there.
	Post(run store.ClaimedRun, payloads [][]byte, until time.Time)
	// Return takes claims that will not be posted.
	Return(claims []store.Claim)
}

// Options of a queuer; all must be set.
type Options struct {
	Strategy queuer.Strategy
	// Query has the fields that all claims have in common: Window, TTL, Budget, Instance,
	// StuckAfter, Resend and MaxInFlight.
	Query  store.ClaimQuery
	Margin time.Duration // a claim's requests end this long before the claim
	// RequestTime is the time that a request needs. A claim with less time left is put back,
	// reported, and made again after a pause.
	RequestTime  time.Duration
	ScanInterval time.Duration
	// Rest returns the longest pause between scans while nothing is open and hints tell what other
	// processes add. It returns 0 if no hints arrive; ScanInterval is then the pause.
	Rest func() time.Duration
	// BusyRest is the longest time for which a lane with a batch under way is left alone, if no
	// other batch of the lane may be sent. With 0 the lane is not left alone.
	BusyRest      time.Duration
	LanesPerScan  int // most lanes that one scan reads
	LanesPerClaim int // most lanes that one claim reads
	// MaxBytes returns how many bytes of payloads all claims under way may take together. A nil
	// func, and 0, mean no bound.
	MaxBytes func() int
	// KeepsOrder reports whether a lane's ledger keeps the order of submission. nil means that no
	// ledger does.
	KeepsOrder func(batch.ServiceID) bool
	// Held is called when a lane cannot go on: after a strategy's bad answer or panic, if a
	// payload is lost, or if the store fails for this lane again and again.
	Held func(batch.ServiceID, error)
	// Claimed is called for every claimed run, after the claim is committed and its payloads are
	// loaded, and before anything is posted. It must return soon after ctx is done, because the
	// requests need the rest of the claim's time.
	Claimed func(context.Context, store.ClaimedRun)
	// Trouble is called for each failure of the store, and for each claim that took too long; the
	// queuer retries.
	Trouble func(error)
}

// Queuer works on all lanes: it scans for lanes, takes from the table the lanes that are worth a
// claim, claims from them, gives the runs to the submitter, and writes into the table when each
// lane is due next.
type Queuer struct {
	submitter  Submitter
	options    *Options
	lanes      *lanes.Table
	claimer    *claimer
	endedTasks chan claimTask

	// These are used by Run only, and kept from one Run to the next.
	scan        scan
	tasks       int                         // claims under way
	tasksRoom   int                         // batches that the claims under way may take
	failedLanes int                         // claims of single lanes that failed in a row
	failedLane  batch.ServiceID             // the lane of the last of them
	downUntil   time.Time                   // until then the failing store gets no claim
	pauses      *backoff.ExponentialBackOff // the pauses after failures of the store in a row
}

// New returns a queuer; Run makes it work.
func New(s Store, sub Submitter, table *lanes.Table, o Options) *Queuer {
	bad := &strategyErrors{}
	return &Queuer{
		submitter: sub, options: &o, lanes: table, endedTasks: make(chan claimTask, maxTasks), pauses: loop.NewBriefPauses(),
		claimer: &claimer{
			store: s, submitter: sub, options: &o, lanes: table, strategyErrs: bad,
			choose: queuer.Choose(o.Strategy, o.KeepsOrder, bad.add), wantedBatches: queuer.Wants(o.Strategy, o.KeepsOrder),
			oneRun: o.Strategy.OneRun(),
		},
		scan: scan{
			store: s, options: &o, lanes: table, beginsAnew: true, dueAt: time.Now(), pause: loop.NewBriefPauses(), ended: make(chan scanResult, 1),
		},
	}
}

// Empty reports whether the last scan read all lanes and found no open batch, and either began
// within the last d or still counts by [Queuer.Rests]. It may be called at any time. The scan
// leaves out lanes that are paused or halted ([store.Store].Lanes).
func (q *Queuer) Empty(d time.Duration) bool {
	e := q.scan.empty.Load()
	if e != nil && time.Since(e.scanBegan) <= d {
		return true
	}
	_, _, rests := q.Rests()
	return rests
}

// Rests reports whether the last scan found nothing open and no lane was named since, while hints
// would have named one. began is when that scan began, since the time from which on scans have
// found nothing. It may be called at any time.
func (q *Queuer) Rests() (since, began time.Time, rests bool) {
	e := q.scan.empty.Load()
	if e == nil || !time.Now().Before(e.nextScan) || q.options.Rest() <= 0 {
		return time.Time{}, time.Time{}, false
	}
	return e.since, e.scanBegan, true
}

// Scan makes the next scan come soon, because another process has told that some lane has work.
func (q *Queuer) Scan() {
	q.scan.isHinted.Store(true)
	q.lanes.Wake()
}

// Run claims until ctx is done. If the store fails, Run repeats only the failed scan or claim,
// after a short backoff, and nothing else waits for that.
func (q *Queuer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		if q.scan.isRunning {
			q.scan.end(ctx, <-q.scan.ended)
		}
		for q.tasks > 0 {
			q.endTask(<-q.endedTasks)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.lanes.Woken():
			q.scan.endRest()
		case <-timer.C:
		case f := <-q.endedTasks:
			q.endTask(f)
		case s := <-q.scan.ended:
			q.scan.end(ctx, s)
		}
		if q.scan.dueIn() <= 0 {
			q.scan.begin(ctx)
		}
		again := q.runRound(ctx)
		timer.Reset(max(0, min(again, q.scan.dueIn())))
	}
}

// runRound begins claims of the lanes that are due, as many as the submitter has room for, and
// returns the time until the next round.
func (q *Queuer) runRound(ctx context.Context) (again time.Duration) {
	for ctx.Err() == nil {
		if wait := time.Until(q.downUntil); wait > 0 {
			return wait
		}
		room, wait := q.submitter.Room()
		if room -= q.tasksRoom; room <= 0 || q.tasks == maxTasks || q.tasks > 0 && room < q.options.LanesPerClaim/8 {
			return cmp.Or(wait, time.Hour) // the end of a claim wakes the queuer, too
		}
		lanes := q.lanes.Take(min(q.options.LanesPerClaim, room))
		if len(lanes) == 0 {
			break
		}
		q.beginClaim(ctx, lanes, room)
	}
	return q.lanes.Next()
}

// beginClaim begins a claim of the lanes in taken whose services are open. If it panics, which
// ends Run, it puts the lanes back into the table.
func (q *Queuer) beginClaim(ctx context.Context, taken []batch.ServiceID, room int) {
	begun := false
	defer func() {
		if !begun {
			q.lanes.Back(time.Now(), taken...)
		}
	}()
	var open []batch.ServiceID
	for _, s := range taken {
		if wait := q.submitter.Closed(s); wait > 0 {
			q.lanes.Back(time.Now().Add(wait), s)
		} else {
			open = append(open, s)
		}
	}
	begun = true
	if len(open) > 0 {
		q.startTask(ctx, open, room)
	}
}

// startTask starts a claim from lanes, beside the claims under way.
func (q *Queuer) startTask(ctx context.Context, lanes []batch.ServiceID, room int) {
	room = min(room, q.options.LanesPerClaim)
	if window := q.options.Query.Window; window <= room/len(lanes) { // compared in this way, no window makes the product overflow
		room = window * len(lanes)
	}
	f := claimTask{room: room, roomLeft: room}
	q.tasks++
	q.tasksRoom += f.room
	go func() {
		q.claimer.claimInHalves(ctx, lanes, &f)
		f.strategyErrs = q.claimer.strategyErrs.take()
		q.endedTasks <- f
	}()
}

// endTask records the end of a claim.
func (q *Queuer) endTask(f claimTask) {
	q.tasks--
	q.tasksRoom -= f.room
	if f.err != nil {
		q.options.Trouble(f.err)
	}
	for _, s := range f.heldLanes {
		q.options.Held(s, f.err)
	}
	for _, b := range f.strategyErrs {
		q.options.Held(b.service, b.err)
	}
	// A lane that has failed is claimed from alone, so claims in a row may be of one lane. One
	// lane that fails again and again does not show that the store fails.
	if f.hasSucceeded {
		q.failedLanes = 0
	}
	if f.failedLanes > 1 || f.failedLane != q.failedLane {
		q.failedLanes += f.failedLanes
	}
	if q.failedLane = f.failedLane; f.failedLanes > 0 && q.failedLanes >= maxFailedLanes {
		q.downUntil = time.Now().Add(q.pauses.NextBackOff())
	} else if q.failedLanes == 0 {
		q.pauses.Reset()
	}
}
