package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/keeper"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/recorder"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// engine is one Run: the rooms and their connections.
type engine struct {
	r         *Runner
	queuer    *queuer.Queuer
	submitter *submitter.Submitter
	monitor   *monitor.Monitor
	recorder  *recorder.Recorder
	keeper    *keeper.Keeper
	vitals    *vitals
	gate      *gate
	order     *order // nil where the strategy does not rely on the ledger's order
}

// scanLanes is how many lanes one scan reads at most (docs/design.md#how-a-claim-works).
const scanLanes = 5000

func newEngine(r *Runner) *engine {
	e, o := &engine{r: r, vitals: newVitals(), gate: newGate(r)}, r.o
	if queuer.ReliesOnOrder(o.Strategy) {
		e.order = &order{tails: map[batch.ServiceID]batch.ID{}}
	}
	hold := min(holdPolls*o.FirstPoll, o.ClaimTTL/4)
	if e.order != nil {
		hold = 0 // see accepted
	}
	e.recorder = recorder.New(e.store("recorder"), recorder.Options{
		Linger: o.Linger, Max: o.GroupSize, Retry: o.ClaimTTL, Timeout: o.ClaimTTL / 4,
		Hold:    hold,
		Done:    e.recorded,
		Trouble: func(err error) { r.trouble("recorder", err) },
	})
	e.keeper = keeper.New(e.store("keeper"), keeper.Options{Max: o.GroupSize, Timeout: o.ClaimTTL / 4})
	var lists dlt.ListSubmitter
	if l, ok := r.ledger.Ledger.(dlt.ListSubmitter); ok {
		lists = watchedLists{listGuard{l, r}, e.vitals}
	}
	var preparer dlt.Preparer
	if p, ok := r.ledger.Ledger.(dlt.Preparer); ok {
		preparer = watchedPreparer{p, e.vitals}
	}
	e.submitter = submitter.New(watchedLedger{r.ledger, e.vitals}, submitter.Options{
		Pool: o.Pool, RequestTimeout: o.RequestTimeout, Retry: o.quick,
		ClaimLimit: o.ClaimLimit,
		Rules:      submitter.Rules{FirstCheck: o.FirstPoll, Delay: o.retryDelay},
		Lists:      lists,
		Preparer:   preparer,
		Keep:       e.keeper.Keep,
		Record: func(o store.Outcome, took time.Duration) {
			if o.Finding == store.Accepted {
				e.accepted(o, took)
				return
			}
			e.put(o)
		},
		Ready:   func() { e.queuer.Wake() },
		Paused:  r.paused,
		Resumed: r.resumed,
	})
	e.queuer = queuer.New(gatedStore{e.store("queuer"), e.gate}, e.submitter, queuer.Options{
		Strategy: o.Strategy, TTL: o.ClaimTTL, Margin: o.margin(), ScanInterval: o.ScanInterval,
		// A batch that this engine asks about from memory is given to no other process before
		// PollInterval.
		Busy:      min(o.ScanInterval, o.PollInterval),
		ScanLanes: scanLanes, Lanes: o.ClaimLimit,
		Resend: r.resend, MaxInFlight: r.maxInFlight, KeepsOrder: r.keepsOrder, Budget: o.budget, Instance: o.Instance,
		Held:    func(s batch.ServiceID, err error) { r.laneHeld(s, err) },
		Trouble: func(err error) { r.trouble("queuer", err) },
		Claimed: func(run store.ClaimedRun) {
			e.monitor.Follow(run.Service)
			e.claimed(run)
			for _, c := range run.Batches {
				r.observe(context.Background(), batch.Event{Kind: batch.EventClaimed, Key: c.Key, State: batch.Submitting, Attempt: c.Attempt})
			}
		},
	})
	var resolver dlt.Resolver
	if l, ok := r.ledger.Ledger.(dlt.Resolver); ok {
		resolver = watchedResolver{l, e.vitals}
	}
	var events dlt.EventSource
	if l, ok := r.ledger.Ledger.(dlt.EventSource); ok {
		events = watchedEvents{l, e.vitals}
	}
	e.monitor = monitor.New(gatedStore{e.store("monitor"), e.gate}, watchedLedger{r.ledger, e.vitals}, updater{e}, monitor.Options{
		Rules: monitor.Rules{
			TTL: o.ClaimTTL, FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, StuckAfter: o.StuckAfter,
			Delay: o.retryDelay, Budget: o.budget, AssumeNotCommitted: o.ResendAtRiskOfExecutingTwice,
		},
		Connections: o.StatusConnections, RequestTimeout: o.RequestTimeout, Batches: o.GroupSize,
		Traits: r.ledger.Traits, Resolver: resolver, Events: events, Streams: o.Streams,
		Trouble: func(s batch.ServiceID, err error) { r.trouble("monitor", err) },
		Vanished: func(key batch.Key, now batch.Reported) {
			r.observe(context.Background(), batch.Event{Kind: batch.EventVanished, Key: key, State: batch.Committed, Err: fmt.Errorf("the ledger says %s", now)})
		},
	})
	return e
}

