package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// stream is the ledger's event stream about one group: a service, or a whole ledger (the event
// monitor of docs/glossary.md#dlt-polling-monitor). Polling goes on beside it, as the floor.
type stream struct {
	key      string
	one      bool                          // the group is one service
	service  batch.ServiceID               // if one: that service
	first    batch.ServiceID               // the service it was opened for
	services map[batch.ServiceID]time.Time // followed, and when last
	cancel   context.CancelFunc
	used     time.Time // last followed
	idle     time.Duration
	live     bool
	names    bool      // it has reported commits by their ids
	heard    time.Time // when it last gave a reason to ask
	flights  map[batch.Key]*flight
	ask      bool // an event came: ask about the flights
	look     bool // an event may have been missed: ask about all batches under way
}

const (
	// streamIdle, plus the ledger's LateArrival, is how long a stream stays open after its
	// last Follow: a doubt waits for LateArrival, and the log of the stream that settles it
	// must reach as far.
	streamIdle = 5 * time.Minute
	// askPause is the least time between two asks that events trigger.
	askPause = 10 * time.Millisecond
	// askServices is how many services one selection for an ask names.
	askServices = 250
	// Reconnecting starts soon, since a broken stream is only slower, never wrong.
	minReconnect, maxReconnect = 100 * time.Millisecond, 30 * time.Second
)

// groupKey names the group in which a service's batches are asked about.
func groupKey(t dlt.Traits, s batch.ServiceID) string {
	if t.GroupsByService {
		return t.Name + "\x00" + string(s)
	}
	return t.Name
}

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
	key, now := groupKey(t, s), time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[key]
	if st == nil {
		if len(m.streams) >= m.o.Streams {
			return
		}
		st = &stream{
			key: key, services: map[batch.ServiceID]time.Time{}, flights: map[batch.Key]*flight{},
			idle: streamIdle + t.LateArrival,
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

// askSoon schedules a question after wait, and at least askPause after the last one. m.mu is
// held.
func (m *Monitor) askSoon(wait time.Duration) {
	at := time.Now().Add(wait)
	if limit := m.asked.Add(askPause); at.Before(limit) {
		at = limit
	}
	if m.askAt.IsZero() || at.Before(m.askAt) {
		m.askAt = at
		poke(m.event)
	}
}

// tells reports whether a live stream reports about the group.
func (m *Monitor) tells(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[key]
	return st != nil && st.live
}

// Names reports whether a live stream reports the service's commits by their ids.
func (m *Monitor) Names(s batch.ServiceID) bool {
	if m.o.Events == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[groupKey(m.o.Traits(s), s)]
	return st != nil && st.live && st.names
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
	for key, st := range m.streams {
		if time.Since(st.used) > st.idle {
			st.cancel()
			m.flying -= len(st.flights)
			delete(m.streams, key)
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
	}
	clear(m.streams)
	m.unopened, m.flying = nil, 0
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
		m.mu.Lock()
		lived := st.live
		st.live = false
		m.mu.Unlock()
		if lived {
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
	ask := e.Live || len(e.Statuses) == 0
	var found []store.Outcome
	for _, s := range e.Statuses {
		if s.Reported != batch.ReportedCommitted {
			ask = true
			continue
		}
		found = append(found, m.committed(st, e.Service, s))
	}
	if len(found) > 0 {
		m.updater.Told(found)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st.live, st.names = true, st.names || len(found) > 0
	if ask {
		st.heard, st.ask = time.Now(), true
		st.look = st.look || e.Live || len(e.Statuses) > 0
		m.askSoon(0)
	}
}

// committed returns the outcome of a commit that an event reported, with the row if it is
// known.
func (m *Monitor) committed(st *stream, service batch.ServiceID, s batch.Status) store.Outcome {
	o := store.Outcome{
		Ref: store.Ref{Key: batch.Key{Service: service, ID: s.ID}}, By: batch.ByMonitor,
		Finding: store.IsCommitted, Attempt: s.Attempt, Receipts: s.Receipts,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := st.flights[o.Key]; f != nil && f.stored {
		o.Ref, o.Version, o.Was, f.told = f.ref, f.version, f.was, true
	}
	return o
}

// answerEvents asks because of events until ctx is done. It runs beside the polling, which
// would hold it up.
func (m *Monitor) answerEvents(ctx context.Context) {
	defer poke(m.event) // for the next answerEvents
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		m.mu.Lock()
		at := m.askAt
		m.mu.Unlock()
		switch wait := time.Until(at); {
		case at.IsZero():
			timer.Stop()
		case wait > 0:
			timer.Reset(wait)
		default:
			m.told(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.event:
		}
	}
}

// told asks because of events: about the flights, which need no look into the store, and about
// all batches under way in groups where more may have happened than the events say.
func (m *Monitor) told(ctx context.Context) {
	var services []batch.ServiceID
	var flights []store.InFlight
	m.mu.Lock()
	m.asked, m.askAt = time.Now(), time.Time{}
	for _, st := range m.streams {
		if st.look {
			for s, at := range st.services {
				services = append(services, s)
				if time.Since(at) > streamIdle {
					delete(st.services, s)
				}
			}
		} else {
			flights = append(flights, m.followed(st)...)
		}
		st.look, st.ask = false, false
	}
	m.mu.Unlock()
	m.dispatch(ctx, flights, time.Time{}, flown)
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
		m.dispatch(ctx, rows, asked, looked)
		services = services[n:]
	}
}
