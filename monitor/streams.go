package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// stream is the ledger's event stream about one group: a service, or a whole ledger (the event
// monitor of docs/glossary.md#dlt-polling-monitor). Polling goes on beside it, as the floor.
type stream struct {
	*inhand.Stream
	key      string
	one      bool                          // the group is one service
	service  batch.ServiceID               // if one: that service
	first    batch.ServiceID               // the service it was opened for
	services map[batch.ServiceID]time.Time // followed, and when last
	cancel   context.CancelFunc
	used     time.Time // last followed
	swept    time.Time // when services that nobody follows any more were last forgotten
	idle     time.Duration
	look     bool // an event may have been missed: look at all batches under way
}

const (
	// streamIdle, plus the ledger's LateArrival, is how long a stream stays open after its
	// last Follow: a doubt waits for LateArrival, and the log of the stream that settles it
	// must reach as far.
	streamIdle = 5 * time.Minute
	// lookPause is the least time between two looks that events trigger.
	lookPause = 10 * time.Millisecond
	// askServices is how many services one selection for an ask names.
	askServices = 250
	// Reconnecting starts soon, since a broken stream is only slower, never wrong.
	minReconnect, maxReconnect = 100 * time.Millisecond, 30 * time.Second
)

// Follow says that this process posts, or will soon post, a batch of the service: its events
// are wanted. Once Options.Streams streams are open, further services are only polled.
func (m *Monitor) Follow(s batch.ServiceID) {
	if m.o.Events == nil {
		return
	}
	t := m.o.Traits(s)
	if !t.Streams {
		return
	}
	key, now := inhand.Group(t, s), time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[key]
	if st == nil {
		if len(m.streams) >= m.o.Streams {
			return
		}
		st = &stream{
			Stream: m.table.Stream(key), key: key, services: map[batch.ServiceID]time.Time{}, swept: now, idle: streamIdle + t.LateArrival,
		}
		if t.GroupsByService {
			st.one, st.service = true, s
		}
		st.first = s
		m.streams[key] = st
		m.unopened = append(m.unopened, st)
		poke(m.wake)
	}
	st.used = now
	st.services[s] = now
}

// sweep forgets the services that were last followed too long ago. On a ledger with one stream for
// everything they would be all services ever. m.mu is held.
func (st *stream) sweep(now time.Time) {
	st.swept = now
	maps.DeleteFunc(st.services, func(_ batch.ServiceID, at time.Time) bool { return now.Sub(at) > streamIdle })
}

// follow lets events cause questions about a row, if this process follows its service.
func (m *Monitor) follow(group string, row store.InFlight, next time.Duration) {
	m.mu.Lock()
	st := m.streams[group]
	mine := st != nil && !st.services[row.Key.Service].IsZero()
	m.mu.Unlock()
	if mine {
		m.table.Follow(row, next)
	}
}

// openStreams opens new streams, and closes streams that nobody follows any more.
func (m *Monitor) openStreams(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.unopened {
		ctx, cancel := context.WithCancel(ctx)
		st.cancel = cancel
		m.asking.Go(func() { defer cancel(); m.listen(ctx, st) })
	}
	m.unopened = nil
	now := time.Now()
	for key, st := range m.streams {
		if now.Sub(st.used) > st.idle {
			st.cancel()
			delete(m.streams, key)
			st.Close()
		} else if now.Sub(st.swept) > streamIdle {
			st.sweep(now)
		}
	}
}

// closeStreams ends all streams. The next claims follow them again.
func (m *Monitor) closeStreams() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.streams {
		if st.cancel != nil { // else it was never opened
			st.cancel()
		}
		st.Close()
	}
	clear(m.streams)
	m.unopened = nil
}

// listen keeps a stream open until ctx is done.
func (m *Monitor) listen(ctx context.Context, st *stream) {
	pause := loop.Backoff(minReconnect, maxReconnect)
	services := []batch.ServiceID{st.first}
	for silent := false; ; {
		err := loop.Contain(func() error {
			return m.o.Events.Events(ctx, services, func(e dlt.Event) error {
				m.tell(st, e)
				return ctx.Err()
			})
		})
		if ctx.Err() != nil {
			return
		}
		if st.Broke() {
			pause.Reset()
			silent = false
			m.DueIn(0) // what it would have told is polled again from now on
		}
		if !silent {
			m.o.Trouble(st.service, fmt.Errorf("events: stream ended: %w", err))
			silent = true // until it has lived again
		}
		if !loop.Sleep(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// tell acts on an event. A commit is a fact and recorded as it is, in any state of the row
// (docs/design.md#promise-5-fencing); anything else is a reason to ask.
func (m *Monitor) tell(st *stream, e dlt.Event) {
	look := e.Live
	var found []store.Outcome
	for _, s := range e.Statuses {
		if s.Reported != batch.ReportedCommitted {
			look = true
			continue
		}
		found = append(found, store.Outcome{
			Ref: store.Ref{Key: batch.Key{Service: e.Service, ID: s.ID}}, By: batch.ByMonitor,
			Finding: store.IsCommitted, Attempt: s.Attempt, Receipts: s.Receipts,
		})
	}
	st.Began()
	st.Told(found)
	if !look && len(found) > 0 {
		return
	}
	st.Heard(!look)
	if look {
		m.mu.Lock()
		defer m.mu.Unlock()
		st.look = true
		m.lookSoon()
	}
}

// lookSoon schedules a look at rows, at least lookPause after the last. m.mu is held.
func (m *Monitor) lookSoon() {
	if m.lookAt.IsZero() {
		m.lookAt = time.Now()
		if limit := m.looked.Add(lookPause); m.lookAt.Before(limit) {
			m.lookAt = limit
		}
		poke(m.event)
	}
}

// answerEvents asks because of events until ctx is done. It runs beside the polling, which
// would hold it up.
func (m *Monitor) answerEvents(ctx context.Context) {
	defer poke(m.event) // for the next answerEvents
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		m.mu.Lock()
		at := m.lookAt
		m.mu.Unlock()
		switch wait := time.Until(at); {
		case at.IsZero():
			timer.Stop()
		case wait > 0:
			timer.Reset(wait)
		default:
			m.look(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.event:
		}
	}
}

// look asks about all batches under way in groups where more may have happened than the events
// say, after a read of the store.
func (m *Monitor) look(ctx context.Context) {
	var services []batch.ServiceID
	m.mu.Lock()
	m.looked, m.lookAt = time.Now(), time.Time{}
	for _, st := range m.streams {
		if !st.look {
			continue
		}
		st.look = false
		st.sweep(m.looked)
		services = slices.AppendSeq(services, maps.Keys(st.services))
	}
	m.mu.Unlock()
	for len(services) > 0 && ctx.Err() == nil {
		n := min(len(services), askServices)
		asked := time.Now()
		q := store.PendingQuery{Services: services[:n]}
		rows, err := m.pending(ctx, q)
		if len(rows) >= m.o.Batches { // there may be more: then they take turns
			q.Lease = m.o.Rules.PollInterval
			rows, err = m.pending(ctx, q)
		}
		if err != nil {
			return // it stops
		}
		m.dispatch(ctx, rows, asked, m.event, true)
		services = services[n:]
	}
}