// store returns the store for one loop.
func (e *engine) store(loop string) watchedStore { return watchedStore{e.r.store, e.vitals, loop} }

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
	var rooms sync.WaitGroup
	rooms.Go(func() {
		e.keep(ctx, "queuer", e.queuer.Run)
	})
	rooms.Go(func() {
		e.keep(ctx, "monitor", e.monitor.Run)
	})
	rooms.Go(func() { e.submitter.Run(ctx) })
	if e.r.o.Retention > 0 {
		rooms.Go(func() {
			e.keep(ctx, "retention", e.retain)
		})
	}
	if s, ok := e.r.store.Store.(store.Upkeeper); ok {
		rooms.Go(func() {
			e.keep(ctx, "upkeep", func(ctx context.Context) { e.upkeep(ctx, s) })
		})
	}

	e.r.health.started(e.vitals)
	defer e.r.health.stopped()
	<-ctx.Done()
	bound := time.NewTimer(e.r.o.Drain)
	defer bound.Stop()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		rooms.Wait()
		kept()
		keepers.Wait()
		e.recorder.Close()
		<-recorded
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

// keep runs a room until ctx is done. A room retries its own failures; a panic starts it anew.
func (e *engine) keep(ctx context.Context, room string, run func(context.Context)) {
	loop.Run(ctx, func(ctx context.Context) error { run(ctx); return nil }, func(err error) { e.r.trouble(room, err) })
}

// restTime is the time that loops get to end after their context is done.
const restTime = 500 * time.Millisecond

// Retention prunes in chunks, with pauses, so that nobody waits for it.
const (
	pruneChunk = 500
	prunePause = 100 * time.Millisecond // while there is more
	pruneEvery = time.Minute
)

// retain removes batches that were final long ago, until ctx is done.
func (e *engine) retain(ctx context.Context) {
	q := store.PruneQuery{OlderThan: e.r.o.Retention, Limit: pruneChunk, Tombstone: e.r.buries}
	for pause := prunePause; loop.Sleep(ctx, pause); {
		var pruned store.Pruned
		err := loop.Retry(ctx, func(err error) { e.r.trouble("retention", fmt.Errorf("prune: %w", err)) }, func() (err error) {
			pruned, err = e.prune(ctx, q)
			return err
		})
		if err != nil {
			return // it stops
		}
		pause = pruneEvery
		if pruned.More(q) {
			pause = prunePause
		}
	}
}

func (e *engine) prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	ctx, cancel := context.WithTimeout(ctx, e.r.o.ClaimTTL/4)
	defer cancel()
	return e.store("retention").Prune(ctx, q)
}

// recorded is called with every group of outcomes that the store has answered about. It wakes
// the lanes concerned first, all at once, so that lanes that can go on together do.
func (e *engine) recorded(group []recorder.Written) {
	var free []batch.ServiceID
	for _, w := range group {
		if e.order.acknowledged(w.Outcome) { // a run's last batch: its lane may go on
			free = append(free, w.Key.Service)
		}
	}
	for _, w := range group {
		switch {
		case !applied(w): // another process was faster, and has notified only its own queuer
			e.queuer.Over(w.Key.Service)
		case w.Applied.Row.Final() && !e.order.out(w.Key.Service):
			free = append(free, w.Key.Service)
		}
	}
	e.queuer.Hint(free...)
	for _, w := range group {
		e.tell(w)
	}
}

// applied reports whether the row is as the outcome says.
func applied(w recorder.Written) bool { return w.Applied.Result == store.Written }

// tell does recorded's work for one outcome.
func (e *engine) tell(w recorder.Written) {
	ctx := context.Background()
	key, row := w.Key, w.Applied.Row
	if applied(w) {
		e.monitor.Stored(w.Applied.Ref, &row, w.Check)
	} else {
		e.monitor.Stored(w.Ref, nil, 0)
	}
	switch w.Applied.Result {
	case store.Bad:
		e.r.trouble("store", w.Applied.Err)
		return
	case store.Gone, store.Fenced:
		e.r.o.Logger.DebugContext(ctx, "late outcome changed nothing", attrs(key, w.Finding.String())...)
		return
	}
	if w.By == batch.ByMonitor {
		e.monitor.Forget(key.ID, w.Version)
	}
	if row.State == batch.Committed {
		e.monitor.Watch(key)
		e.r.health.halt(key.Service, false)
	}
	if row.State == batch.Committed && w.Applied.From == batch.Committed && !w.Again {
		e.r.final(key) // somebody else recorded it, and reports it
		return
	}
	if w.By == batch.BySubmitter && w.Finding == store.IsCommitted && w.Applied.From == batch.Submitting { // two outcomes in one: see accepted
		e.r.observe(ctx, batch.Event{Kind: batch.EventState, Key: key, State: batch.Pending, Attempt: row.Attempt})
	}
	breach := e.overtaken(w.Outcome, w.Applied)
	event := eventOf(w, breach)
	if breach != nil && row.State != batch.Committed {
		e.r.breach(key, row.State, row.Attempt, breach)
	}
	switch {
	case row.Final():
		e.r.final(key)
	case row.State.Claimable():
		e.queuer.HintIn(key.Service, w.Delay)
	case w.Finding == store.Accepted:
		e.r.health.halt(key.Service, false) // somebody released it
		if w.Check < e.r.o.PollInterval || !e.monitor.Mind(row.InFlight(w.Applied.Ref, w.Budget, row.LastPost)) {
			e.monitor.DueIn(w.Check)
		}
	default:
		e.monitor.DueIn(w.Check)
	}
	if w.Finding == store.IsPending && w.Applied.From == batch.Pending {
		return // no state changed; the row keeps which node has shown the batch
	}
	e.r.observe(ctx, event)
	if w.Applied.Halted && applied(w) {
		event.Kind = batch.EventHalted
		if w.Applied.Halt != "" {
			event.Err = errors.New(w.Applied.Halt)
			e.r.health.halt(key.Service, true)
		}
		e.r.observe(ctx, event)
	}
	if row.Quarantined && event.Kind == batch.EventFinal {
		event.Kind = batch.EventQuarantined
		e.r.observe(ctx, event)
	}
}

