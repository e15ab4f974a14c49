package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// group is the batches that one stream of the ledger's events is about: those of a service, or
// of a whole ledger.
type group struct {
	live  bool      // the stream reports events
	names bool      // it has reported commits by their ids
	heard time.Time // when it last gave a reason to ask
	askAt time.Time // when to ask about all that is open; zero: no event
	open  []*slot   // the entries in phase Open
}

// Group names the group in which a service's batches are asked about.
func Group(t dlt.Traits, s batch.ServiceID) string {
	if t.GroupsByService {
		return t.Name + "\x00" + string(s)
	}
	return t.Name
}

// Stream says that the stream of a group has begun or ended to report events.
func (t *Table) Stream(name string, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		if !live {
			return
		}
		g = &group{}
		t.groups[name] = g
	}
	g.live = live
}

// Close says that the stream of a group was closed: its events cause no questions any more.
func (t *Table) Close(name string) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		return
	}
	delete(t.groups, name)
	for len(g.open) > 0 {
		t.set(g.open[0], Entry{}, now)
	}
}

// Heard says that an event came which may be about any batch of a group. With ask, everything
// open in the group is asked about, soon.
func (t *Table) Heard(name string, ask bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		return
	}
	if g.heard = now; !ask || !g.askAt.IsZero() {
		return
	}
	if g.askAt = now; now.Sub(t.lastAsk) < askPause {
		g.askAt = t.lastAsk.Add(askPause)
	}
	t.poke()
}

// Live reports whether a stream reports events about a group.
func (t *Table) Live(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	return g != nil && g.live
}

// about is what an entry's steps must know about its service.
type about struct {
	group  string // "" where the ledger streams no events
	vanish time.Duration
}

// about asks the client, and so is called without a lock.
func (t *Table) about(s batch.ServiceID) about {
	traits := t.o.Traits(s)
	a := about{vanish: traits.Vanish}
	if t.o.Events {
		a.group = Group(traits, s)
	}
	return a
}

// facts returns the facts for a step. t.mu is held.
func (t *Table) facts(s *slot) Facts {
	f := Facts{Full: t.follows >= maxFollowed, Crowded: t.waits >= maxWaiting || !t.running, Vanish: s.about.vanish}
	if g := t.groups[s.about.group]; g != nil {
		f.Live, f.Names, f.Heard = g.live, g.live && g.names, g.heard
	}
	return f
}

// join puts a slot into the group whose events cause questions about it, or takes it out. t.mu
// is held.
func (t *Table) join(s *slot) {
	switch {
	case s.Phase == Open && s.group == nil:
		if g := t.groups[s.about.group]; g != nil {
			s.group, s.place = g, len(g.open)
			g.open = append(g.open, s)
		}
	case s.Phase != Open && s.group != nil:
		g := s.group
		last := len(g.open) - 1
		g.open[s.place] = g.open[last]
		g.open[s.place].place = s.place
		g.open[last] = nil
		g.open, s.group = g.open[:last], nil
	}
}
