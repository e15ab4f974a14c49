// Package engine delivers batches: it connects queuer, submitter, monitor and the parts between
// them with a store and a ledger.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/events"
	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/recall"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Errors of an [Engine].
var (
	ErrRunning     = errors.New("dltbatch: already running")
	ErrOtherLedger = errors.New("dltbatch: the database belongs to another ledger")
	ErrDrain       = errors.New("dltbatch: not at rest")
)

// Options of an [Engine]; all must be set unless they say otherwise. Package dltbatch explains
// those of the same name.
type Options struct {
	Strategy       queuer.Strategy
	RequestTimeout time.Duration
	Margin         time.Duration // how long before its claim ends a request must have ended
	ClaimTTL       time.Duration
	FirstPoll      time.Duration
	PollInterval   time.Duration
	ScanInterval   time.Duration

	Budget     batch.Budget // for services without a budget of their own
	BudgetOf   func(batch.ServiceID) batch.Budget
	QuickRetry func(batch.ServiceID) (retries int, pause time.Duration)
	RetryDelay func(s batch.ServiceID, n int) time.Duration // the wait after the n-th certain failure in a row
	Policy     batch.Policy

	ResendAtRiskOfExecutingTwice bool

	Pool              int
	StatusConnections int
	MaxStreams        int // negative means none
	ClaimLimit        int

	Instance, Host, Version string

	Drain      time.Duration
	Retention  time.Duration // 0 means 30 days, or for ever if the store cannot prune; negative means for ever
	StuckAfter time.Duration
	IdlePause  time.Duration

	NonDefaults []slog.Attr // the options that differ from their defaults, for the log
}

// common has the parts that all Runs of an engine share.
type common struct {
	options  Options
	store    meteredStore // without the name of a loop: for upkeep, presence and calls outside of a Run
	ledger   ledger       // without admission and meter, which a Run sets in its own copy
	events   *events.Reporter
	recalled *recall.Batches
	hints    *hints.Node
}

// Engine delivers the batches of a store. Its methods may be called concurrently.
type Engine struct {
	common
	running         atomic.Bool
	run             atomic.Pointer[run]    // while Run delivers
	otherLedgerName atomic.Pointer[string] // the ledger to which the database belongs, if a Run found that it is not this one
	uncommitted     uncommittedLanes
}

// New connects a store and a ledger, which must fit each other and the options.
func New(s store.Store, l dlt.Ledger, o Options, r *events.Reporter) (*Engine, error) {
	if err := o.Strategy.Check(); err != nil {
		if in, ok := errors.AsType[*batch.InputError](err); ok {
			in.Field = "Options." + in.Field
		}
		return nil, fmt.Errorf("options: %w", err)
	}
	known := newServices(l, func(err error) { r.Trouble("ledger", err) })
	traits, err := known.askClient("")
	if err != nil {
		return nil, err
	}
	if err := traits.Validate(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := checkOrder(traits, o); err != nil {
		return nil, err
	}
	if err := checkOneRun(traits, o); err != nil {
		return nil, err
	}
	if err := checkStore(s, o, traits); err != nil {
		return nil, err
	}
	if o.Retention == 0 {
		o.Retention = -1
		if s.Abilities().Has(store.CanPrune) {
			o.Retention = 30 * 24 * time.Hour
		}
	}
	e := &Engine{common: common{
		options: o, events: r, recalled: recall.New(recall.DefaultBytes),
		store: meteredStore{
			Store: substitutedStore{s, s.Abilities()}, meter: newStoreMeter(r.Calls(), nil),
			onTrouble: func(err error) { r.Trouble("store", err) },
		},
		ledger: ledger{Ledger: l, services: known},
	}}
	e.hints = e.newHints()
	e.uncommitted.wakeAfter, e.uncommitted.wakeLane = o.ScanInterval, e.wakeQuietly
	return e, nil
}

// Run claims, posts and follows batches until ctx is done and all its parts have ended.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	e.ledger.forget()
	news := e.events.Begin(ctx, e.store, e.ledger.traits, e.options.Strategy.ReliesOnOrder)
	if err := e.waitForWrites(ctx); err != nil {
		news.End()
		if ctx.Err() != nil {
			return nil // ctx was done before Run began
		}
		return err
	}
	e.logMissingAbilities(ctx)
	e.logStart(ctx)
	r := newRun(e.common, news)
	e.run.Store(r)
	err := r.deliver(ctx)
	e.run.Store(nil)
	news.End()
	r.logStop(context.WithoutCancel(ctx), err)
	return err
}

