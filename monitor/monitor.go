package monitor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/pool"
	"github.com/dltbatch/dltbatch/store"
)

// PendingBatchStore selects the batches to ask about (docs/glossary.md#dlt-polling-monitor).
type PendingBatchStore interface {
	Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error)
	Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error)
	Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error)
	Checked(ctx context.Context, due []store.Due) error
}

// BatchStatusReader is the ledger's half (docs/glossary.md#dlt-polling-monitor).
type BatchStatusReader = dlt.BatchStatusReader

// BatchUpdater takes outcomes that became known together (docs/glossary.md#dlt-polling-monitor).
// It may keep the slice. It may block, but not on the monitor.
type BatchUpdater interface {
	Put(all []store.Outcome)
}

var _ BatchUpdater = (*inhand.Table)(nil)

// Options of a monitor; all but Resolver must be set.
type Options struct {
	Rules          Rules
	Connections    int           // status requests at once (dlt_connection_pool in docs/glossary.md#dlt-polling-monitor)
	RequestTimeout time.Duration // of one
	Batches        int           // rows taken from the store at once
	Traits         func(batch.ServiceID) dlt.Traits
	Resolver       dlt.Resolver    // nil where no traits say Resolves
	Events         dlt.EventSource // nil where no traits say Streams
	Streams        int             // of events, open at once
	// Trouble is called for requests that failed.
	Trouble func(service batch.ServiceID, err error)
	// Vanished is called for a commit that the ledger no longer reports as committed.
	Vanished func(key batch.Key, now batch.Reported)
}

// Monitor polls. DueIn may be called at any time.
type Monitor struct {
	store  PendingBatchStore
	reader BatchStatusReader
	table  *inhand.Table
	o      Options
	pool   *pool.Pool
	wake   chan struct{}  // of Run
	event  chan struct{}  // of answerEvents
	freed  chan struct{}  // of goOn
	asking sync.WaitGroup // requests under way; they outlast a Run that ends with an error

	mu    sync.Mutex
	due   agenda
	quiet map[string]*quiet // groups not to ask about for now

	streams  map[string]*stream // by group
	unopened []*stream
	lookAt   time.Time // when to look at rows because of an event; zero: no event
	looked   time.Time // last because of an event
}

// New returns a monitor; Run makes it work.
func New(s PendingBatchStore, r BatchStatusReader, t *inhand.Table, o Options) *Monitor {
	m := &Monitor{store: s, reader: r, table: t, o: o, wake: make(chan struct{}, 1), event: make(chan struct{}, 1), freed: make(chan struct{}, 1), quiet: map[string]*quiet{}, streams: map[string]*stream{}}
	m.due = newAgenda(o.Rules.PollInterval)
	m.pool = pool.New(o.Connections, min(time.Second, o.RequestTimeout/4), func() {
		poke(m.wake)
		poke(m.event)
		poke(m.freed)
	})
	return m
}

// poke makes a loop look at its times again, or for a free hand. It causes no question by
// itself.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// DueIn says that a row will be due after d, PollInterval at most.
func (m *Monitor) DueIn(d time.Duration) {
	at := time.Now().Add(min(d, m.o.Rules.PollInterval))
	m.mu.Lock()
	first := m.due.add(at)
	m.mu.Unlock()
	if first {
		poke(m.wake)
	}
}

// minPause keeps rounds apart, so that rows that fall due close together are asked about
// together.
const minPause = 2 * time.Millisecond

