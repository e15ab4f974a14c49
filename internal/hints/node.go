// Package hints tells other processes where there is something new, and hears what they tell.
// Nothing rests on it: scans and the reads of those who wait find everything without it, later.
package hints

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/deaf"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that hints need.
type Store interface {
	Tell(ctx context.Context, h store.Hint) error
	Hear(ctx context.Context, l store.Listener) error
}

// Options of a node; all must be set unless they say otherwise.
type Options struct {
	Store Store // nil is a store without hints: nothing is told, and nothing heard
	// Timeout bounds a Tell.
	Timeout time.Duration
	// Changed is called when the node begins to hear about topics, and when it hears no more of
	// them or the reason for that changes; nil is nobody.
	Changed func(t store.Topics, before, now State)
}

// State says whether somebody who listens hears hints.
type State struct {
	Live  bool
	Since time.Time // that it is so
	Way   string    // how they arrive, for people; "" while not Live
	Err   error     // why not; nil at first, and after a listener that ended as it should
}

// ForgetAfter is after how long without a word of it a listener counts as gone. Listeners tell of
// themselves once a minute.
const ForgetAfter = 150 * time.Second

// Node tells and hears for one Runner. Its methods may be called concurrently.
type Node struct {
	options Options
	id      string
	sender  sender

	mu         sync.Mutex
	peers      map[peer]time.Time   // when each was heard of last
	overflowAt time.Time            // when one more was heard of than are remembered
	liveCalls  map[store.Topics]int // calls of Hear that are live; none of topics without one
	liveSince  time.Time            // when the first of them became so
	states     map[store.Topics]State
}

// peer is another listener.
type peer struct {
	id     string
	topics store.Topics
}

// New returns a node that neither hears nor tells anything yet.
func New(o Options) *Node {
	n := &Node{options: o, id: rand.Text(), peers: map[peer]time.Time{}, liveCalls: map[store.Topics]int{}, states: map[store.Topics]State{}}
	n.sender = sender{store: o.Store, timeout: o.Timeout, from: n.id}
	return n
}

// Tell tells others, soon and without waiting.
func (n *Node) Tell(h store.Hint) {
	if n.options.Store != nil {
		n.sender.add(h)
	}
}

// Wanted reports whether another process may listen to one of these topics. A node that does not
// hear who listens, or not for long enough to know, says yes.
func (n *Node) Wanted(t store.Topics) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.options.Store == nil {
		return false
	}
	if len(n.liveCalls) == 0 || now.Sub(n.liveSince) < ForgetAfter || now.Sub(n.overflowAt) < ForgetAfter {
		return true
	}
	n.forget(now)
	for p := range n.peers {
		if p.topics&t != 0 {
			return true
		}
	}
	return false
}

// maxPeers bounds how many listeners a node remembers: anybody may make them up. With more it
// takes it that somebody listens to everything.
const maxPeers = 1000

// forget drops the listeners that are gone. The caller holds the lock.
func (n *Node) forget(now time.Time) {
	maps.DeleteFunc(n.peers, func(_ peer, at time.Time) bool { return now.Sub(at) >= ForgetAfter })
}

// heard takes note of who listens.
func (n *Node) heard(h store.Hint) {
	if h.Hears == 0 || h.From == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, now := peer{h.From, h.Hears}, time.Now()
	if _, known := n.peers[p]; !known && len(n.peers) >= maxPeers {
		if now.Sub(n.overflowAt) < time.Second {
			return // it was full just now
		}
		if n.forget(now); len(n.peers) >= maxPeers {
			n.overflowAt = now
			return
		}
	}
	n.peers[p] = now
}

// Hear gives hints about these topics to heard until ctx is done. It calls look when what happened
// before may not have been heard: each time that it has become live. Where hints do not arrive it
// tries again, less and less often. Several calls may hear about the same topics.
func (n *Node) Hear(ctx context.Context, topics store.Topics, heard func(store.Hint), look func()) {
	live := false // only Live and, after Hear has returned, this function use it
	var mu sync.Mutex
	l := store.Listener{
		ID: n.id, Wants: topics,
		Heard: func(h store.Hint) {
			n.heard(h)
			if h.Topics()&topics != 0 && !deaf.On {
				heard(h)
			}
		},
		Live: func(way string) {
			mu.Lock()
			first := !live && ctx.Err() == nil
			live = live || first
			mu.Unlock()
			if first {
				n.change(topics, State{Live: true, Way: way}, 1)
				look()
			}
		},
	}
	end := func(err error) {
		mu.Lock()
		was := live
		live = false
		mu.Unlock()
		change := 0
		if was {
			change = -1
		}
		n.change(topics, State{Err: err}, change)
	}
	loop.Run(ctx, func(ctx context.Context) error {
		err := store.ErrUnsupported
		if n.options.Store != nil {
			err = n.options.Store.Hear(ctx, l)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that was asked for
		}
		if errors.Is(err, store.ErrUnsupported) {
			end(err)
			return nil // it never can
		}
		if err == nil {
			err = errEnded
		}
		return err
	}, end)
	if ctx.Err() != nil {
		end(nil)
	}
}

var errEnded = errors.New("the store stopped to listen")

// change notes a state, and how many more calls of Hear are live. While another one is, the
// state stays.
func (n *Node) change(t store.Topics, s State, more int) {
	n.mu.Lock()
	before := n.states[t]
	if more > 0 && len(n.liveCalls) == 0 {
		n.liveSince = time.Now()
	}
	if n.liveCalls[t] += more; n.liveCalls[t] == 0 {
		delete(n.liveCalls, t)
	} else {
		s = State{Live: true, Way: cmp.Or(s.Way, before.Way)}
	}
	s.Since = before.Since
	if !s.Live && s.Err == nil && !before.Live {
		s.Err = before.Err // it has ended without being live
	}
	changed := before.Live != s.Live || text(before.Err) != text(s.Err)
	if before.Live != s.Live || s.Since.IsZero() {
		s.Since = time.Now()
	}
	n.states[t] = s
	n.mu.Unlock()
	if changed && n.options.Changed != nil {
		n.options.Changed(t, before, s)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// State says whether this node hears about topics, as they were given to Hear.
func (n *Node) State(t store.Topics) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.states[t]
}
