// Package hints sends hints to other processes, and receives theirs. Nothing depends on hints:
// scans, and the reads for callers that wait, find everything without them, later.
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
	Store Store // nil means a store without hints: no hint is sent or received
	// Timeout bounds a Tell.
	Timeout time.Duration
	// Changed is called when the node begins to receive hints about topics, when it no longer
	// receives them, and when the reason for that changes. It may be nil.
	Changed func(t store.Topics, before, now State)
}

// State tells whether hints about topics arrive.
type State struct {
	Live  bool
	Since time.Time // since when Live has this value
	Way   string    // how hints arrive, for people; "" if not Live
	Err   error     // why no hints arrive; nil while Live, before the first failure, and after a live listener ended as asked
}

// ForgetAfter is the time after which a listener that did not name itself counts as gone.
// Listeners name themselves once a minute.
const ForgetAfter = 150 * time.Second

// Node sends and receives hints for one Runner. Its methods may be called concurrently.
type Node struct {
	options Options
	id      string
	sender  sender

	mu         sync.Mutex
	peers      map[peer]time.Time   // when each last named itself
	overflowAt time.Time            // when a listener beyond maxPeers last named itself
	liveCalls  map[store.Topics]int // number of calls of Hear that are live, by topics
	liveSince  time.Time            // when the first of them became live
	states     map[store.Topics]State
}

// peer is another listener.
type peer struct {
	id     string
	topics store.Topics
}

// New returns a node that does not send or receive anything yet.
func New(o Options) *Node {
	n := &Node{options: o, id: rand.Text(), peers: map[peer]time.Time{}, liveCalls: map[store.Topics]int{}, states: map[store.Topics]State{}}
	n.sender = sender{store: o.Store, timeout: o.Timeout, senderID: n.id}
	return n
}

// Tell sends a hint to other processes, soon and without waiting.
func (n *Node) Tell(h store.Hint) {
	if n.options.Store != nil {
		n.sender.add(h)
	}
}

// Wanted reports whether another process may listen to one of these topics. It is true if this
// node does not know who listens, because it does not listen, or not for long enough.
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

// maxPeers bounds how many listeners a node remembers, because any client of the database may make
// them up. With more, Wanted is true for every topic.
const maxPeers = 1000

// forget removes the listeners that are gone. The caller holds the lock.
func (n *Node) forget(now time.Time) {
	maps.DeleteFunc(n.peers, func(_ peer, at time.Time) bool { return now.Sub(at) >= ForgetAfter })
}

// noteHint notes a listener that names itself.
func (n *Node) noteHint(h store.Hint) {
	if h.Hears == 0 || h.From == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, now := peer{h.From, h.Hears}, time.Now()
	if _, known := n.peers[p]; !known && len(n.peers) >= maxPeers {
		if now.Sub(n.overflowAt) < time.Second {
			return // there were too many just now
		}
		if n.forget(now); len(n.peers) >= maxPeers {
			n.overflowAt = now
			return
		}
	}
	n.peers[p] = now
}

// Hear calls heard with hints about these topics until ctx is done. It calls look each time that
// it has become live, because earlier hints may have been missed. If hints do not arrive it tries
// again, with growing pauses. Several calls may listen to the same topics.
func (n *Node) Hear(ctx context.Context, topics store.Topics, heard func(store.Hint), look func()) {
	live := false // used only by Live and, after the store's Hear has returned, by this function
	var mu sync.Mutex
	l := store.Listener{
		ID: n.id, Wants: topics,
		Heard: func(h store.Hint) {
			n.noteHint(h)
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
				n.changeState(topics, State{Live: true, Way: way}, 1)
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
		n.changeState(topics, State{Err: err}, change)
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
			return nil // this store never has hints
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

// changeState notes a state, and by how many the calls of Hear that are live change. While another
// call is live, the state stays live.
func (n *Node) changeState(t store.Topics, s State, more int) {
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
		s.Err = before.Err // this call ended without becoming live
	}
	changed := before.Live != s.Live || errorText(before.Err) != errorText(s.Err)
	if before.Live != s.Live || s.Since.IsZero() {
		s.Since = time.Now()
	}
	n.states[t] = s
	n.mu.Unlock()
	if changed && n.options.Changed != nil {
		n.options.Changed(t, before, s)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// State returns whether this node receives hints about topics. t is as it was given to Hear.
func (n *Node) State(t store.Topics) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.states[t]
}
