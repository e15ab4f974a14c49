package dltbatch

import (
	"context"
	"fmt"
	"iter"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/acts"
	"github.com/dltbatch/dltbatch/internal/await"
	"github.com/dltbatch/dltbatch/internal/engine"
	"github.com/dltbatch/dltbatch/internal/events"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/pages"
	"github.com/dltbatch/dltbatch/store"
)

// Errors of a [Runner].
var (
	// ErrRunning: this Runner's Run has not returned yet.
	ErrRunning = engine.ErrRunning
	// ErrOtherLedger: the database, or one service in it, belongs to another ledger. Use another
	// database, or schema, for this one.
	ErrOtherLedger = engine.ErrOtherLedger
	// ErrDrain: a stop took longer than Options.Drain, because a ledger client or the store
	// ignores its context. Its goroutines are left behind. Nothing is lost: the next start
	// asks the ledger about every attempt without a recorded outcome.
	ErrDrain = engine.ErrDrain
	// ErrOtherTraits comes with a [batch.EventTrouble]: an earlier process under the ledger's name
	// relied on other traits, another claim TTL or another strategy. The error shows both sets as
	// JSON. The new ones are recorded in addition to the old ones, and hold for this process. The
	// cause is a change of settings, or settings that differ between instances.
	ErrOtherTraits = engine.ErrOtherTraits
)

// Runner delivers the batches in a store. Its methods may be called concurrently. Any number
// of Runners, in any number of processes, may share a database.
type Runner struct {
	options     Options
	engine      *engine.Engine
	events      *events.Reporter
	desk        acts.Desk
	waiters     *await.Waiters[batch.Key, batch.Record]
	idleWaiters await.Signal
}

// New joins a store and a ledger. It starts nothing and does no I/O. nil options mean the
// defaults. Bad options give a [*batch.InputError]; if two values contradict each other it
// names both. A strategy that relies on the order of submission, such as [queuer.Pipelined],
// is refused too if the ledger's traits for the service "" do not declare that the ledger
// keeps this order. So is a store that lacks an ability which the options or these
// traits need ([store.Abilities]).
func New(s store.Store, l dlt.Ledger, o *Options) (*Runner, error) {
	if isnil.Is(s) {
		return nil, engine.Bad("store", "nil", "a store, such as sqlite.New's")
	}
	if isnil.Is(l) {
		return nil, engine.Bad("ledger", "nil", "a client, such as sawtooth.New's")
	}
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	r := &Runner{options: opts}
	r.events = events.New(events.Options{
		Instance: opts.Instance, Observer: opts.Observer, Observers: opts.Observers, Calls: opts.Calls,
		TraceParent: opts.TraceParent, TraceRequest: opts.TraceRequest, Logger: opts.Logger, Final: r.onFinal,
	})
	var err error
	if r.engine, err = engine.New(s, l, opts.engineOptions(), r.events); err != nil {
		return nil, err
	}
	r.waiters = await.New(await.Options[batch.Key, batch.Record]{
		Interval: opts.PollInterval, Linger: engine.Linger, Timeout: opts.RequestTimeout, Finals: r.engine.Store().Finals,
		Key:  func(rec batch.Record) batch.Key { return rec.Key },
		Hear: r.engine.HearEnds, Hash: engine.Hash,
	})
	r.desk = acts.Desk{Store: r.engine.Store(), Tell: r.engine.Tell, Done: r.onAct, Steered: r.onSteered, Quiet: r.engine.Quiet, Withdraws: r.engine.Withdraws}
	return r, nil
}

// Run claims, posts and follows batches until ctx is done. Then it claims nothing more, waits
// for the requests in flight, records their outcomes, puts back the batches that it claimed
// and did not send, and returns nil, all within Options.Drain. The same code serves a first
// start, a restart and a takeover from an instance that died.
//
// It returns [ErrRunning] while an earlier Run has not returned, [ErrOtherLedger], an error about
// the ledger's traits, the store's error if the first read of the database fails, or [ErrDrain].
// It reports and retries all other failures of the store, the ledger and the caller's code. While
// the first read finds a database that takes no writes ([store.ErrReadOnly]), as during a
// failover, Run reports that (EventTrouble, [health.Health].Trouble) and reads again.
func (r *Runner) Run(ctx context.Context) error { return r.engine.Run(ctx) }

// Add checks batches locally, as the ledger would (dlt.Ledger.Check), and stores all of them or
// none, in order. When it returns nil the batches are durable, and this process or another
// delivers them. Run need not run.
//
// Batches of a service that another ledger serves are stored all the same if this ledger's check
// lets them pass: a process that has the other ledger delivers them, and only the database says
// which one that is. But once Run has returned [ErrOtherLedger] because the whole database belongs
// to another ledger, Add and AddTx return it, too.
//
// A batch that is stored already, with the same bytes, is no error and changes nothing. The errors
// are a [*batch.InputError]; [ErrOtherLedger]; [batch.ErrConflict] where the id or the
// DataChangeID is known with other bytes; a [*batch.EndedError] where retention removed a batch of
// that id which had no effect; store.ErrOtherShard; and the store's own. After an error of the
// store's own the batches may be stored or not: add them again, which is harmless.
func (r *Runner) Add(ctx context.Context, batches ...batch.Batch) error {
	if err := r.checkAll(batches); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	batches = r.events.Traced(ctx, batches)
	if err := r.engine.Store().Add(ctx, batches...); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	r.events.Added(ctx, batches)
	r.engine.Added(batches)
	return nil
}

// Wake announces that a service may have a batch to send, for example after the commit of an
// AddTx. Without it the next scans find the batch. A name that no store takes
// ([batch.Batch].Validate) is passed over: no batch can have it.
func (r *Runner) Wake(service batch.ServiceID) {
	if (batch.Key{Service: service, ID: "any"}).Validate() != nil {
		return // nothing would ever remove the name again
	}
	r.engine.Wake(service)
}

// Get returns the record of a batch, or [batch.ErrNotFound].
func (r *Runner) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	rec, err := r.engine.Store().Get(ctx, key)
	if err != nil {
		return rec, fmt.Errorf("get: %w", err)
	}
	return rec, nil
}

// All yields the records that q selects, by their order keys, page by page: q.Limit is the size of
// a page. An error ends it, and is [store.ErrUnsupported] where the store has no list.
func (r *Runner) All(ctx context.Context, q store.ListQuery) iter.Seq2[batch.Record, error] {
	return pages.All(q.After, func(at store.Cursor) ([]batch.Record, store.Cursor, error) {
		q.After = at
		return r.engine.Store().List(ctx, q)
	})
}
