package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/ask"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/internal/events"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// run is one Run: its parts and their connections.
type run struct {
	common
	lanes      *lanes.Table
	queuer     *claim.Queuer
	submitter  *submit.Submitter
	monitor    *ask.Monitor
	recorder   *groups.Recorder
	table      *inhand.Table
	keeper     *groups.Keeper
	vitals     *vitals
	reporter   *events.Run
	admission  *admission
	stopCounts stopCounts
}

// groupSize is the most outcomes in one write, groupBytes the most bytes of receipts beside those
// of its first outcome, and Linger how long an acceptance waits for others that are written with
// it (docs/design.md#defaults).
const (
	groupSize  = 500
	groupBytes = 16 << 20
	Linger     = 2 * time.Millisecond
)

// maxClaimedBytes is the most bytes of payloads that are claimed and not yet posted, beside the
// last batches of two claims.
const maxClaimedBytes = 64 << 20

// scanLanes is the most lanes that one scan reads (docs/design.md#how-a-claim-works).
const scanLanes = 5000

func newRun(all common, n *events.Run) *run {
	o := all.options
	r := &run{common: all, vitals: newVitals(all.ledger.names()...), reporter: n, lanes: lanes.New(max(1, o.ClaimLimit/2))}
	r.admission = newAdmission(all, r.storeOf(""), n.Unserved)
	r.table = inhand.New(r.tableOptions())
	settings := groups.Settings{Linger: Linger, MaxItems: groupSize, MaxBytes: groupBytes, RetryFor: o.ClaimTTL, Timeout: o.ClaimTTL / 4}
	r.recorder = groups.NewRecorder(r.storeOf("recorder"), settings, r.onWritten, r.onOutcomesLost, r.trouble("recorder"))
	r.keeper = groups.NewKeeper(r.storeOf("keeper"), groupSize, o.ClaimTTL/4)
	r.ledger.meter, r.ledger.admission = newLedgerMeter(all.store.reportCall, r.vitals), r.admission
	r.submitter = submit.New(r.ledger, submit.Options{
		MaxRequests: o.Pool, RequestTimeout: o.RequestTimeout, Retry: o.QuickRetry, Reliant: o.Strategy.ReliesOnOrder,
		MaxBatches: o.ClaimLimit, MaxBytes: maxClaimedBytes,
		Rules:  submitter.Rules{FirstCheck: o.FirstPoll, Delay: o.RetryDelay, StuckAfter: o.StuckAfter},
		Keep:   r.keeper.Keep,
		Trace:  r.events.TraceRequest(),
		Record: r.table.Answered,
		Ready:  r.lanes.Wake,
		Paused: func(sc submit.Scope, err error) {
			n.Paused(pauseOf(sc), err)
			r.tellAllLanes() // another process may reach the ledger
		},
		Resumed: func(sc submit.Scope) { n.Resumed(pauseOf(sc)) },
	})
	r.queuer = claim.New(r.claimingStoreOf("queuer"), r.submitter, r.lanes, claim.Options{
		Strategy: o.Strategy, Query: r.ClaimQuery(), Margin: o.Margin, RequestTime: o.RequestTimeout, ScanInterval: o.ScanInterval, Rest: r.idleScanRest,
		// No other process gets a batch that this engine asks about from memory before
		// PollInterval has passed.
		BusyRest:     min(o.ScanInterval, o.PollInterval),
		LanesPerScan: scanLanes, LanesPerClaim: o.ClaimLimit, MaxBytes: r.submitter.BytesLeft,
		KeepsOrder: r.ledger.keepsOrder,
		Held:       r.events.LaneHeld,
		Trouble:    r.trouble("queuer"),
		Claimed:    r.onClaimed,
	})
	r.monitor = ask.New(r.claimingStoreOf("monitor"), r.ledger, r.table, ask.Options{
		Rules: monitor.Rules{
			TTL: o.ClaimTTL, FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, StuckAfter: o.StuckAfter,
			Delay: o.RetryDelay, Budget: o.BudgetOf, AssumeNotCommitted: o.ResendAtRiskOfExecutingTwice,
			Reliant: o.Strategy.ReliesOnOrder,
		},
		Connections: o.StatusConnections, RequestTimeout: o.RequestTimeout, RowsPerRead: groupSize,
		MaxStreams: o.MaxStreams,
		Empty:      r.queuer.Empty, Rest: r.idleRest, Trouble: r.trouble("monitor"), Vanished: n.Vanished,
	})
	return r
}

