package monitor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/pool"
	"github.com/dltbatch/dltbatch/store"
)

// PendingBatchStore tells which batches to ask about (spec/002).
type PendingBatchStore interface {
	Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error)
	Checked(ctx context.Context, due []store.Due) error
}

// BatchStatusReader is the ledger's half (spec/002).
type BatchStatusReader = dlt.BatchStatusReader

// BatchUpdater takes what was found out (spec/002). It may wait, but not for the monitor.
type BatchUpdater interface {
	Put(o store.Outcome)
}

// Options of a monitor; all but Resolver must be set.
type Options struct {
	Rules          Rules
	Connections    int           // status requests at once (spec/002, dlt_connection_pool)
	RequestTimeout time.Duration // of one
	Batches        int           // rows taken from the store at once
	Traits         func(batch.ServiceID) dlt.Traits
	Resolver       dlt.Resolver // nil where no traits say Resolves
	// Trouble is told of requests that failed.
	Trouble func(service batch.ServiceID, err error)
}

// Monitor polls. Nudge and DueIn may be called at any time.
type Monitor struct {
	store   PendingBatchStore
	reader  BatchStatusReader
	updater BatchUpdater
	o       Options
	pool    *pool.Pool
	wake    chan struct{}
	asking  sync.WaitGroup // requests under way; they outlast a Run that ends with an error

	mu    sync.Mutex
	due   agenda
	sight sightings
	quiet map[string]*quiet // whom not to ask for now, by group
}

// New returns a monitor; Run makes it work.
func New(s PendingBatchStore, r BatchStatusReader, u BatchUpdater, o Options) *Monitor {
	m := &Monitor{store: s, reader: r, updater: u, o: o, wake: make(chan struct{}, 1), quiet: map[string]*quiet{}}
	m.due = newAgenda(o.Rules.PollInterval)
	m.sight.keep = max(10*time.Minute, 4*o.Rules.TTL)
	m.pool = pool.New(o.Connections, min(time.Second, o.RequestTimeout/4), m.poke)
	return m
}

// Nudge makes the monitor look now.
func (m *Monitor) Nudge() { m.DueIn(0) }

// poke makes Run, or whoever waits for a hand, look at where it stands. Nothing is
// asked for it.
func (m *Monitor) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// DueIn says that something will be due after d, PollInterval at most.
func (m *Monitor) DueIn(d time.Duration) {
	at := time.Now().Add(min(d, m.o.Rules.PollInterval))
	m.mu.Lock()
	first := m.due.add(at)
	m.mu.Unlock()
	if first {
		m.poke()
	}
}

// minPause keeps rounds apart, so that what falls due close together is asked together.
const minPause = 2 * time.Millisecond

