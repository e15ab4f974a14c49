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
	n.laneStates = slices.Clone(w.laneStates)
	n.claimers = slices.Clone(w.claimers)
	n.memories = make([]*Lanes, len(w.memories))
	for i, m := range w.memories {
		n.memories[i] = m.clone()
	}
	for i := range n.claimers {
		if c := &n.claimers[i]; c.claim != nil {
			own := *c.claim
			own.lanes, own.visits = n.memories[c.process], maps.Clone(own.visits)
			c.claim = &own
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
		maxLanes: m.maxLanes, epoch: m.epoch, incarnation: m.incarnation, recentlyUsed: copied(m.recentlyUsed), usedBefore: copied(m.usedBefore), generationsMade: m.generationsMade,
		collecting: m.collecting.clone(), sealing: m.sealing.clone(), lastSealWasByLock: m.lastSealWasByLock, nextLockRead: m.nextLockRead, stall: m.stall,
	}
}

func (g *generation) clone() *generation {
	if g == nil {
		return nil
	}
	n := *g
	n.candidates, n.lockHolders = maps.Clone(g.candidates), maps.Clone(g.lockHolders)
	return &n
}

// worldState has everything that decides about the next moves, without mere counters.
type worldState []byte

func (s *worldState) addNumbers(values ...int64) {
	for _, v := range values {
		*s = binary.AppendVarint(*s, v)
	}
}

func (s *worldState) addBools(values ...bool) {
	for _, v := range values {
		*s = append(*s, map[bool]byte{true: 1}[v])
	}
}

func (s *worldState) addRanges(ranges []Range) {
	s.addNumbers(int64(len(ranges)))
	for _, r := range ranges {
		s.addNumbers(r.From, r.To)
	}
}

func (s *worldState) addKeys(keys []int64) {
	s.addNumbers(int64(len(keys)))
	s.addNumbers(keys...)
}

func (w *world) appendState(s worldState) worldState {
	s.addNumbers(w.clock, int64(w.nextXid), int64(w.highestEndedXid), w.incarnation)
	s.addNumbers(int64(w.backStepsMade), int64(w.claimsMade), int64(w.abortsMade), int64(w.cancelsMade), int64(w.haltsMade), int64(w.restartsMade), int64(w.crashesMade), int64(w.connectionsLost), int64(w.failoversMade), int64(w.prunesMade))
	for i := range w.adders {
		a := &w.adders[i]
		s.addNumbers(int64(a.nextStep), int64(a.place), int64(a.xid), a.lastSeenKey, a.key, int64(a.requeuedTimes))
		s.addBools(a.holdsLock, a.isPrepared, a.hasLostName, a.wasAttempted)
		if w.prunes > 0 {
			s.addNumbers(a.finalAt)
		}
	}
	for _, l := range w.laneStates {
		s.addNumbers(int64(l.lockHolder), l.requeues)
		s.addBools(l.isHalted)
	}
	for _, m := range w.memories {
		s.addMemory(w, m)
	}
	for i := range w.claimers {
		s.addClaimer(w, &w.claimers[i])
	}
	return s
}

func (s *worldState) addClaimer(w *world, c *claimer) {
	s.addNumbers(int64(c.nextStep))
	if c.nextStep == stepIdle {
		return
	}
	m, g := c.claim.lanes, c.claim.lanes.sealing
	s.addNumbers(int64(c.lane), int64(c.limit), c.requeues, c.clock, c.serverState.Incarnation, int64(c.xid), int64(c.serverState.Xid), int64(c.serverState.Xmin))
	s.addBools(c.transactionIsGone, c.attemptedShowsOpen, c.waitingShowsOpen, c.claim.epoch == m.epoch, c.claim.laterLockRead, c.claim.wholeReads > 0, g != nil && c.claim.closedGeneration == g.id, g != nil && c.claim.lockGeneration == g.id)
	s.addNumbers(int64(len(c.lockHolders)))
	for _, h := range c.lockHolders {
		*s = append(*s, h...)
	}
	s.addRanges(c.ranges)
	s.addKeys(c.attemptedKeys)
	s.addKeys(c.waitingKeys)
	v, ok := c.claim.visits[w.service(c.lane)]
	s.addBools(ok, v.readsWholeLane)
	s.addNumbers(v.requeues, v.clock, v.bound)
}

