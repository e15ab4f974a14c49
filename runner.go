package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/acts"
	"github.com/dltbatch/dltbatch/internal/await"
	"github.com/dltbatch/dltbatch/internal/held"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/lossy"
	"github.com/dltbatch/dltbatch/internal/repeats"
	"github.com/dltbatch/dltbatch/store"
)

// Errors of a [Runner].
var (
	// ErrRunning: this Runner's Run has not returned yet.
	ErrRunning = errors.New("dltbatch: already running")
	// ErrOtherLedger: the database belongs to another ledger. Use another database,
	// or schema, for this one. It also comes where another ledger serves the service alone.
	ErrOtherLedger = errors.New("dltbatch: the database belongs to another ledger")
	// ErrDrain: a stop took longer than Options.Drain, because a ledger client or the store
	// ignores its context. Its goroutines are left behind. Nothing is lost: the next start
	// asks the ledger about every attempt without a recorded outcome.
	ErrDrain = errors.New("dltbatch: not at rest")
)

// Runner delivers the batches in a store. Its methods may be called concurrently. Any number
// of Runners, in any number of processes, may share a database.
type Runner struct {
	store  watchedStore // outside of the loops
	ledger guard
	desk   acts.Desk
	o      Options

	running  atomic.Bool
	engine   atomic.Pointer[engine]            // while Run runs
	reporter atomic.Pointer[func(batch.Event)] // while Run runs: observe with its context's values
	waiters  *await.Waiters[batch.Key, batch.Record]
	idlers   idlers
	news     news
	queues   []*lossy.Queue[delivery] // of Options.Observers
	calls    calls
	flow     flow
	sums     *repeats.Log[topic, write]
	held     *held.Batches

	droppedTraces atomic.Uint64
}

