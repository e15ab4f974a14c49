package dltbatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// engine is one Run: the parts and their connections.
type engine struct {
	r         *Runner
	queuer    *queuer.Queuer
	submitter *submitter.Submitter
	monitor   *monitor.Monitor
	recorder  *groups.Recorder
	table     *inhand.Table
	keeper    *groups.Keeper
	vitals    *vitals
	gate      *gate
	notices   notices
	end       *ending
	over      atomic.Bool // run has returned, perhaps with ErrDrain
}

// groupSize is how many outcomes one write has at most, groupBytes how many bytes of receipts beside its
// first outcome, and linger how long an acceptance waits
// for others to be written with it (docs/design.md#defaults).
const (
	groupSize  = 500
	groupBytes = 16 << 20
	linger     = 2 * time.Millisecond
)

// handBytes is how many bytes of payloads are claimed and not yet posted, beside the last batches of two
// claims.
const handBytes = 64 << 20

// scanLanes is how many lanes one scan reads at most (docs/design.md#how-a-claim-works).
const scanLanes = 5000

func newEngine(r *Runner) *engine {
	o := r.o
	e := &engine{r: r, vitals: newVitals(r.calls), end: &ending{}}
	e.gate = newGate(r, e.unserved)
	e.notices = notices{r, e.end, queuer.ReliesOnOrder(o.Strategy)}
	e.table = inhand.New(e.tableOptions())
	settings := groups.Settings{Linger: linger, Max: groupSize, MaxBytes: groupBytes, Retry: o.ClaimTTL, Timeout: o.ClaimTTL / 4}
	e.recorder = groups.NewRecorder(e.store("recorder"), settings, e.written, e.lost, func(err error) { r.trouble("recorder", err) })
	e.keeper = groups.NewKeeper(e.store("keeper"), groupSize, o.ClaimTTL/4)
	var lists dlt.ListSubmitter
	if l, ok := r.ledger.Ledger.(dlt.ListSubmitter); ok {
		lists = gatedLists{watchedLists{listGuard{l, r}, e.vitals}, e.gate}
	}
	var preparer dlt.Preparer
	if p, ok := r.ledger.Ledger.(dlt.Preparer); ok {
		preparer = gatedPreparer{watchedPreparer{p, e.vitals}, e.gate}
	}
	e.submitter = submitter.New(gatedLedger{watchedLedger{r.ledger, e.vitals}, e.gate}, submitter.Options{
		Pool: o.Pool, RequestTimeout: o.RequestTimeout, Retry: o.quick, Reliant: queuer.ReliesOnOrder(o.Strategy),
		ClaimLimit: o.ClaimLimit, Bytes: handBytes,
		Rules:    submitter.Rules{FirstCheck: o.FirstPoll, Delay: o.retryDelay, StuckAfter: o.StuckAfter},
		Lists:    lists,
		Preparer: preparer,
		Keep:     e.keepPrepared,
		Trace:    r.traceRequest(),
		Record:   func(o store.Outcome) { e.table.Answered(o, o.Post.Took) },
		Ready:    func() { e.queuer.Wake() },
		Paused:   e.paused,
		Resumed:  e.resumed,
	})
	e.queuer = queuer.New(heldStore{gatedStore{e.store("queuer"), e.gate}, e}, e.submitter, queuer.Options{
		Strategy: o.Strategy, TTL: o.ClaimTTL, Margin: o.margin(), Request: o.RequestTimeout, ScanInterval: o.ScanInterval,
		// A batch that this engine asks about from memory is given to no other process before
		// PollInterval.
		Busy:      min(o.ScanInterval, o.PollInterval),
		ScanLanes: scanLanes, Lanes: o.ClaimLimit, Bytes: e.submitter.BytesLeft,
		Resend: r.resend, MaxInFlight: r.maxInFlight, KeepsOrder: r.keepsOrder, Budget: o.budget, Instance: o.Instance, StuckAfter: o.StuckAfter,
		Held:    func(s batch.ServiceID, err error) { r.laneHeld(s, err) },
		Trouble: func(err error) { r.trouble("queuer", err) },
		Claimed: func(ctx context.Context, run store.ClaimedRun) {
			e.monitor.Follow(run.Service)
			e.table.Claimed(run)
			e.notices.claimed(ctx, run)
		},
	})
	var resolver dlt.Resolver
	if l, ok := r.ledger.Ledger.(dlt.Resolver); ok {
		resolver = gatedResolver{watchedResolver{l, e.vitals}, e.gate}
	}
	var events dlt.EventSource
	if l, ok := r.ledger.Ledger.(dlt.EventSource); ok {
		events = watchedEvents{l, e.vitals}
	}
	e.monitor = monitor.New(heldStore{gatedStore{e.store("monitor"), e.gate}, e}, gatedLedger{watchedLedger{r.ledger, e.vitals}, e.gate}, e.table, monitor.Options{
		Rules: monitor.Rules{
			TTL: o.ClaimTTL, FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, StuckAfter: o.StuckAfter,
			Delay: o.retryDelay, Budget: o.budget, AssumeNotCommitted: o.ResendAtRiskOfExecutingTwice,
			Reliant: queuer.ReliesOnOrder(o.Strategy),
		},
		Connections: o.StatusConnections, RequestTimeout: o.RequestTimeout, Batches: groupSize,
		Traits: r.ledger.Traits, Resolver: resolver, Events: events, Streams: o.Streams,
		// A scan is as good as a look of the monitor, where both come about as often.
		Empty:   func() bool { return e.queuer.Empty(2 * o.PollInterval) },
		Trouble: func(s batch.ServiceID, err error) { r.trouble("monitor", err) },
		Vanished: func(key batch.Key, now batch.Reported) {
			r.report(batch.Event{Kind: batch.EventVanished, Key: key, State: batch.Committed, Err: fmt.Errorf("the ledger says %s", now)})
		},
	})
	return e
}

