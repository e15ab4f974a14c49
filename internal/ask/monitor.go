// Package ask runs the monitor: it asks the ledger about batches, and receives the ledger's
// events. Package monitor judges what the ledger says.
package ask

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
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

var _ monitor.BatchUpdater = (*inhand.Table)(nil)

// Options of a monitor; all but Empty and Rest must be set.
type Options struct {
	Rules          monitor.Rules
	Connections    int           // most status requests at once (dlt_connection_pool in docs/glossary.md#dlt-polling-monitor)
	RequestTimeout time.Duration // limit of one status request
	RowsPerRead    int           // rows taken from the store at once
	MaxStreams     int           // most event streams open at once
	// Empty reports whether nothing was open within the given time, as another part of the process
	// saw that reads the store anyway. Then the monitor need not read. A scan is as good as a read
	// by the monitor, if both take place about as often. nil if no other part reads.
	Empty func(within time.Duration) bool
	// Rest returns how often the monitor reads at least while Empty is true, if that is less often
	// than usual; 0 means as usual. nil means always as usual.
	Rest func() time.Duration
	// Trouble is called for requests that failed.
	Trouble func(error)
	// Vanished is called for a commit that the ledger no longer reports as committed.
	Vanished func(key batch.Key, now batch.Reported)
}

// Monitor asks the ledger the table's questions, and looks for evidence. It gives the table the
// rows that are due in the store, or that an event may be about, and receives event streams.
// DueIn, Follow and Committed may be called at any time.
type Monitor struct {
	store             monitor.PendingBatchStore
	table             *inhand.Table
	options           *Options
	ledger            *ledger
	hands             *pool.Pool
	underWay          sync.WaitGroup // counts all goroutines of the monitor
	streams           *streams
	dueTimes          *agenda
	incompleteCommits chan *incompleteCommit
	wake              chan struct{} // wakes Run
	handFreed         chan struct{} // a hand may have become free
}

// New returns a monitor; Run makes it work.
func New(s monitor.PendingBatchStore, l dlt.Ledger, t *inhand.Table, o Options) *Monitor {
	m := &Monitor{
		store: s, table: t, options: &o, wake: make(chan struct{}, 1), handFreed: make(chan struct{}, 1), dueTimes: newAgenda(o.Rules.PollInterval),
		incompleteCommits: make(chan *incompleteCommit, maxIncomplete),
		ledger:            &ledger{Ledger: l, options: &o, pauses: askPauses{firstPause: o.Rules.PollInterval, byKey: map[string]*askPause{}}},
	}
	m.streams = &streams{options: &o, ledger: l, table: t, underWay: &m.underWay, dueIn: m.DueIn, readMayBeDue: make(chan struct{}, 1), byGroup: map[string]*stream{}}
	m.hands = pool.New(o.Connections, min(time.Second, o.RequestTimeout/4), func() { loop.Poke(m.handFreed) })
	return m
}

// DueIn tells the monitor that a row will be due after d, at most PollInterval. A negative d means
// that no row will be due.
func (m *Monitor) DueIn(d time.Duration) {
	if d >= 0 && m.dueTimes.add(time.Now().Add(min(d, m.options.Rules.PollInterval))) {
		loop.Poke(m.wake)
	}
}

// Follow tells the monitor that this process posts, or will soon post, a batch of the service, so
// the service's events are wanted. Once Options.MaxStreams streams are open, further services are
// only polled.
func (m *Monitor) Follow(s batch.ServiceID) {
	if t := m.ledger.Traits(s); t.Streams && m.streams.followService(t, s) {
		loop.Poke(m.wake)
	}
}

// minRoundPause keeps rounds apart, so that rows that fall due close together are asked about
// together.
const minRoundPause = 2 * time.Millisecond

