package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

const (
	// hearTestInterval is the pause between two tests that notifications arrive. hearTestLimit is
	// how long the notification of such a test may take.
	hearTestInterval = time.Minute
	hearTestLimit    = 10 * time.Second
	// sessionLinger is how long a session goes on without a listener. So a process that waits for
	// one batch after another does not open a session for each.
	sessionLinger = 3 * time.Second
)

// ErrDeaf means that a session listens and notifications do not arrive there, for example because
// a pooler in transaction mode is in between. See Options.Listen.
var ErrDeaf = errors.New("a notification that was sent through the pool did not arrive at the session that listens, as behind a pooler in transaction mode: set Options.Listen")

// pauseAfterLoss and pauseWhenDeaf are pauses after a session that failed, since behind a pooler
// the next session would fail in the same way.
const (
	pauseAfterLoss = time.Second
	pauseWhenDeaf  = time.Minute
)

// errStalled is ErrDeaf for a session on which notifications arrived before: the server is slow,
// for example, or the connection was cut without a reset.
var errStalled = fmt.Errorf("a notification that was sent through the pool has not arrived within %s, as earlier ones did", hearTestLimit)

// listeners are the listeners of a store. They share one session.
type listeners struct {
	mu              sync.Mutex
	all             map[*listenerState]struct{}
	session         *listenSession // nil while no session runs
	lastErr         error          // the error of the last session
	noSessionBefore time.Time      // the time until which no other session is opened
}

// listenerState is one listener.
type listenerState struct {
	store.Listener
	failure    chan error // has capacity one; the reason why the listener gets no hints any more
	toldAt     time.Time  // when this session last told others that the listener listens; zero means never
	hasArrived bool       // true if that notification has arrived here
}

// listenSession is one session that listens.
type listenSession struct {
	listenersChanged chan struct{}              // has capacity one; a listener was added or removed
	ownHintArrived   chan struct{}              // has capacity one; the listener's own notification has arrived
	testedAt         map[introduction]time.Time // the time of each test; used by testListeners alone
	isProven         bool                       // true if a notification has arrived; used by testListeners alone
	hintsWay         string                     // how notifications arrive, for people; set before the first can arrive
}

// introduction is what a listener tells other processes about itself.
type introduction struct {
	id    string
	wants store.Topics
}

// Hear is [store.Store].Hear: it passes hints to the listener until ctx is done. It uses LISTEN.
// All calls of a store share one session.
func (s *Store) Hear(ctx context.Context, l store.Listener) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := s.join(l)
	if err != nil {
		return wrap("listen", err)
	}
	defer s.leave(e)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-e.failure:
		return wrap("listen", err)
	}
}

func (s *Store) join(l store.Listener) (*listenerState, error) {
	e := &listenerState{Listener: l, failure: make(chan error, 1)}
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	if s.listeners.session == nil && time.Now().Before(s.listeners.noSessionBefore) {
		return nil, s.listeners.lastErr
	}
	if s.listeners.all == nil {
		s.listeners.all = map[*listenerState]struct{}{}
	}
	s.listeners.all[e] = struct{}{}
	if s.listeners.session == nil {
		s.open()
	}
	signal(s.listeners.session.listenersChanged)
	return e, nil
}

// open begins a session. The caller holds s.listeners.mu.
func (s *Store) open() {
	s.listeners.session = &listenSession{listenersChanged: make(chan struct{}, 1), ownHintArrived: make(chan struct{}, 1), testedAt: map[introduction]time.Time{}}
	go s.listen(s.listeners.session)
}

func (s *Store) leave(e *listenerState) {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	delete(s.listeners.all, e)
	if s.listeners.session != nil {
		signal(s.listeners.session.listenersChanged)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen keeps a session until no listener is left, or until notifications do not arrive.
func (s *Store) listen(on *listenSession) {
	err := s.session(on)
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	s.listeners.session = nil
	if err == nil { // no listener was left
		if len(s.listeners.all) > 0 { // a listener has been added since
			s.open()
		}
		return
	}
	pause := pauseAfterLoss
	if errors.Is(err, ErrDeaf) || errors.Is(err, conns.ErrNoListener) {
		pause = pauseWhenDeaf
	}
	s.listeners.lastErr, s.listeners.noSessionBefore = err, time.Now().Add(pause)
	for e := range s.listeners.all { // each of them calls Hear again
		e.failure <- err
		delete(s.listeners.all, e)
	}
}

func (s *Store) session(on *listenSession) error {
	opening, cancel := context.WithTimeout(context.Background(), hearTestLimit)
	defer cancel()
	l, way, err := s.openSession(opening)
	if err != nil {
		return err
	}
	on.hintsWay = "LISTEN on " + way
	if err := l.Listen(opening, s.names.channel()); err != nil {
		l.Close(err)
		return err
	}
	reading, stop := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			payload, err := l.Next(reading)
			if err != nil {
				stop(err)
				return
			}
			if h, ours := store.ParseHint(payload); ours {
				s.deliverHint(on, h)
			}
		}
	}()
	err = s.testListeners(reading, on)
	if lost := context.Cause(reading); lost != nil {
		err = lost
	}
	stop(nil)
	<-ended
	l.Close(err)
	return err
}