// written takes outcomes that the store has answered about.
func (e *engine) written(group []inhand.Recorded) {
	e.holds(group)
	e.table.Written(group)
	e.wantReceipts(group)
	// The next group waits for the notices, which may ask the store.
	ctx, cancel := context.WithTimeout(context.Background(), e.r.o.ClaimTTL/8)
	defer cancel()
	for _, w := range group {
		e.notices.written(ctx, w)
	}
}

// lost takes outcomes that the recorder gave up.
func (e *engine) lost(all []store.Outcome) {
	e.end.lostOutcomes(len(all))
	e.table.Lost(all)
}

// wantReceipts tells the monitor of commits that this process was the first to record, without
// receipts.
func (e *engine) wantReceipts(group []inhand.Recorded) {
	for i := range group {
		w := &group[i]
		if w.Finding == store.IsCommitted && w.Applied.Result == store.Written && len(w.Applied.Row.Receipts) == 0 &&
			(w.Applied.From != batch.Committed || w.Again) {
			e.monitor.Committed(w.Applied.Ref, w.Applied.Row.Attempt, w.Prepared)
		}
	}
}

// store returns the store for one loop.
func (e *engine) store(loop string) watchedStore {
	return watchedStore{e.r.store.Store, e.r.calls, e.vitals, loop}
}

