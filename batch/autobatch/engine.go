package autobatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/await"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Errors of an [Engine].
var (
	// ErrDisabled: auto-batching is switched off; nothing was stored.
	ErrDisabled = errors.New("autobatch: switched off")
	// ErrRunning: this Engine's Run has not returned yet.
	ErrRunning = errors.New("autobatch: already running")
	// ErrDrain: a stop took longer than Options.Drain, because the Builder or the store
	// does not heed its context. Goroutines of it are left behind. Nothing is lost.
	ErrDrain = errors.New("autobatch: not at rest")
)

// Engine makes batches of orders, and reads from batches what becomes of orders. Its
// methods may be called concurrently, and any number of Engines, in any number of
// processes, may share a database.
type Engine struct {
	orders  store.Orders
	builder batch.Builder
	o       Options

	running atomic.Bool
	look    chan struct{} // for idle parties
	read    chan struct{} // verdicts
	slots   chan struct{} // one for each party that is worked on
	builds  sync.WaitGroup
	waiters *await.Waiters[batch.OrderID, batch.OrderRecord]

	mu      sync.Mutex
	parties map[batch.ServiceID]*pace
	line    []batch.ServiceID // of parties that failed before, and wait to be tried again
	probes  int               // how many of these are being tried
}

var _ batch.Observer = (*Engine)(nil)

// New joins a store of orders and the application's Builder, which is called from
// several goroutines at once, for one party from one at a time in this process; one
// that is a [batch.RoundBuilder] is called as such. It
// starts nothing and does no I/O. nil options are good ones; bad ones give a
// [*batch.InputError] that names both values at odds.
func New(s store.Orders, b batch.Builder, o *Options) (*Engine, error) {
	if s == nil {
		return nil, optionError("store", nil, "a store")
	}
	if b == nil {
		return nil, optionError("builder", nil, "a builder")
	}
	opts := o.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	return &Engine{
		orders: s, builder: b, o: opts,
		look: make(chan struct{}, 1), read: make(chan struct{}, 1),
		slots:   make(chan struct{}, opts.Workers),
		parties: map[batch.ServiceID]*pace{},
		waiters: await.New(await.Options[batch.OrderID, batch.OrderRecord]{
			Interval: opts.MonitorInterval, Linger: opts.Linger, Timeout: opts.StoreTimeout, Finals: s.FinalOrders,
			Key: func(rec batch.OrderRecord) batch.OrderID { return rec.ID },
		}),
	}, nil
}

// Run makes batches and settles orders until ctx is done. Then it starts nothing
// more, lets the writes under way end, and returns nil, within Options.Drain. One
// code path serves a first start, a restart and a takeover.
//
// It returns [ErrRunning] while an earlier Run has not returned, or [ErrDrain].
// Failures of the store are reported and tried again by themselves, briefly; those of the
// Builder after Options.RecoveryInterval, which doubles. Switched off, it only waits.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	if e.o.Disabled {
		<-ctx.Done()
		return nil
	}
	var loops sync.WaitGroup
	for _, f := range [...]func(context.Context) error{e.batching, e.settling, e.expiring} {
		loops.Go(func() { loop.Run(ctx, f, func(err error) { e.trouble("", err) }) })
	}
	<-ctx.Done()
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		loops.Wait()
		e.builds.Wait()
	}()
	bound := time.NewTimer(e.o.Drain)
	defer bound.Stop()
	select {
	case <-rest:
		return nil
	case <-bound.C:
		return fmt.Errorf("run: %w after %s", ErrDrain, e.o.Drain)
	}
}

// Add checks orders and stores all of them or none, in order, and wakes the loop. When
// it returns nil they are durable and each will end Confirmed, Failed or Quarantined,
// by this process or another; Run need not run. Errors are those of
// [store.OrderStore].AddOrders, and [ErrDisabled].
func (e *Engine) Add(ctx context.Context, orders ...batch.Order) error {
	if e.o.Disabled {
		return ErrDisabled
	}
	for _, o := range orders {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("add orders: %w", err)
		}
	}
	if err := e.orders.AddOrders(ctx, orders...); err != nil {
		return fmt.Errorf("add orders: %w", err)
	}
	wake(e.look)
	return nil
}

// Wake says that orders may wait: after they were stored in the application's own
// transaction. Without it they are found within Options.BatchInterval.
func (e *Engine) Wake() { wake(e.look) }

// Observe is [batch.Observer]: it takes an EventFinal of a Runner for a hint that there
// is a verdict to be read. Give it to the Runner as its Observer, or hand events on
// from another one; without it verdicts are read every Options.MonitorInterval. It
// never blocks.
func (e *Engine) Observe(_ context.Context, ev batch.Event) {
	if ev.Kind == batch.EventFinal || ev.Kind == batch.EventOrderBreach {
		wake(e.read)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rest waits for a wake or for d, and at least until gap after start, so that wakes
// that come together are one. It reports false when ctx is done first.
func rest(ctx context.Context, c chan struct{}, d time.Duration, start time.Time, gap time.Duration) bool {
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

// retry makes a call of the store until it succeeds or ctx is done, and reports what fails.
// What the store says about what it was given is no such failure.
func (e *Engine) retry(ctx context.Context, party batch.ServiceID, f func() error) error {
	return loop.Retry(ctx, func(err error) { e.trouble(party, err) }, func() error {
		err := f()
		if errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrConflict) {
			return loop.Final(err)
		}
		return err
	})
}

// begun is the context of a write, which a stop does not interrupt.
func (e *Engine) begun(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.o.StoreTimeout)
}