// Run asks until ctx is done; then it waits for the requests under way, which it
// cuts off, and returns nil. An error is the store's: call Run again, with the same ctx.
func (m *Monitor) Run(ctx context.Context) error {
	last := time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
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
			m.asking.Wait()
			return nil
		case at.After(time.Now()):
			continue
		}
		last = time.Now()
		if err := m.round(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// round asks about everything that is due.
func (m *Monitor) round(ctx context.Context) error {
	m.mu.Lock()
	m.due.pass(time.Now())
	m.mu.Unlock()
	for ctx.Err() == nil {
		rows, err := m.pending(ctx)
		if err != nil {
			return fmt.Errorf("select pending batches: %w", err)
		}
		var put []store.Due
		for _, g := range m.group(rows) {
			if wait := m.quietFor(g.key); wait > 0 {
				put = append(put, dueIn(g.rows, wait)...)
				continue
			}
			hand, ok := m.hand(ctx, g.key)
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
		if err := m.checked(ctx, put); err != nil {
			return err
		}
		if len(rows) < m.o.Batches {
			return nil
		}
	}
	return nil
}

// noHandPause is how long rows wait whose group has used up its share of the hands.
const noHandPause = 100 * time.Millisecond

// pending selects what is due. The lease covers a request that takes its whole
// time, and some waiting for a hand.
func (m *Monitor) pending(ctx context.Context) ([]store.InFlight, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.RequestTimeout)
	defer cancel()
	return m.store.Pending(ctx, store.PendingQuery{Limit: m.o.Batches, Lease: 2 * m.o.RequestTimeout})
}

// start runs f beside the others. A panic in it is contained; the leases of its
// rows end, and they are asked about again.
func (m *Monitor) start(service batch.ServiceID, f func()) {
	m.asking.Go(func() {
		if err := loop.Contain(func() error { f(); return nil }); err != nil {
			m.o.Trouble(service, err)
		}
	})
}

// hand waits for a place, but not on behalf of a group that hangs: it waits for
// its own share elsewhere, and delays nobody.
func (m *Monitor) hand(ctx context.Context, key string) (*pool.Hand, bool) {
	for {
		hand, ok := m.pool.Acquire(key)
		if ok || m.pool.Free() > 0 {
			return hand, ok
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-m.wake:
		}
	}
}

// group is what one request asks about.
type group struct {
	key     string // whom a hanging request holds up
	service batch.ServiceID
	traits  dlt.Traits
	rows    []store.InFlight
}

// group divides rows by service where the ledger wants it, else by ledger, and
// into requests of at most MaxIDsPerQuery. Order is kept.
func (m *Monitor) group(rows []store.InFlight) []*group {
	var groups []*group
	open := map[string]*group{}
	for _, f := range rows {
		t := m.o.Traits(f.Key.Service)
		key := t.Name
		if t.GroupsByService {
			key += "\x00" + string(f.Key.Service)
		}
		most := t.MaxIDsPerQuery
		if most <= 0 {
			most = 50
		}
		g := open[key]
		if g == nil || len(g.rows) >= most {
			g = &group{key: key, service: f.Key.Service, traits: t}
			open[key] = g
			groups = append(groups, g)
		}
		g.rows = append(g.rows, f)
	}
	return groups
}

// ask makes one status request and acts on its answers. It reports whether the
// request ran into its time limit.
func (m *Monitor) ask(ctx context.Context, g *group) (hung bool) {
	attempts := make([]batch.Attempt, len(g.rows))
	for i, f := range g.rows {
		attempts[i] = batch.Attempt{Key: f.Key, Number: f.Attempt}
	}
	var statuses []batch.Status
	err := m.request(ctx, func(ctx context.Context) (err error) {
		statuses, err = m.reader.BatchStatuses(ctx, g.service, attempts)
		return err
	})
	if len(statuses) > 0 && dlt.Kind(err) == batch.KindDoubt {
		if ctx.Err() == nil {
			m.o.Trouble(g.service, fmt.Errorf("batch statuses: %w", err)) // a part is missing, and asked again
		}
	} else if ctx.Err() == nil && m.answered(g.key, err) {
		m.o.Trouble(g.service, fmt.Errorf("batch statuses: %w", err))
	}
	byID := make(map[batch.ID]*batch.Status, len(statuses))
	for i := range statuses {
		byID[statuses[i].ID] = &statuses[i]
	}
	var due []store.Due
	for _, f := range g.rows {
		k := Known{Status: byID[f.Key.ID], Seen: m.seenFor(f)}
		v := Decide(f, k, g.traits, m.o.Rules)
		switch {
		case v.Resolve && !m.resolve(ctx, g, f, k): // no hand for it now
			due = append(due, store.Due{Ref: f.Ref, In: noHandPause})
		case v.Resolve:
		case v.Outcome != nil:
			m.updater.Put(*v.Outcome)
		default:
			due = append(due, store.Due{Ref: f.Ref, In: v.Next})
		}
	}
	m.check(ctx, g.service, due)
	return errors.Is(err, context.DeadlineExceeded)
}

// check sets next checks; where that fails, the leases end and the rows are asked
// about again.
func (m *Monitor) check(ctx context.Context, service batch.ServiceID, due []store.Due) {
	if err := m.checked(ctx, due); err != nil {
		m.o.Trouble(service, err)
	}
}

func (m *Monitor) request(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.RequestTimeout)
	defer cancel()
	return loop.Contain(func() error { return f(ctx) })
}

// resolve asks for evidence beside everything else, since it may take long, and
// reports whether it could begin. An error is no evidence: it is asked again.
func (m *Monitor) resolve(ctx context.Context, g *group, f store.InFlight, k Known) bool {
	hand, ok := m.pool.Acquire(g.key + "\x00resolve")
	if !ok {
		return false
	}
	m.start(f.Key.Service, func() {
		hung := true // unless it comes back
		defer func() { hand.Release(hung) }()
		var found dlt.Evidence
		err := m.request(ctx, func(ctx context.Context) (err error) {
			found, err = m.o.Resolver.Resolve(ctx, batch.Attempt{Key: f.Key, Number: f.Attempt})
			return err
		})
		hung = errors.Is(err, context.DeadlineExceeded)
		if err == nil {
			k.Evidence = &found
		} else {
			k.Status = nil
			if ctx.Err() == nil {
				m.o.Trouble(f.Key.Service, fmt.Errorf("resolve %s: %w", f.Key, err))
			}
		}
		v := Decide(f, k, g.traits, m.o.Rules)
		if v.Outcome != nil {
			m.updater.Put(*v.Outcome)
			return
		}
		m.check(ctx, f.Key.Service, []store.Due{{Ref: f.Ref, In: v.Next}})
	})
	return true
}

// seenFor returns how long this process has known that a claim is over, on its own
// monotonic clock.
func (m *Monitor) seenFor(f store.InFlight) time.Duration {
	if f.State != batch.Submitting {
		return 0
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.sight.first(sighting{f.Key.ID, f.Version}, now))
}

// Forget drops the first sight of a version that has moved on.
func (m *Monitor) Forget(id batch.ID, version int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sight.now, sighting{id, version})
	delete(m.sight.old, sighting{id, version})
}

// checked sets when to ask next. A stop does not keep it from that: the rows would
// be left alone until their leases end. They are due at once then.
func (m *Monitor) checked(ctx context.Context, due []store.Due) error {
	if len(due) == 0 {
		return nil
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
	if err := m.store.Checked(ctx, due); err != nil {
		return fmt.Errorf("set next checks: %w", err)
	}
	m.DueIn(soonest)
	return nil
}

func dueIn(rows []store.InFlight, d time.Duration) []store.Due {
	due := make([]store.Due, len(rows))
	for i, f := range rows {
		due[i] = store.Due{Ref: f.Ref, In: d}
	}
	return due
}
