package position

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// clone returns a copy of everything that can change.
func (w *world) clone() *world {
	n := *w
	n.adders = slices.Clone(w.adders)
	n.laneOf = slices.Clone(w.laneOf)
	n.claimers = slices.Clone(w.claimers)
	n.memories = make([]*Lanes, len(w.memories))
	for i, m := range w.memories {
		n.memories[i] = m.clone()
	}
	for i := range n.claimers {
		if c := &n.claimers[i]; c.c != nil {
			own := *c.c
			own.m, own.visited = n.memories[c.process], maps.Clone(own.visited)
			c.c = &own
		}
	}
	return &n
}

func (m *Lanes) clone() *Lanes {
	copied := func(lanes map[batch.ServiceID]*lane) map[batch.ServiceID]*lane {
		n := make(map[batch.ServiceID]*lane, len(lanes))
		for s, l := range lanes {
			own := *l // its ranges are replaced, and never changed
			n[s] = &own
		}
		return n
	}
	return &Lanes{
		limit: m.limit, epoch: m.epoch, incarnation: m.incarnation, young: copied(m.young), old: copied(m.old), generationsMade: m.generationsMade,
		open: m.open.clone(), sealing: m.sealing.clone(), byLock: m.byLock, nextLockRead: m.nextLockRead, stall: m.stall,
	}
}

func (g *generation) clone() *generation {
	if g == nil {
		return nil
	}
	n := *g
	n.candidates, n.holders = maps.Clone(g.candidates), maps.Clone(g.holders)
	return &n
}

// state has everything that decides about the next moves, without mere counters.
type state []byte

func (s *state) n(values ...int64) {
	for _, v := range values {
		*s = binary.AppendVarint(*s, v)
	}
}

func (s *state) b(values ...bool) {
	for _, v := range values {
		*s = append(*s, map[bool]byte{true: 1}[v])
	}
}

func (s *state) ranges(ranges []Range) {
	s.n(int64(len(ranges)))
	for _, r := range ranges {
		s.n(r.From, r.To)
	}
}

func (s *state) keys(keys []int64) {
	s.n(int64(len(keys)))
	s.n(keys...)
}

func (w *world) state(s state) state {
	s.n(w.clock, int64(w.xid), int64(w.latest), w.started)
	s.n(int64(w.backs), int64(w.claimed), int64(w.aborted), int64(w.cancelled), int64(w.halted), int64(w.restarted), int64(w.crashed), int64(w.losses), int64(w.failed), int64(w.pruned))
	for i := range w.adders {
		a := &w.adders[i]
		s.n(int64(a.pc), int64(a.at), int64(a.xid), a.last, a.key, int64(a.requeuedTimes))
		s.b(a.locks, a.prepared, a.renamed, a.tried)
		if w.prunes > 0 {
			s.n(a.finalAt)
		}
	}
	for _, l := range w.laneOf {
		s.n(int64(l.lock), l.requeues)
		s.b(l.closed)
	}
	for _, m := range w.memories {
		s.memory(w, m)
	}
	for i := range w.claimers {
		s.claimer(w, &w.claimers[i])
	}
	return s
}

func (s *state) claimer(w *world, c *claimer) {
	s.n(int64(c.pc))
	if c.pc == idle {
		return
	}
	m, g := c.c.m, c.c.m.sealing
	s.n(int64(c.lane), int64(c.limit), c.requeues, c.clock, c.found.Incarnation, int64(c.xid), int64(c.found.Xid), int64(c.found.Xmin))
	s.b(c.dead, c.openA, c.openW, c.c.epoch == m.epoch, c.c.laterLockRead, c.c.wholeReads > 0, g != nil && c.c.closedGeneration == g.id, g != nil && c.c.lockGeneration == g.id)
	s.n(int64(len(c.held)))
	for _, h := range c.held {
		*s = append(*s, h...)
	}
	s.ranges(c.ranges)
	s.keys(c.tried)
	s.keys(c.waits)
	v, ok := c.c.visited[w.service(c.lane)]
	s.b(ok, v.whole)
	s.n(v.requeues, v.clock, v.bound)
}