// waitForWrites repeats checkLedger until the database takes writes.
func (e *Engine) waitForWrites(ctx context.Context) error {
	err := e.checkLedger(ctx)
	for pause := loop.NewBriefPauses(); errors.Is(err, store.ErrReadOnly) && ctx.Err() == nil; err = e.checkLedger(ctx) {
		e.events.Trouble("store", err)
		loop.Sleep(ctx, pause.NextBackOff())
	}
	return err
}

// checkLedger records the ledger's name on the first start, and refuses any other name later.
func (e *Engine) checkLedger(ctx context.Context) error {
	traits, err := e.ledger.askClient("") // a panic's substitute must not be recorded for good
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := traits.Validate(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := checkRetention(traits, e.options); err != nil {
		return err
	}
	recorded, err := texts.Ledger(ctx, e.store, traits.Name)
	if err != nil {
		return fmt.Errorf("run: record the ledger's name: %w", err)
	}
	if recorded != traits.Name {
		e.otherLedgerName.Store(&recorded)
		return fmt.Errorf("run: %w", otherDatabase(recorded, traits.Name))
	}
	e.otherLedgerName.Store(nil)
	return nil
}

func otherDatabase(recorded, ours string) error {
	return fmt.Errorf("%w: it is %q, this is %q", ErrOtherLedger, recorded, ours)
}

// TakesBatches returns an error where a Run has found that the database belongs to another ledger:
// the other ledger's processes would post what this one adds. It does no I/O.
func (e *Engine) TakesBatches() error {
	if recorded := e.otherLedgerName.Load(); recorded != nil {
		return otherDatabase(*recorded, e.ledger.Traits("").Name)
	}
	return nil
}

// Store returns the store for the application's calls. It has all methods of a store.
func (e *Engine) Store() store.Store { return e.store }

// Call makes a call, about n items, of a method that only the store given to New has.
func (e *Engine) Call(ctx context.Context, op string, n int, f func() error) error {
	return callErr(ctx, e.store, op, n, f)
}

// Check returns the result of the client's local check of a batch, if the client has a check.
func (e *Engine) Check(b batch.Batch) error { return e.ledger.Check(b) }

// Added tells the parts that batches were added. If no Run delivers in this process, it tells
// other processes.
func (e *Engine) Added(batches []batch.Batch) {
	known := map[batch.ServiceID]struct{}{}
	services := make([]batch.ServiceID, 0, len(batches))
	for _, b := range batches {
		if _, ok := known[b.Service]; ok {
			continue
		}
		known[b.Service] = struct{}{}
		services = append(services, b.Service)
	}
	e.nameLanes(services)
}

// AddedTx notes that an application's transaction has added batches.
func (e *Engine) AddedTx(batches []batch.Batch) {
	if !e.store.Abilities().Has(store.CanHint) {
		return // scans take place each ScanInterval
	}
	for _, b := range batches {
		e.uncommitted.add(b.Service)
	}
}

// Wake notes that a service may have a batch to send.
func (e *Engine) Wake(s batch.ServiceID) {
	e.uncommitted.cancel(s)
	e.wakeQuietly(s)
}

// wakeQuietly is Wake without a call of the application.
func (e *Engine) wakeQuietly(s batch.ServiceID) { e.nameLanes([]batch.ServiceID{s}) }

// nameLanes gives lanes to the present Run, and tells other processes of those that it cannot
// send.
func (e *Engine) nameLanes(services []batch.ServiceID) {
	others := services
	if r := e.run.Load(); r != nil {
		for _, s := range services {
			r.monitor.Follow(s) // before the first POST, so that no event about it is missed
		}
		r.lanes.Added(services...) // in one call, so that one claim covers them all
		others = slices.DeleteFunc(slices.Clone(services), r.canSend)
	}
	if len(others) > 0 {
		e.hints.Tell(store.Hint{Lanes: others})
	}
}

// Freed is Wake for a lane that an operator may have set free. The operator may also have decided
// about batches in flight.
func (e *Engine) Freed(s batch.ServiceID) {
	if r := e.run.Load(); r != nil {
		r.monitor.Follow(s)
		r.lanes.Free(time.Now(), s)
	}
}

// ClaimQuery returns the fields that all claims of this engine have in common.
func (c common) ClaimQuery() store.ClaimQuery {
	return store.ClaimQuery{
		Window: c.options.Strategy.Window, TTL: c.options.ClaimTTL, Resend: c.ledger.resend, MaxInFlight: c.ledger.maxInFlight, Numbered: c.ledger.isNumbered,
		Budget: c.options.BudgetOf, Instance: c.options.Instance, StuckAfter: c.options.StuckAfter,
	}
}

// Choose returns the choice function of this engine's claims. It reports no bad answers of the
// strategy.
func (e *Engine) Choose() store.Choose {
	return queuer.Choose(e.options.Strategy, e.ledger.keepsOrder, func(batch.ServiceID, error) {})
}

// Serves returns why this engine's ledger does not serve a service, or nil if it does.
func (e *Engine) Serves(ctx context.Context, s batch.ServiceID) (unserved, err error) {
	traits, unserved := e.ledger.askClient(s)
	if unserved == nil {
		unserved = checkService(e.store.givenStore(), traits, e.options)
	}
	if unserved != nil {
		return unserved, nil
	}
	return e.servedElsewhere(ctx, s, traits.Name)
}

// servedElsewhere returns an error if a ledger other than the named one serves a service. It
// records nothing.
func (e *Engine) servedElsewhere(ctx context.Context, s batch.ServiceID, ledger string) (unserved, err error) {
	by, err := texts.Serve(ctx, e.store, []texts.Served{{Service: s}})
	if err != nil {
		return nil, err
	}
	return otherLedger(by[0], ledger), nil
}

// Quiet returns the ResendQuiet of the ledger that serves a service. It fails if that is not this
// engine's ledger, whose ResendQuiet does not hold for another ledger.
func (e *Engine) Quiet(ctx context.Context, s batch.ServiceID) (time.Duration, error) {
	traits, err := e.ownTraits(ctx, s)
	return traits.ResendQuiet, err
}

// Withdraws returns whether the ledger that serves a service can keep a batch from taking effect,
// and the ledger's name. It fails if that is not this engine's ledger.
func (e *Engine) Withdraws(ctx context.Context, s batch.ServiceID) (can bool, ledger string, err error) {
	traits, err := e.ownTraits(ctx, s)
	return traits.Withdraws, traits.Name, err
}

// ownTraits returns the traits of a service, and an error unless this engine's ledger serves it.
func (e *Engine) ownTraits(ctx context.Context, s batch.ServiceID) (dlt.Traits, error) {
	traits, err := e.ledger.askClient(s)
	if err != nil {
		return traits, err
	}
	if traits.Name == "" {
		return traits, fmt.Errorf("%w: this Runner's ledger does not serve %q", ErrOtherLedger, s)
	}
	unserved, err := e.servedElsewhere(ctx, s, traits.Name)
	return traits, cmp.Or(err, unserved)
}

// Health returns how this engine is doing. It does no I/O.
func (e *Engine) Health() health.Health {
	if r := e.run.Load(); r != nil {
		return r.health()
	}
	return e.events.Health(time.Now())
}