// onClaimed is called with a run that is about to be posted.
func (r *run) onClaimed(ctx context.Context, run store.ClaimedRun) {
	r.monitor.Follow(run.Service)
	r.table.Claimed(run)
	r.reporter.Claimed(ctx, run)
}

// onWritten is called with outcomes that the store has answered about.
func (r *run) onWritten(group []inhand.Recorded) {
	r.noteWritten(group)
	r.monitor.DueIn(r.table.Written(group))
	r.wantReceipts(group)
	// The next group waits for the reports, which may ask the store.
	ctx, cancel := context.WithTimeout(context.Background(), r.options.ClaimTTL/8)
	defer cancel()
	for _, w := range group {
		if w.Finding == store.Unposted && w.Applied.Result == store.Written {
			r.stopCounts.addClaimPutBack()
		}
		r.reporter.Written(ctx, w)
	}
}

// onOutcomesLost is called with outcomes that the recorder gave up.
func (r *run) onOutcomesLost(all []store.Outcome) {
	r.stopCounts.addLostWrites(len(all))
	r.table.Lost(all)
}

// wantReceipts tells the monitor of commits without receipts that this process was the first to
// record.
func (r *run) wantReceipts(group []inhand.Recorded) {
	for i := range group {
		w := &group[i]
		if w.Finding == store.IsCommitted && w.Applied.Result == store.Written && len(w.Applied.Row.Receipts) == 0 &&
			(w.Applied.From != batch.Committed || w.Again) {
			r.monitor.Committed(w.Applied.Ref, w.Applied.Row.Attempt, w.Prepared)
		}
	}
}

// storeOf returns the store for the loop.
func (r *run) storeOf(loop string) meteredStore {
	return meteredStore{Store: r.store.Store, meter: newStoreMeter(r.store.reportCall, r.vitals), loop: loop, recalled: r.recalled}
}

// claimingStoreOf returns the store for a loop that gets batches from it.
func (r *run) claimingStoreOf(loop string) meteredStore {
	a := r.storeOf(loop)
	a.admission, a.takeForgotten = r.admission, r.endForgotten
	return a
}

// deliver blocks until ctx is done and all parts have ended.
func (r *run) deliver(ctx context.Context) error {
	// Recording goes on after ctx is done: the outcomes of work under way are recorded, within a
	// time limit.
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	keeping, kept := context.WithCancel(recording)
	defer kept()
	var parts, keeper, recorder sync.WaitGroup
	recorder.Go(func() { r.recorder.Run(recording) })
	keeper.Go(func() { r.keeper.Run(keeping) })
	parts.Go(func() { r.submitter.Run(ctx) })
	part := func(name string, run func(context.Context)) {
		parts.Go(func() { r.keepRunning(ctx, name, run) })
	}
	part("queuer", r.queuer.Run)
	part("monitor", r.monitor.Run)
	part("upkeep", r.upkeep)
	part("hints", r.hearHints)
	if r.options.Retention > 0 {
		part("retention", r.keepPruning)
	}
	shown := r.newPresence()
	if shown != nil {
		part("stats", func(ctx context.Context) { shown.run(ctx, r.options.ClaimTTL/4, r.trouble("stats")) })
	}

	<-ctx.Done()
	r.stopCounts.noteStart()
	r.logStopping(context.WithoutCancel(ctx))
	bound := time.NewTimer(r.options.Drain)
	defer bound.Stop()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		parts.Wait()
		kept()
		keeper.Wait()
		r.recorder.Close()
		recorder.Wait()
		r.tellAtEnd(recording)
		if shown != nil {
			if err := shown.removeRow(recording); err != nil {
				r.events.Trouble("stats", err)
			}
		}
	}()
	select {
	case <-rest:
		return nil
	case <-bound.C:
		stop() // outcomes that are not written yet are found by the next start
	}
	bound.Reset(lastWritesTime)
	select {
	case <-rest:
		return nil
	case <-bound.C:
		return fmt.Errorf("run: %w after %s", ErrDrain, r.options.Drain)
	}
}