// Run asks until ctx is done. Then it cuts off the requests under way and waits for their end. If
// the store fails, Run repeats only the failed call, after a short backoff.
func (m *Monitor) Run(ctx context.Context) {
	var last, asked time.Time // last is the time of the last round that was due, asked that of the last read of the store
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer m.underWay.Wait()
	defer m.streams.close()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	m.underWay.Go(func() { m.watchCommits(watching) })
	m.underWay.Go(func() { m.askForReceipts(watching) })
	m.underWay.Go(func() {
		loop.Run(watching, func(ctx context.Context) error { m.answerEvents(ctx); return nil }, m.options.Trouble)
	})
	m.underWay.Go(func() { m.askWhenFreed(watching) })
	m.underWay.Go(func() { m.table.Run(watching, func(all []inhand.Question) { m.giveToHands(watching, all) }) })
	for {
		m.streams.open(ctx)
		now := time.Now()
		at := last.Add(m.options.Rules.PollInterval)
		if next := m.dueTimes.next(); !next.IsZero() && next.Before(at) {
			at = next
		}
		if at.After(now) || now.Sub(last) < minRoundPause {
			timer.Reset(max(at.Sub(now), minRoundPause))
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
		if m.isResting(last, asked) {
			continue
		}
		asked = last
		m.runRound(ctx)
	}
}

// restingAskInterval is the longest time between two reads of the store. The scans leave out
// paused and halted lanes, so they do not see batches under way in those lanes, and the monitor's
// health needs a call now and then.
const restingAskInterval = 5 * time.Second

// isResting reports whether there is nothing to ask about: no row is noted as due, and nothing is
// open. So an idle process sends one statement for the queuer and the monitor together.
func (m *Monitor) isResting(now, asked time.Time) bool {
	next, rest := m.dueTimes.next(), restingAskInterval
	if m.options.Rest != nil {
		rest = max(rest, m.options.Rest())
	}
	return (next.IsZero() || next.After(now)) && now.Sub(asked) < rest && m.options.Empty != nil && m.options.Empty(2*m.options.Rules.PollInterval)
}

// runRound gives the table all rows that are due, and asks about them.
func (m *Monitor) runRound(ctx context.Context) {
	m.dueTimes.dropUntil(time.Now())
	for ctx.Err() == nil {
		asked := time.Now()
		rows, err := m.selectRows(ctx, store.PendingQuery{Lease: 2 * m.options.RequestTimeout, Ahead: m.longestDelay()})
		if err != nil {
			return // Run stops
		}
		m.setChecks(ctx, m.table.Scanned(rows, asked, false))
		if len(rows) < m.options.RowsPerRead {
			return
		}
	}
}

// longestDelay is longer than a monitor with these settings puts a check off.
func (m *Monitor) longestDelay() time.Duration {
	return 2 * max(m.options.Rules.PollInterval, 2*m.options.RequestTimeout, maxRetryAfter)
}

// selectRows selects due rows or, if q names services, all rows of those services that are under
// way. It retries if the store fails; an error means that ctx is done. A failed call may have
// leased the rows that it returns, so they are asked about at once: no other process asks before
// the leases end.
func (m *Monitor) selectRows(ctx context.Context, q store.PendingQuery) (rows []store.InFlight, err error) {
	q.Limit = m.options.RowsPerRead
	failed := func(err error) { m.options.Trouble(fmt.Errorf("select pending batches: %w", err)) }
	err = loop.Retry(ctx, failed, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, m.options.RequestTimeout)
		defer cancel()
		if rows, err = m.store.Pending(ctx, q); err != nil && len(rows) > 0 {
			failed(err)
			return nil
		}
		return err
	})
	return rows, err
}

// setChecks writes when to ask about rows next. After a stop it sets the rows due at once, because
// they would otherwise wait for the end of their leases. It repeats a failed write for as long as
// a request may last. If the write still fails, the rows are asked about once their leases have
// ended.
func (m *Monitor) setChecks(ctx context.Context, due []store.Due) {
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.options.RequestTimeout)
	defer cancel()
	failed := func(err error) { m.options.Trouble(fmt.Errorf("set next checks: %w", err)) }
	if err := loop.Retry(ctx, failed, func() error { return m.store.Checked(ctx, due) }); err != nil {
		failed(err)
		return
	}
	m.DueIn(max(0, soonest))
}

// answerEvents asks about batches because of events, until ctx is done. It runs beside the
// polling, which would delay it.
func (m *Monitor) answerEvents(ctx context.Context) {
	defer loop.Poke(m.streams.readMayBeDue) // wakes the next call of answerEvents
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		at := m.streams.nextRead()
		switch wait := time.Until(at); {
		case at.IsZero():
			timer.Stop()
		case wait > 0:
			timer.Reset(wait)
		default:
			m.askAfterEvents(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.streams.readMayBeDue:
		}
	}
}

// askAfterEvents reads the store, and asks about all batches under way in groups in which more may
// have happened than the events say.
func (m *Monitor) askAfterEvents(ctx context.Context) {
	services := m.streams.beginRead()
	for len(services) > 0 && ctx.Err() == nil {
		n := min(len(services), servicesPerRead)
		asked := time.Now()
		q := store.PendingQuery{Services: services[:n]}
		rows, err := m.selectRows(ctx, q)
		if len(rows) >= m.options.RowsPerRead { // the store may have more rows: the groups take turns then
			q.Lease = m.options.Rules.PollInterval
			rows, err = m.selectRows(ctx, q)
		}
		if err != nil {
			return // Run stops
		}
		m.setChecks(ctx, m.table.Scanned(rows, asked, true))
		services = services[n:]
	}
}

// Busy returns how many requests are under way.
func (m *Monitor) Busy() int { return m.hands.Busy() }