// eventOf returns the observer's event for an outcome that was written.
func eventOf(w recorder.Written, breach error) batch.Event {
	row := w.Applied.Row
	event := batch.Event{Kind: batch.EventState, Key: w.Key, State: row.State, Attempt: row.Attempt, Err: asError(row.Error)}
	switch {
	case w.Applied.Breach:
		event.Kind = batch.EventOrderBreach
	case breach != nil && row.State == batch.Committed:
		event.Kind, event.Err = batch.EventOrderBreach, breach
	case row.Final():
		event.Kind = batch.EventFinal
	case w.Finding == store.Doubtful || (row.State == batch.Submitting && w.Finding != store.Undecidable):
		event.Kind = batch.EventInDoubt
	case w.Finding == store.Undecidable:
		event.Kind, event.Err = batch.EventDecision, errors.New(row.Decision)
	}
	return event
}

func asError(e *batch.SubmissionError) error {
	if e == nil {
		return nil
	}
	return e
}

// updater takes the monitor's outcomes.
type updater struct{ e *engine }

func (u updater) Put(all []store.Outcome) { u.e.recorder.PutAll(u.completed(all)) }

// Told is Put for commits that the ledger reported by an event.
func (u updater) Told(all []store.Outcome) { u.e.recorder.Told(u.completed(all)) }

func (u updater) completed(all []store.Outcome) []store.Outcome {
	for i := range all {
		u.e.complete(&all[i])
	}
	return all
}

// Free lets go of acceptances that wait for the monitor's answer.
func (u updater) Free(keys []batch.Key) { u.e.recorder.Free(keys) }

// holdPolls is how many times FirstPoll an acceptance waits at most for the answer to the
// first question about it.
const holdPolls = 10

// maxToldHold is how long an acceptance may wait for an event, without a question to the
// ledger.
const maxToldHold = time.Second

// accepted records that the ledger has taken a batch. If the monitor asks about it soon, or
// the ledger reports its commits by events, the acceptance waits for the answer, so that a
// quick commit and the acceptance are one write: a lane does not go on before the batch is
// final anyhow. It does not wait where the strategy relies on the ledger's order: there the
// lane goes on once a run is acknowledged. Nor does it wait where a crash would leave a doubt,
// because sending the batch again could execute it twice.
func (e *engine) accepted(o store.Outcome, took time.Duration) {
	o.Check = e.monitor.Minds(e.monitor.FirstCheck(o.Key, took))
	quick := e.order == nil && o.Was != nil && e.outlivesCrash(o.Key.Service, o.Was)
	names := holdPolls*e.r.o.FirstPoll <= maxToldHold && e.monitor.Names(o.Key.Service)
	if quick && (names || e.monitor.MindSoon(o.Ref, o.Was)) {
		e.complete(&o)
		e.recorder.Hold(o)
		return
	}
	e.put(o)
}

// outlivesCrash reports whether a claimed batch, with nothing written after the claim, can
// still be sent again once its claim has ended, and the monitor has asked and found no trace.
func (e *engine) outlivesCrash(service batch.ServiceID, claimed *store.Row) bool {
	t := e.r.ledger.Traits(service)
	asked := max(t.LateArrival, t.Grace) + e.r.o.PollInterval
	return e.r.resend(service).Allows(claimed.ResendUntil.Sub(claimed.ClaimExpires), asked+e.r.o.ClaimTTL)
}

// put records an outcome, completed by this Runner.
func (e *engine) put(o store.Outcome) {
	e.complete(&o)
	e.recorder.Put(o)
}

// complete adds this Runner's policy and instance to an outcome.
func (e *engine) complete(o *store.Outcome) {
	o.Policy = e.r.o.Policy
	if o.Report != nil {
		o.Report.Instance = e.r.o.Instance
	}
}
