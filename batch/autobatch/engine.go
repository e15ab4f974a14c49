package autobatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/await"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/traces"
)

// Errors of an [Engine].
var (
	// ErrDisabled: auto-batching is switched off; nothing was stored.
	ErrDisabled = errors.New("autobatch: switched off")
	// ErrRunning: this Engine's Run has not returned yet.
	ErrRunning = errors.New("autobatch: already running")
	// ErrDrain: a stop took longer than Options.Drain, because the Builder or the store
	// ignores its context. Its goroutines are left behind. Nothing is lost.
	ErrDrain = errors.New("autobatch: not at rest")
)

// Engine makes batches of orders, and settles orders by the outcomes of their batches. Its
// methods may be called concurrently. Any number of Engines, in any number of processes, may
// share a database.
type Engine struct {
	*orderCore
	builder order.Builder
	settler settler
	traces  traces.Finder

	isRunning        atomic.Bool
	observedOnce     sync.Once
	outcomesObserved chan struct{} // closed once a Runner of this process has reported an outcome
	slots            chan struct{} // one element for each party in work
	builds           sync.WaitGroup
}

var _ batch.Observer = (*Engine)(nil)

// New joins a store of orders and the application's Builder. Several goroutines call the Builder
// at once, but in this process never two for the same party. If the Builder is an
// [order.RoundBuilder], its BuildRound is called. New starts nothing and does no I/O. nil options
// mean the defaults. Bad options give a [*batch.InputError]; if two values contradict each other
// it names both.
func New(s order.Store, b order.Builder, o *Options) (*Engine, error) {
	if isnil.Is(s) {
		return nil, optionError("store", nil, "a store")
	}
	if isnil.Is(b) {
		return nil, optionError("builder", nil, "a builder")
	}
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	c := &orderCore{orders: s, options: opts, findParties: make(chan struct{}, 1)}
	c.hintNode = c.newHints()
	if c.options.Wake == nil {
		c.options.Wake = c.tellLane
	}
	c.waiters = await.New(await.Options[order.ID, order.Record]{
		Interval: opts.MonitorInterval, Linger: lingerTime, Timeout: opts.StoreTimeout, Finals: s.FinalOrders,
		Key:  func(rec order.Record) order.ID { return rec.ID },
		Hear: c.hearFinals, Hash: orderHash,
	})
	c.parties = parties{options: &c.options, byParty: map[batch.ServiceID]*partyState{}}
	return &Engine{
		orderCore: c, builder: b, settler: settler{orderCore: c, readVerdicts: make(chan struct{}, 1)},
		slots: make(chan struct{}, opts.Workers), outcomesObserved: make(chan struct{}),
	}, nil
}

// Run makes batches and settles orders until ctx is done. Then it starts nothing new, waits
// for the writes in progress, and returns nil, within Options.Drain. The same code serves a
// first start, a restart and a takeover.
//
// It returns [ErrRunning] while an earlier Run has not returned, or [ErrDrain]. Failures of
// the store are reported and retried soon; failures of the Builder after
// Options.RecoveryInterval, which doubles. With Options.Disabled, Run only waits.
func (e *Engine) Run(ctx context.Context) error {
	if !e.isRunning.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.isRunning.Store(false)
	if e.options.Disabled {
		<-ctx.Done()
		return nil
	}
	var loops sync.WaitGroup
	for _, f := range [...]func(context.Context) error{e.batchLoop, e.settler.settleLoop, e.settler.expireLoop, e.hearOrders, e.hearOutcomes} {
		loops.Go(func() { loop.Run(ctx, f, func(err error) { e.trouble(ctx, "", err) }) })
	}
	<-ctx.Done()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		loops.Wait()
		e.builds.Wait()
	}()
	bound := time.NewTimer(e.options.Drain)
	defer bound.Stop()
	select {
	case <-rest:
		return nil
	case <-bound.C:
		return fmt.Errorf("run: %w after %s", ErrDrain, e.options.Drain)
	}
}

// Add stores all orders or none, in order, and wakes the loop. When it
// returns nil the orders are durable, and this process or another will make each Confirmed,
// Failed or Quarantined; Run need not run. The errors are [ErrDisabled] and the errors of
// [order.Store].AddOrders.
func (e *Engine) Add(ctx context.Context, orders ...order.Order) error {
	if e.options.Disabled {
		return ErrDisabled
	}
	if err := e.orders.AddOrders(ctx, e.withTraceParents(ctx, orders)...); err != nil {
		return fmt.Errorf("add orders: %w", err)
	}
	e.Wake()
	return nil
}

// Wake announces that orders may wait, because the application stored them in its own
// transaction. Without it they are found within Options.BatchInterval. Where Run does not run it
// tells the processes where it does.
func (e *Engine) Wake() {
	if e.isRunning.Load() {
		loop.Poke(e.findParties)
	} else {
		e.tellOrders()
	}
}

// DroppedTraces returns how many trace contexts this Engine has dropped because they were not
// valid. Their orders were added, and their batches made, without.
func (e *Engine) DroppedTraces() uint64 { return e.traces.Dropped() }

// Observe is [batch.Observer]: it takes a Runner's EventFinal as a hint to read verdicts. Make
// the Engine the Runner's Observer, or pass events on from your own Observer. Without these
// hints verdicts are read every Options.MonitorInterval. Observe never blocks.
func (e *Engine) Observe(_ context.Context, ev batch.Event) {
	if ev.Kind == batch.EventFinal || ev.Kind == batch.EventOrderBreach {
		e.observedOnce.Do(func() { close(e.outcomesObserved) })
		loop.Poke(e.settler.readVerdicts)
	}
}

// waitForWake waits for a wake or for d, and at least until gap after start, so that wakes that
// come together count as one. It returns false if ctx is done first.
func waitForWake(ctx context.Context, c chan struct{}, d time.Duration, start time.Time, gap time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-c:
	}
	if left := gap - time.Since(start); left > 0 {
		return loop.Sleep(ctx, left)
	}
	return ctx.Err() == nil
}