func (s *state) memory(w *world, m *Lanes) {
	s.n(m.incarnation)
	s.b(m.byLock)
	for _, g := range []*generation{m.open, m.sealing} {
		if g == nil {
			s.n(-1)
			continue
		}
		s.n(int64(len(g.candidates)), int64(g.xid), int64(len(g.holders)))
		s.b(g.locksRead)
		for i := range w.laneOf {
			key, ok := g.candidates[w.service(int8(i))]
			s.b(ok)
			s.n(key)
		}
		for _, h := range g.someHolders() {
			*s = append(*s, h...)
		}
	}
	for i := range w.laneOf {
		l := m.find(w.service(int8(i)))
		s.b(l == nil)
		if l != nil {
			s.n(l.requeues, l.bound)
			s.ranges(l.ranges)
		}
	}
}

// explorer visits all states that can be reached.
type explorer struct {
	seed  maphash.Seed
	seen  map[uint64]struct{}
	path  []move
	wrong string
	most  int // the number of states after which the exploration stops
	moved int // the number of positions that had moved at the end
}

func explore(s setting, most int) *explorer {
	e := &explorer{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, most: most}
	w := newWorld(&s)
	for _, m := range s.first {
		w.do(m)
		e.path = append(e.path, m)
	}
	e.from(w, nil)
	return e
}

func (e *explorer) from(w *world, buf state) bool {
	for _, m := range w.moves(nil) {
		if len(e.seen) >= e.most {
			return true
		}
		n := w.clone()
		n.do(m)
		e.path = append(e.path, m)
		if said := n.check(); said != "" {
			e.wrong = said
			return false
		}
		buf = n.state(buf[:0])
		hash := maphash.Bytes(e.seed, buf)
		if _, ok := e.seen[hash]; !ok {
			e.seen[hash] = struct{}{}
			if !e.from(n, buf) {
				return false
			}
		}
		e.path = e.path[:len(e.path)-1]
	}
	return true
}

func (e *explorer) String() string {
	s := fmt.Sprintf("%s (%d states)", e.wrong, len(e.seen))
	for _, m := range e.path {
		s += "\n  " + m.String()
	}
	return s
}

// wander makes random moves. Some adders take long, and rare moves are rare.
func wander(s setting, seed uint64, steps int) *explorer {
	r := rand.New(rand.NewPCG(seed, 0))
	w, e := newWorld(&s), &explorer{}
	slow := make([]bool, len(w.adders))
	for i := range slow {
		slow[i] = r.IntN(3) == 0
	}
	weight := func(m move) int {
		switch m.kind {
		case addStep:
			a := &w.adders[m.i]
			switch {
			case a.pc == 0:
				return 20
			case m.j < 0:
				return 5
			case slow[m.i]:
				return 10
			}
			return 400
		case claimStep:
			if m.j == 2 && w.claimers[m.i].pc == looking || m.j < 0 {
				return 20
			}
			return 400
		case beginClaim:
			return 200
		case finish:
			if w.adders[m.i].at == waits {
				return 3
			}
			return 200
		case requeued, prune:
			return 200
		case requeue:
			return 10
		case toggle:
			if w.laneOf[m.i].closed {
				return 100
			}
			return 10
		}
		return 1
	}
	var all []move
	for range steps {
		all = w.moves(all[:0])
		sum := 0
		for _, m := range all {
			sum += weight(m)
		}
		if sum == 0 {
			break
		}
		at := r.IntN(sum)
		k := 0
		for ; at >= weight(all[k]); k++ {
			at -= weight(all[k])
		}
		e.path = append(e.path, all[k])
		w.do(all[k])
		if e.wrong = w.check(); e.wrong != "" {
			return e
		}
	}
	for _, m := range w.memories {
		for i := range w.laneOf {
			if l := m.find(w.service(int8(i))); l != nil && wholeFrom(l.ranges) > math.MinInt64 {
				e.moved++
			}
		}
	}
	return e
}