// keepRunning runs a part until ctx is done. A part retries its own failures, and is started again
// after a panic.
func (r *run) keepRunning(ctx context.Context, part string, run func(context.Context)) {
	loop.Run(ctx, func(ctx context.Context) error { run(ctx); return nil }, r.trouble(part))
}

// trouble returns the function that reports a part's trouble.
func (r *run) trouble(part string) func(error) {
	return func(err error) { r.events.Trouble(part, err) }
}

// tableOptions connects the table in hand with the other parts.
func (r *run) tableOptions() inhand.Options {
	o := r.options
	hold := min(holdPolls*o.FirstPoll, o.ClaimTTL/4)
	reliant := o.Strategy.ReliesOnOrder
	if reliant {
		hold = 0 // the lane goes on once the run is acknowledged, so acceptances do not wait
	}
	return inhand.Options{
		Rules:  inhand.Rules{FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, MaxHold: hold},
		TTL:    o.ClaimTTL,
		Traits: r.ledger.Traits, WholeRuns: reliant, MayWait: r.mayWaitUnwritten,
		Write: r.write,
		Lanes: r.lanes,
	}
}

// holdPolls is the most time, in units of FirstPoll, that an acceptance waits for the answer to
// the first question about its batch.
const holdPolls = 10

// mayWaitUnwritten reports whether an acceptance may wait for the ledger's next answer. This is so
// if the batch, with nothing written after its claim, could still be sent again once the claim has
// ended and the monitor has asked and found no trace.
func (r *run) mayWaitUnwritten(o store.Outcome) bool {
	if o.Was == nil {
		return false
	}
	t := r.ledger.termsOf(o.Key.Service)
	asked := max(t.LateArrival, t.Grace) + r.options.PollInterval
	return t.resend().Allows(o.Was.ResendUntil.Sub(o.Was.ClaimExpires), asked+r.options.ClaimTTL)
}

// write gives outcomes to the recorder.
func (r *run) write(first store.Outcome, rest ...store.Outcome) {
	r.addPolicy(&first)
	for i := range rest {
		r.addPolicy(&rest[i])
	}
	r.recorder.Put(first, rest...)
}

// addPolicy adds this Runner's policy and instance to an outcome.
func (r *run) addPolicy(o *store.Outcome) {
	o.Policy = r.options.Policy
	if o.Report != nil {
		o.Report.Instance = r.options.Instance
	}
}

// lastWritesTime is the time that loops have to end after their context is done.
const lastWritesTime = 500 * time.Millisecond

// pauseOf returns the pause of a scope.
func pauseOf(sc submit.Scope) health.Pause {
	return health.Pause{Ledger: sc.Ledger, Service: sc.Service, All: sc.All}
}

// allPaused reports whether nothing at all is posted, because each of the ledgers is paused. It is
// false for a client that stands for ledgers which it does not name.
func allPaused(ledgers []string, pauses []health.Pause) bool {
	return len(ledgers) > 0 && !slices.ContainsFunc(ledgers, func(name string) bool {
		return !slices.ContainsFunc(pauses, func(p health.Pause) bool { return p.All && p.Ledger == name })
	})
}

// pauseMemory returns how long a pause counts if nothing is tried after it.
func (r *run) pauseMemory() time.Duration { return max(health.PauseMemory, 2*r.options.ScanInterval) }

// health returns how this Run is doing.
func (r *run) health() health.Health {
	now := time.Now()
	h := r.events.Health(now)
	h.Running = true
	r.vitals.fillHealth(now, &h)
	memory := r.pauseMemory()
	h.Pauses = slices.DeleteFunc(h.Pauses, func(p health.Pause) bool {
		return r.submitter.PauseOver(submit.Scope{Ledger: p.Ledger, Service: p.Service, All: p.All}, memory)
	})
	if len(h.Pauses) == 0 {
		h.Pauses = nil
	}
	h.Paused = allPaused(r.vitals.ledgerNames, h.Pauses)
	h.Pool = health.Use{Busy: r.submitter.Busy(), Size: r.options.Pool}
	h.StatusConnections = health.Use{Busy: r.monitor.Busy(), Size: r.options.StatusConnections}
	h.Claims = r.table.Unfinished()
	h.Hints, h.Rest = r.hintsHealth(), r.options.IdlePause
	return h
}