// run blocks until ctx is done and everything has come to rest.
func (e *engine) run(ctx context.Context) error {
	// Recording outlives ctx: the outcomes of started work are recorded, within a bound.
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		e.recorder.Run(recording)
	}()
	keeping, kept := context.WithCancel(recording)
	defer kept()
	var keepers sync.WaitGroup
	keepers.Go(func() { e.keeper.Run(keeping) })
	var parts sync.WaitGroup
	parts.Go(func() {
		e.keep(ctx, "queuer", e.queuer.Run)
	})
	parts.Go(func() {
		e.keep(ctx, "monitor", e.monitor.Run)
	})
	parts.Go(func() { e.submitter.Run(ctx) })
	if e.r.o.Retention > 0 {
		parts.Go(func() {
			e.keep(ctx, "retention", e.retain)
		})
	}
	if s, ok := e.r.store.given().(store.Upkeeper); ok {
		parts.Go(func() {
			e.keep(ctx, "upkeep", func(ctx context.Context) { e.upkeep(ctx, s) })
		})
	}
	shown := e.newPresence()
	if shown != nil {
		parts.Go(func() {
			e.keep(ctx, "stats", func(ctx context.Context) {
				shown.run(ctx, e.r.o.ClaimTTL/4, func(err error) { e.r.trouble("stats", err) })
			})
		})
	}

	e.r.news.started(e.vitals)
	defer func() {
		e.over.Store(true) // before Health is cleared
		e.r.news.stopped()
	}()
	<-ctx.Done()
	e.end.begin()
	e.logStopping(context.WithoutCancel(ctx))
	bound := time.NewTimer(e.r.o.Drain)
	defer bound.Stop()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		parts.Wait()
		kept()
		keepers.Wait()
		e.recorder.Close()
		<-recorded
		if shown != nil {
			if err := shown.end(recording); err != nil {
				e.r.trouble("stats", err)
			}
		}
	}()
	select {
	case <-rest:
		return nil
	case <-bound.C:
		stop() // the next start finds out the outcomes that are not written yet
	}
	bound.Reset(restTime)
	select {
	case <-rest:
		return nil
	case <-bound.C:
		return fmt.Errorf("run: %w after %s", ErrDrain, e.r.o.Drain)
	}
}

// keep runs a part until ctx is done. A part retries its own failures; a panic starts it anew.
func (e *engine) keep(ctx context.Context, part string, run func(context.Context)) {
	loop.Run(ctx, func(ctx context.Context) error { run(ctx); return nil }, func(err error) { e.r.trouble(part, err) })
}

// tableOptions join the table in hand to the parts.
func (e *engine) tableOptions() inhand.Options {
	o := e.r.o
	hold := min(holdPolls*o.FirstPoll, o.ClaimTTL/4)
	reliant := queuer.ReliesOnOrder(o.Strategy)
	if reliant {
		hold = 0 // a lane goes on once a run is acknowledged, so an acceptance does not wait
	}
	_, events := e.r.ledger.Ledger.(dlt.EventSource)
	return inhand.Options{
		Rules:  inhand.Rules{FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, Hold: hold},
		TTL:    o.ClaimTTL,
		Traits: e.r.ledger.Traits, Events: events, Runs: reliant, MayWait: e.outlivesCrash,
		Write: func(first store.Outcome, rest ...store.Outcome) {
			e.complete(&first)
			for i := range rest {
				e.complete(&rest[i])
			}
			e.recorder.Put(first, rest...)
		},
		Due:   func(d time.Duration) { e.monitor.DueIn(d) },
		Free:  func(lanes ...batch.ServiceID) { e.queuer.Hint(lanes...) },
		Over:  func(s batch.ServiceID) { e.queuer.Over(s) },
		Later: func(s batch.ServiceID, d time.Duration) { e.queuer.HintIn(s, d) },
	}
}

// holdPolls is how many times FirstPoll an acceptance waits at most for the answer to the
// first question about it.
const holdPolls = 10

// outlivesCrash reports whether an acceptance may wait for the ledger's next word: a claimed
// batch, with nothing written after the claim, can still be sent again once its claim has ended,
// and the monitor has asked and found no trace.
func (e *engine) outlivesCrash(o store.Outcome) bool {
	if o.Was == nil {
		return false
	}
	t := e.r.ledger.Traits(o.Key.Service)
	asked := max(t.LateArrival, t.Grace) + e.r.o.PollInterval
	return e.r.resend(o.Key.Service).Allows(o.Was.ResendUntil.Sub(o.Was.ClaimExpires), asked+e.r.o.ClaimTTL)
}

// complete adds this Runner's policy and instance to an outcome.
func (e *engine) complete(o *store.Outcome) {
	o.Policy = e.r.o.Policy
	if o.Report != nil {
		o.Report.Instance = e.r.o.Instance
	}
}

// restTime is the time that loops get to end after their context is done.
const restTime = 500 * time.Millisecond