// New joins a store and a ledger. It starts nothing and does no I/O. nil options mean the
// defaults. Bad options give a [*batch.InputError]; if two values contradict each other it
// names both. A strategy that relies on the order of submission, such as [queuer.Pipelined],
// is refused too if the ledger's traits for the service "" do not declare that the ledger
// keeps this order. So is a store that lacks an optional interface which the options or these
// traits need ([store.Abilities]).
func New(s store.Store, l dlt.Ledger, o *Options) (*Runner, error) {
	if isnil.Is(s) {
		return nil, optionError("store", nil, "a store")
	}
	if isnil.Is(l) {
		return nil, optionError("ledger", nil, "a ledger")
	}
	opts := o.withDefaults()
	var err error
	if opts.Strategy, err = steadied(opts.Strategy); err != nil {
		return nil, err
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	var traits dlt.Traits
	if err := loop.Contain(func() error { traits = l.Traits(""); return nil }); err != nil {
		return nil, fmt.Errorf("the ledger's traits: %w", err)
	}
	if err := dlt.CheckAbilities(l, traits); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := checkOrder(traits, opts); err != nil {
		return nil, err
	}
	if err := checkStore(s, o, opts, traits); err != nil {
		return nil, err
	}
	if !is[store.Pruner](s) {
		opts.Retention = -1
	}
	r := &Runner{o: opts, sums: newSums(), held: held.New(held.DefaultBytes)}
	if o != nil && o.Logger != nil {
		r.o.Logger = slog.New(logHandler{o.Logger.Handler(), r.news.troubled})
	}
	r.queues, r.calls = r.newQueues(), r.newCalls()
	r.store = watchedStore{Store: wholeStore(s), calls: r.calls}
	r.waiters = await.New(await.Options[batch.Key, batch.Record]{
		Interval: opts.PollInterval, Linger: linger, Timeout: opts.RequestTimeout, Finals: r.store.Finals,
		Key: func(rec batch.Record) batch.Key { return rec.Key },
	})
	r.ledger = guard{Ledger: l, r: r, traits: new(atomic.Bool)}
	r.desk = r.newDesk()
	return r, nil
}

// Run claims, posts and follows batches until ctx is done. Then it claims nothing more, waits
// for the requests in flight, records their outcomes, puts back the batches that it claimed
// and did not send, and returns nil, all within Options.Drain. The same code serves a first
// start, a restart and a takeover from an instance that died.
//
// It returns [ErrRunning] while an earlier Run has not returned, [ErrOtherLedger], an error
// about the ledger's traits, the store's error if the first look at the database fails, or
// [ErrDrain]. It reports and retries all other failures of the store, the ledger and the
// caller's code. While the first look finds a database that takes no writes ([store.ErrReadOnly]), as
// during a failover, Run reports that (EventTrouble, [health.Health].Trouble) and looks again.
func (r *Runner) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	values := context.WithoutCancel(ctx) // an event after the stop is observed like any other
	reporter := func(e batch.Event) { r.observe(values, e) }
	r.reporter.Store(&reporter)
	defer r.reporter.Store(nil)
	err := r.checkLedger(ctx)
	for pause := loop.Brief(); errors.Is(err, store.ErrReadOnly) && ctx.Err() == nil; err = r.checkLedger(ctx) {
		r.trouble("store", err)
		loop.Sleep(ctx, pause.NextBackOff())
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	r.logLosses(ctx)
	r.logStart(values)
	e := newEngine(r)
	r.engine.Store(e)
	defer r.engine.Store(nil)
	err = e.run(ctx)
	r.rest()
	r.sums.End()
	e.logStop(values, err)
	return err
}

// checkLedger records the ledger's name on the first start and refuses any other name later.
func (r *Runner) checkLedger(ctx context.Context) error {
	// Not through the guard: its substitute name after a panic must not be recorded for good.
	var traits dlt.Traits
	if err := loop.Contain(func() error { traits = r.ledger.Ledger.Traits(""); return nil }); err != nil {
		return fmt.Errorf("run: the ledger's traits: %w", err)
	}
	if traits.Name == "" {
		return fmt.Errorf("run: %w", &batch.InputError{Field: "ledger", Want: "a name in its traits"})
	}
	if err := checkRetention(traits, r.o); err != nil {
		return err
	}
	recorded, err := r.store.Ledger(ctx, traits.Name)
	if err != nil {
		return fmt.Errorf("run: record the ledger's name: %w", err)
	}
	if recorded != traits.Name {
		return fmt.Errorf("run: %w: it is %q, this is %q", ErrOtherLedger, recorded, traits.Name)
	}
	return nil
}

// Add checks batches locally, as the ledger would (dlt.Checker), and stores all of them or
// none, in order; see [store.Store]. When it returns nil the batches are durable, and
// this process or another delivers them. Run need not run.
func (r *Runner) Add(ctx context.Context, batches ...batch.Batch) error {
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	batches = r.traced(ctx, batches)
	if err := r.store.Add(ctx, batches...); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	known := map[batch.ServiceID]struct{}{}
	services := make([]batch.ServiceID, 0, len(batches))
	e := r.engine.Load()
	for _, b := range batches {
		r.observe(ctx, batch.Event{Kind: batch.EventAdded, Key: b.Key(), State: batch.Queued})
		if _, ok := known[b.Service]; ok || e == nil {
			continue
		}
		known[b.Service] = struct{}{}
		services = append(services, b.Service)
		e.monitor.Follow(b.Service) // see Wake
	}
	if e != nil {
		e.queuer.Added(services...) // in one call, so that one claim covers them all
	}
	return nil
}

// Wake announces that a service may have a batch to send, for example after the commit of an
// AddTx. Without it the next scans find the batch. A name that no store takes ([batch.Batch].Validate) is
// passed over: no batch can have it.
func (r *Runner) Wake(service batch.ServiceID) {
	if (batch.Key{Service: service, ID: "any"}).Validate() != nil {
		return // nobody would ever forget the name
	}
	if e := r.engine.Load(); e != nil {
		e.monitor.Follow(service) // before the first POST, so that no event about it is missed
		e.queuer.Added(service)
	}
}

// Get returns the record of a batch, or [batch.ErrNotFound].
func (r *Runner) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	rec, err := r.store.Get(ctx, key)
	if err != nil {
		return rec, fmt.Errorf("get: %w", err)
	}
	return rec, nil
}