func (s *worldState) addMemory(w *world, m *Lanes) {
	s.addNumbers(m.incarnation)
	s.addBools(m.lastSealWasByLock)
	for _, g := range []*generation{m.collecting, m.sealing} {
		if g == nil {
			s.addNumbers(-1)
			continue
		}
		s.addNumbers(int64(len(g.candidates)), int64(g.xid), int64(len(g.lockHolders)))
		s.addBools(g.locksRead)
		for i := range w.laneStates {
			key, ok := g.candidates[w.service(int8(i))]
			s.addBools(ok)
			s.addNumbers(key)
		}
		for _, h := range g.someHolders() {
			*s = append(*s, h...)
		}
	}
	for i := range w.laneStates {
		l := m.findLane(w.service(int8(i)))
		s.addBools(l == nil)
		if l != nil {
			s.addNumbers(l.requeues, l.bound)
			s.addRanges(l.ranges)
		}
	}
}

// explorer visits all states that can be reached.
type explorer struct {
	seed           maphash.Seed
	visitedStates  map[uint64]struct{}
	moves          []move
	violation      string
	maxStates      int // the number of states after which the exploration stops
	movedPositions int // the number of positions that had moved at the end
}

func explore(s worldLimits, most int) *explorer {
	e := &explorer{seed: maphash.MakeSeed(), visitedStates: map[uint64]struct{}{}, maxStates: most}
	w := newWorld(&s)
	for _, m := range s.firstMoves {
		w.makeMove(m)
		e.moves = append(e.moves, m)
	}
	e.exploreFrom(w, nil)
	return e
}

func (e *explorer) exploreFrom(w *world, buf worldState) bool {
	for _, m := range w.possibleMoves(nil) {
		if len(e.visitedStates) >= e.maxStates {
			return true
		}
		n := w.clone()
		n.makeMove(m)
		e.moves = append(e.moves, m)
		if said := n.check(); said != "" {
			e.violation = said
			return false
		}
		buf = n.appendState(buf[:0])
		hash := maphash.Bytes(e.seed, buf)
		if _, ok := e.visitedStates[hash]; !ok {
			e.visitedStates[hash] = struct{}{}
			if !e.exploreFrom(n, buf) {
				return false
			}
		}
		e.moves = e.moves[:len(e.moves)-1]
	}
	return true
}

func (e *explorer) String() string {
	s := fmt.Sprintf("%s (%d states)", e.violation, len(e.visitedStates))
	for _, m := range e.moves {
		s += "\n  " + m.String()
	}
	return s
}

// walkAtRandom makes random moves. Some adders take long, and rare moves are rare.
func walkAtRandom(s worldLimits, seed uint64, steps int) *explorer {
	r := rand.New(rand.NewPCG(seed, 0))
	w, e := newWorld(&s), &explorer{}
	slow := make([]bool, len(w.adders))
	for i := range slow {
		slow[i] = r.IntN(3) == 0
	}
	weight := func(m move) int {
		switch m.kind {
		case addStep:
			a := &w.adders[m.subject]
			switch {
			case a.nextStep == 0:
				return 20
			case m.argument < 0:
				return 5
			case slow[m.subject]:
				return 10
			}
			return 400
		case claimStep:
			if m.argument == 2 && w.claimers[m.subject].nextStep == stepSeeServer || m.argument < 0 {
				return 20
			}
			return 400
		case beginClaim:
			return 200
		case finishBatch:
			if w.adders[m.subject].place == placeWaiting {
				return 3
			}
			return 200
		case commitRequeue, pruneBatch:
			return 200
		case beginRequeue:
			return 10
		case haltOrRelease:
			if w.laneStates[m.subject].isHalted {
				return 100
			}
			return 10
		}
		return 1
	}
	var all []move
	for range steps {
		all = w.possibleMoves(all[:0])
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
		e.moves = append(e.moves, all[k])
		w.makeMove(all[k])
		if e.violation = w.check(); e.violation != "" {
			return e
		}
	}
	for _, m := range w.memories {
		for i := range w.laneStates {
			if l := m.findLane(w.service(int8(i))); l != nil && wholeFrom(l.ranges) > math.MinInt64 {
				e.movedPositions++
			}
		}
	}
	return e
}