// openSession opens the session. way says for people whose connection it is.
func (s *Store) openSession(ctx context.Context) (l conns.Listener, way string, err error) {
	if s.opts.Listen == nil {
		return s.pool.Listen(ctx)
	}
	l, err = s.opts.Listen(ctx)
	return l, "a connection of Options.Listen", err
}

// deliverHint passes a hint to the listeners of its topics.
func (s *Store) deliverHint(on *listenSession, h store.Hint) {
	s.listeners.mu.Lock()
	all := slices.Collect(maps.Keys(s.listeners.all))
	var own []*listenerState
	for _, e := range all {
		if h.Hears != 0 && h.From == e.ID && !e.toldAt.IsZero() {
			e.hasArrived = true
			own = append(own, e)
		}
	}
	s.listeners.mu.Unlock()
	for _, e := range own {
		e.Live(on.hintsWay)
	}
	if len(own) > 0 {
		signal(on.ownHintArrived)
	}
	for _, e := range all {
		if h.For(e.Listener) {
			e.Heard(h)
		}
	}
}

// testListeners makes each new listener, and once a minute every listener, tell other processes
// that it listens. That hint goes through the pool, as all hints do, and has to arrive at the
// session.
func (s *Store) testListeners(ctx context.Context, on *listenSession) error {
	tick := time.NewTicker(hearTestInterval)
	defer tick.Stop()
	linger := time.NewTimer(sessionLinger)
	defer linger.Stop()
	for {
		if err := s.introduce(ctx, on); err != nil {
			return err
		}
		linger.Reset(sessionLinger)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-on.listenersChanged:
		case <-tick.C:
			clear(on.testedAt)
			s.forgetIntroductions()
		case <-linger.C:
			s.listeners.mu.Lock()
			alone := len(s.listeners.all) == 0
			s.listeners.mu.Unlock()
			if alone {
				return nil
			}
		}
	}
}

// forgetIntroductions makes every listener tell again that it listens.
func (s *Store) forgetIntroductions() {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	for e := range s.listeners.all {
		e.toldAt, e.hasArrived = time.Time{}, false
	}
}

// introduce tells other processes of the listeners that were not told of yet, and waits until the
// notification arrives here.
func (s *Store) introduce(ctx context.Context, on *listenSession) error {
	why := ErrDeaf
	if on.isProven {
		why = errStalled
	}
	limit, cancel := context.WithTimeoutCause(ctx, hearTestLimit, why)
	defer cancel()
	var wait []*listenerState
	for _, e := range s.takeUntold() {
		i := introduction{e.ID, e.Wants}
		if !on.testedAt[i].IsZero() { // the same listener was there a moment ago
			e.Live(on.hintsWay)
			continue
		}
		if err := s.Tell(limit, store.Hint{From: e.ID, Hears: e.Wants}); err != nil {
			return fmt.Errorf("test whether notifications arrive: %w", err)
		}
		wait = append(wait, e)
	}
	for {
		s.listeners.mu.Lock()
		wait = slices.DeleteFunc(wait, func(e *listenerState) bool {
			_, listens := s.listeners.all[e]
			if e.hasArrived {
				on.isProven = true
				on.testedAt[introduction{e.ID, e.Wants}] = e.toldAt
			}
			return e.hasArrived || !listens
		})
		s.listeners.mu.Unlock()
		if len(wait) == 0 {
			return nil
		}
		select {
		case <-limit.Done():
			return context.Cause(limit)
		case <-on.ownHintArrived:
		}
	}
}

// takeUntold returns the listeners that other processes were not told of yet, and notes that they
// are told of now.
func (s *Store) takeUntold() (all []*listenerState) {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	for e := range s.listeners.all {
		if e.toldAt.IsZero() {
			e.toldAt = time.Now()
			all = append(all, e)
		}
	}
	return all
}