// Run asks until ctx is done; then it cuts off the requests under way and waits for them to
// end. Where the store fails, Run retries only that call, after a short backoff.
func (m *Monitor) Run(ctx context.Context) {
	last := time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer m.asking.Wait()
	defer m.closeStreams()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	m.asking.Go(func() { m.watch(watching) })
	m.asking.Go(func() {
		loop.Run(watching, func(ctx context.Context) error { m.answerEvents(ctx); return nil }, func(err error) { m.o.Trouble("", err) })
	})
	m.asking.Go(func() { m.goOn(watching) })
	m.asking.Go(func() { m.table.Run(watching, func(all []inhand.Question) { m.askFromMemory(watching, all) }) })
	for {
		m.openStreams(ctx)
		now := time.Now()
		m.mu.Lock()
		at := last.Add(m.o.Rules.PollInterval)
		if next := m.due.next(); !next.IsZero() && next.Before(at) {
			at = next
		}
		m.mu.Unlock()
		if at.After(now) || now.Sub(last) < minPause {
			timer.Reset(max(at.Sub(now), minPause))
			select {
			case <-ctx.Done():
			case <-timer.C:
			case <-m.wake:
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case at.After(time.Now()):
			continue
		}
		last = time.Now()
		m.round(ctx)
	}
}

// round asks about all rows that are due.
func (m *Monitor) round(ctx context.Context) {
	m.mu.Lock()
	m.due.pass(time.Now())
	m.mu.Unlock()
	for ctx.Err() == nil {
		asked := time.Now()
		rows, err := m.pending(ctx, store.PendingQuery{Lease: 2 * m.o.RequestTimeout})
		if err != nil {
			return // it stops
		}
		m.dispatch(ctx, rows, asked, m.wake, false)
		if len(rows) < m.o.Batches {
			return
		}
	}
}

// dispatch gives the requests about rows to free hands. then is when the store was asked for
// rows; free has an element when a hand may be free. told says that an event is the reason.
func (m *Monitor) dispatch(ctx context.Context, rows []store.InFlight, then time.Time, free <-chan struct{}, told bool) {
	var put []store.Due
	for _, g := range m.group(rows) {
		g.read, g.told = then, told
		if wait := m.quietFor(g.key); wait > 0 {
			put = append(put, dueIn(g.rows, wait)...)
			continue
		}
		hand, ok := m.hand(ctx, g.key, free)
		if !ok {
			put = append(put, dueIn(g.rows, noHandPause)...)
			continue
		}
		m.start(g.service, func() {
			hung := true // unless it comes back
			defer func() { hand.Release(hung) }()
			hung = m.ask(ctx, g)
		})
	}
	m.check(ctx, put)
}

// noHandPause is how long rows wait if their group has used up its share of the hands, and rows in
// hand if no hand is free. All of them are made into questions anew after each pause: 10,000 rows
// are 100,000 questions a second, for as long as requests hang.
const noHandPause = 100 * time.Millisecond

// pending selects due rows or, if q names services, all their rows under way. It retries if
// the store fails; an error means that ctx is done. A call that failed may have leased the
// rows it returns. They are asked about at once: nobody else asks before the lease ends.
func (m *Monitor) pending(ctx context.Context, q store.PendingQuery) (rows []store.InFlight, err error) {
	q.Limit = m.o.Batches
	failed := func(err error) { m.o.Trouble("", fmt.Errorf("select pending batches: %w", err)) }
	err = loop.Retry(ctx, failed, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, m.o.RequestTimeout)
		defer cancel()
		if rows, err = m.store.Pending(ctx, q); err != nil && len(rows) > 0 {
			failed(err)
			return nil
		}
		return err
	})
	return rows, err
}

// start runs f in a goroutine. It contains a panic; the leases of f's rows then end, and they
// are asked about again.
func (m *Monitor) start(service batch.ServiceID, f func()) {
	m.asking.Go(func() {
		if err := loop.Contain(func() error { f(); return nil }); err != nil {
			m.o.Trouble(service, err)
		}
	})
}

// hand waits for a free hand. It does not wait for a group whose hanging requests hold its
// whole share while other hands are free: that would delay the other groups.
func (m *Monitor) hand(ctx context.Context, key string, wake <-chan struct{}) (*pool.Hand, bool) {
	for {
		hand, ok := m.pool.Acquire(key)
		if ok || m.pool.Free() > 0 {
			return hand, ok
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-wake:
		}
	}
}

// check sets when to ask next. After a stop it does so, too, with the rows due at once: else
// they would be left alone until their leases end. It retries for as long as a request may
// last; if it still fails, the leases end, and the rows are asked about.
func (m *Monitor) check(ctx context.Context, due []store.Due) {
	if len(due) == 0 {
		return
	}
	soonest := due[0].In
	for i := range due {
		if ctx.Err() != nil {
			due[i].In = 0
		}
		soonest = min(soonest, due[i].In)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.o.RequestTimeout)
	defer cancel()
	failed := func(err error) { m.o.Trouble("", fmt.Errorf("set next checks: %w", err)) }
	if err := loop.Retry(ctx, failed, func() error { return m.store.Checked(ctx, due) }); err != nil {
		failed(err)
		return
	}
	m.DueIn(soonest)
}

func dueIn(rows []store.InFlight, d time.Duration) []store.Due {
	due := make([]store.Due, len(rows))
	for i, f := range rows {
		due[i] = store.Due{Ref: f.Ref, In: d}
	}
	return due
}
