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

	mu   sync.Mutex
	next time.Time              // when something is known to be due; zero for no such time
	seen map[sighting]time.Time // when a claim was first seen to be over
}

type sighting struct {
	id      batch.ID
	version int64
}

// New returns a monitor; Run makes it work.
func New(s PendingBatchStore, r BatchStatusReader, u BatchUpdater, o Options) *Monitor {
	m := &Monitor{store: s, reader: r, updater: u, o: o, wake: make(chan struct{}, 1), seen: map[sighting]time.Time{}}
	m.pool = pool.New(o.Connections, min(time.Second, o.RequestTimeout/4), m.Nudge)
	return m
}

// Nudge makes the monitor look now.
func (m *Monitor) Nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// DueIn says that something will be due after d.
func (m *Monitor) DueIn(d time.Duration) {
	at := time.Now().Add(d)
	m.mu.Lock()
	sooner := m.next.IsZero() || at.Before(m.next)
	if sooner {
		m.next = at
	}
	m.mu.Unlock()
	if sooner {
		m.Nudge()
	}
}

// minPause keeps rounds apart, so that what falls due close together is asked together.
const minPause = 2 * time.Millisecond

// Run asks until ctx is done; then it waits for the requests under way, which it
// cuts off, and returns nil. An error is the store's: call Run again.
func (m *Monitor) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last := time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		m.mu.Lock()
		at := last.Add(m.o.Rules.PollInterval)
		if !m.next.IsZero() && m.next.Before(at) {
			at = m.next
		}
		m.mu.Unlock()
		if at.After(now) || now.Sub(last) < minPause {
			timer.Reset(max(at.Sub(now), minPause))
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			case <-m.wake:
			}
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		last = now
		if err := m.round(ctx, &asking); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// round asks about everything that is due.
func (m *Monitor) round(ctx context.Context, asking *sync.WaitGroup) error {
	m.mu.Lock()
	m.next = time.Time{}
	m.mu.Unlock()
	for {
		// The lease covers a request that takes its whole time, and some waiting for a hand.
		rows, err := m.store.Pending(ctx, store.PendingQuery{Limit: m.o.Batches, Lease: 2 * m.o.RequestTimeout})
		if err != nil {
			return fmt.Errorf("select pending batches: %w", err)
		}
		var put []store.Due
		for _, g := range m.group(rows) {
			hand, ok := m.hand(ctx, g.key)
			if !ok {
				put = append(put, dueIn(g.rows, 100*time.Millisecond)...)
				continue
			}
			asking.Add(1)
			go func() {
				defer asking.Done()
				hung := false
				defer func() { hand.Release(hung) }()
				hung = m.ask(ctx, g)
			}()
		}
		if err := m.checked(ctx, put); err != nil {
			return err
		}
		if len(rows) < m.o.Batches {
			return nil
		}
	}
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
	if err != nil && ctx.Err() == nil {
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
		if v.Resolve {
			v = m.resolve(ctx, f, k, g.traits)
		}
		if v.Outcome != nil {
			m.updater.Put(*v.Outcome)
		} else {
			due = append(due, store.Due{Ref: f.Ref, In: v.Next})
		}
	}
	if checkErr := m.checked(ctx, due); checkErr != nil && ctx.Err() == nil {
		m.o.Trouble(g.service, checkErr) // their lease ends and they are asked about again
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func (m *Monitor) request(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.RequestTimeout)
	defer cancel()
	return loop.Contain(func() error { return f(ctx) })
}

// resolve asks for evidence. An error is no evidence: it is asked again.
func (m *Monitor) resolve(ctx context.Context, f store.InFlight, k Known, t dlt.Traits) Verdict {
	var found dlt.Evidence
	err := m.request(ctx, func(ctx context.Context) (err error) {
		found, err = m.o.Resolver.Resolve(ctx, batch.Attempt{Key: f.Key, Number: f.Attempt})
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			m.o.Trouble(f.Key.Service, fmt.Errorf("resolve %s: %w", f.Key, err))
		}
		return Decide(f, Known{Seen: k.Seen}, t, m.o.Rules)
	}
	k.Evidence = &found
	return Decide(f, k, t, m.o.Rules)
}

// maxSightings bounds the memory of first sights; past it they start over, which
// only makes this process wait longer.
const maxSightings = 50_000

// seenFor returns how long this process has known that a claim is over, on its own
// monotonic clock.
func (m *Monitor) seenFor(f store.InFlight) time.Duration {
	if f.State != batch.Submitting {
		return 0
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := sighting{f.Key.ID, f.Version}
	first, ok := m.seen[key]
	if !ok {
		if len(m.seen) >= maxSightings {
			clear(m.seen)
		}
		m.seen[key] = now
		return 0
	}
	return now.Sub(first)
}

// Forget drops the first sight of a version that has moved on.
func (m *Monitor) Forget(id batch.ID, version int64) {
	m.mu.Lock()
	delete(m.seen, sighting{id, version})
	m.mu.Unlock()
}

func (m *Monitor) checked(ctx context.Context, due []store.Due) error {
	if len(due) == 0 {
		return nil
	}
	soonest := due[0].In
	for _, d := range due {
		soonest = min(soonest, d.In)
	}
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
