package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// stream is the ledger's event stream of one group: a service, or a whole ledger (the event
// monitor of docs/glossary.md#dlt-polling-monitor). Polling goes on beside it, so no batch depends
// on events.
type stream struct {
	*inhand.Stream
	service    batch.ServiceID               // the group is this service, if any
	openedFor  batch.ServiceID               // the service for which the stream was opened
	services   map[batch.ServiceID]time.Time // the followed services, and when each was last followed
	cancel     context.CancelFunc
	followedAt time.Time // when the stream was last followed
	sweptAt    time.Time // when services that are no longer followed were last forgotten
	closeAfter time.Duration
	askAll     bool // true if an event may have been missed, so all batches under way are to be asked about
}

const (
	// streamIdle, plus the ledger's LateArrival, is how long a stream stays open after its last
	// Follow: a doubt waits for LateArrival, and the log of the stream that settles the doubt must
	// cover that time.
	streamIdle = 5 * time.Minute
	// eventReadPause is the least time between two reads that events trigger.
	eventReadPause = 10 * time.Millisecond
	// servicesPerRead is the most services that one read after events names.
	servicesPerRead = 250
	// Reconnecting starts soon. A broken stream does no harm, it only delays outcomes.
	minReconnect, maxReconnect = 100 * time.Millisecond, 30 * time.Second
)

// streams has the streams that are open, or about to be opened.
type streams struct {
	options      *Options
	ledger       dlt.Ledger
	table        *inhand.Table
	underWay     *sync.WaitGroup
	dueIn        func(time.Duration) // tells when rows will be due
	readMayBeDue chan struct{}       // wakes answerEvents, because a read may be due

	mu       sync.Mutex
	byGroup  map[string]*stream // open streams by the key of the group
	toOpen   []*stream
	readAt   time.Time // when to read rows because of an event; zero if there is no event
	lastRead time.Time // when rows were last read because of an event
}

// followService follows a service, and reports whether a stream is to be opened for it.
func (a *streams) followService(t dlt.Traits, s batch.ServiceID) (opens bool) {
	key, now := inhand.Group(t, s), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	st := a.byGroup[key]
	if st == nil {
		if len(a.byGroup) >= a.options.MaxStreams {
			return false
		}
		st = &stream{
			Stream: a.table.Stream(key), openedFor: s, services: map[batch.ServiceID]time.Time{}, sweptAt: now, closeAfter: streamIdle + t.LateArrival,
		}
		if t.GroupsByService {
			st.service = s
		}
		a.byGroup[key] = st
		a.toOpen = append(a.toOpen, st)
		opens = true
	}
	st.followedAt = now
	st.services[s] = now
	return opens
}

// sweep forgets the services that were last followed too long ago. On a ledger with one stream for
// all services the map would otherwise keep every service. a.mu is held.
func (st *stream) sweep(now time.Time) {
	st.sweptAt = now
	maps.DeleteFunc(st.services, func(_ batch.ServiceID, at time.Time) bool { return now.Sub(at) > streamIdle })
}

// isFollowed reports whether this process follows a service of a group.
func (a *streams) isFollowed(group string, s batch.ServiceID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := a.byGroup[group]
	return st != nil && !st.services[s].IsZero()
}

// open opens new streams, and closes streams that are no longer followed.
func (a *streams) open(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range a.toOpen {
		ctx, cancel := context.WithCancel(ctx)
		st.cancel = cancel
		a.underWay.Go(func() { defer cancel(); a.listen(ctx, st) })
	}
	a.toOpen = nil
	now := time.Now()
	for key, st := range a.byGroup {
		if now.Sub(st.followedAt) > st.closeAfter {
			st.cancel()
			delete(a.byGroup, key)
			st.Close()
		} else if now.Sub(st.sweptAt) > streamIdle {
			st.sweep(now)
		}
	}
}

// close ends all streams. Follow opens them again at the next claims.
func (a *streams) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range a.byGroup {
		if st.cancel != nil { // nil if the stream was never opened
			st.cancel()
		}
		st.Close()
	}
	clear(a.byGroup)
	a.toOpen = nil
}

// listen keeps a stream connected until ctx is done.
func (a *streams) listen(ctx context.Context, st *stream) {
	pause := loop.NewPauses(minReconnect, maxReconnect)
	services := []batch.ServiceID{st.openedFor}
	for silent := false; ; {
		err := a.ledger.Events(ctx, services, func(e dlt.Event) error {
			a.handle(st, e)
			return ctx.Err()
		})
		if ctx.Err() != nil {
			return
		}
		if st.Broke() {
			pause.Reset()
			silent = false
			a.dueIn(0) // batches that this stream would have reported are polled from now on
		}
		if !silent {
			a.options.Trouble(fmt.Errorf("events: stream ended: %w", err))
			silent = true // true until the stream is live again
		}
		if !loop.Sleep(ctx, pause.NextBackOff()) {
			return
		}
	}
}

// handle acts on an event. A commit is a fact and recorded as it is, in any state of the row
// (docs/design.md#promise-5-fencing). Any other event is only a reason to ask.
func (a *streams) handle(st *stream, e dlt.Event) {
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
	st.Commits(found)
	if !look && len(found) > 0 {
		return
	}
	st.Heard()
	if !look {
		st.AskSoon()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if st.askAll = true; a.readAt.IsZero() {
		a.readAt = time.Now()
		if limit := a.lastRead.Add(eventReadPause); a.readAt.Before(limit) {
			a.readAt = limit
		}
		loop.Poke(a.readMayBeDue)
	}
}

// nextRead returns when to read rows because of an event; zero if there is no event.
func (a *streams) nextRead() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.readAt
}

// beginRead begins a read, and returns the services whose rows are to be read.
func (a *streams) beginRead() (services []batch.ServiceID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastRead, a.readAt = time.Now(), time.Time{}
	for _, st := range a.byGroup {
		if !st.askAll {
			continue
		}
		st.askAll = false
		st.sweep(a.lastRead)
		services = slices.AppendSeq(services, maps.Keys(st.services))
	}
	return services
}
