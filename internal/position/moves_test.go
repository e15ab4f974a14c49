package position

import (
	"fmt"
)

// move is one event that may happen next. The meaning of i and j depends on kind.
type move struct {
	kind moveKind
	i, j int8
}

type moveKind uint8

const (
	addStep    moveKind = iota // adder i makes a step; if the step reads the clock, the clock has moved by j
	abort                      // the transaction of adder i is rolled back
	beginClaim                 // claimer i begins a claim of lane j
	claimStep                  // claimer i makes a step; j is its choice, or by how much the clock has moved
	finish                     // the batch of adder i becomes final, or is cancelled
	prune                      // retention removes a batch, after the clock has moved by j
	requeue                    // a transaction begins to requeue the batch of adder i
	requeued                   // that transaction commits
	toggle                     // lane i is halted or released
	restart
	crash
	lose // the connection of claimer i is lost
	failover
)

var kinds = [...]string{
	"add", "abort", "begins to claim", "claim", "final", "prune", "requeue begins",
	"requeue commits", "halt or release", "restart", "crash", "connection lost", "failover",
}

func (m move) String() string { return fmt.Sprintf("%s %d/%d", kinds[m.kind], m.i, m.j) }

// moves appends all moves that are possible next.
func (w *world) moves(to []move) []move {
	can := func(ok bool, kind moveKind, i, j int) {
		if ok {
			to = append(to, move{kind, int8(i), int8(j)})
		}
	}
	clock := func(ok bool, kind moveKind, i int) { // the clock matters only for moves that read it
		for by := int64(0); ok && w.clock+by <= w.setting.clock; by++ {
			can(true, kind, i, int(by))
		}
		can(ok && int(w.backs) < w.back && w.clock >= 3, kind, i, -2)
	}
	for i := range w.claimers {
		if w.claimers[i].pc == locking && w.lone() {
			clock(true, claimStep, i)
			return to
		}
	}
	for i := range w.adders {
		a := &w.adders[i]
		alike := i > 0 && w.setting.adders[i] == w.setting.adders[i-1] && a.lane == w.adders[i-1].lane
		if ok := int(a.pc) < len(w.steps[i]) && (a.pc > 0 || !alike || w.adders[i-1].pc > 0); ok && w.steps[i][a.pc] == "clock" {
			clock(ok, addStep, i)
		} else {
			can(ok, addStep, i, 0)
		}
		can(int(w.aborted) < w.aborts && a.pc > 0 && a.at == unseen, abort, i, 0)
		can(a.at == tried || (a.at == waits && int(w.cancelled) < w.cancels), finish, i, 0)
		for by := int64(0); int(w.pruned) < w.prunes && a.at == final && w.clock+by <= w.setting.clock; by++ {
			can(w.clock+by >= a.finalAt+w.age, prune, i, int(by))
		}
		can(a.at == final && a.requeuedTimes == 0 && int(w.cancelled) < w.cancels && w.laneOf[a.lane].lock == 0, requeue, i, 0)
	}
	for i := range w.claimers {
		c := &w.claimers[i]
		if c.pc == idle {
			for l := range w.laneOf {
				can(int(w.claimed) < w.claims && (w.used || w.any(l)) && (!w.lone() || w.laneOf[l].lock == 0), beginClaim, i, l)
			}
			continue
		}
		if c.pc == locking {
			clock(w.laneOf[c.lane].lock == 0, claimStep, i)
			continue
		}
		can(true, claimStep, i, 0)
		for k := range c.waits {
			can(c.pc == saying && !c.dead, claimStep, i, 1+k)
		}
		can(c.pc == reading && w.narrow, claimStep, i, 1)
		can(c.pc == looking && w.seal == 'b', claimStep, i, 1)
		can(c.pc == looking && w.wholes, claimStep, i, 2)
		can(c.pc > locking && !c.dead && int(w.losses) < w.lost, lose, i, 0)
	}
	for l := range w.laneOf {
		can(w.laneOf[l].lock < 0, requeued, l, 0)
		can(w.laneOf[l].closed || int(w.halted) < w.halts, toggle, l, 0)
	}
	can(int(w.restarted) < w.restarts, restart, 0, 0)
	can(int(w.crashed) < w.crashes, crash, 0, 0)
	if int(w.failed) < w.setting.failover {
		for i := range w.adders {
			can(w.adders[i].at == final, failover, i, 0)
		}
	}
	return to
}

// lone reports whether each process has one claimer. Then no event between the beginning of a
// claim and its first statement matters.
func (w *world) lone() bool { return len(w.memories) == len(w.claimers) }

// any reports whether a batch was ever added to a lane.
func (w *world) any(lane int) bool {
	for i := range w.adders {
		if int(w.adders[i].lane) == lane && w.adders[i].at != unseen {
			return true
		}
	}
	return false
}

func (w *world) do(m move) {
	w.did++
	switch m.kind {
	case addStep:
		w.tick(m.j)
		w.add(m.i)
	case abort:
		w.undo(int(m.i))
		w.aborted++
	case beginClaim:
		c := &w.claimers[m.i]
		now := w.now()
		if w.seal != 'l' {
			now = still
		}
		*c = claimer{process: c.process, lane: m.j, pc: locking, c: w.memories[c.process].Claim(now)}
		w.claimed++
	case claimStep:
		w.claim(&w.claimers[m.i], m)
	case finish:
		a := &w.adders[m.i]
		if a.at == waits {
			w.cancelled++
		}
		a.at, a.finalAt = final, w.clock
	case prune:
		w.tick(m.j)
		w.adders[m.i].at = gone
		w.pruned++
	case requeue:
		a := &w.adders[m.i]
		w.laneOf[a.lane].lock = -1 - m.i
		w.cancelled++
	case requeued:
		l := &w.laneOf[m.i]
		a := &w.adders[-1-l.lock]
		l.lock = 0
		if a.at, a.requeuedTimes = waits, 1; a.tried {
			a.at = tried
		}
		if !w.uncounted {
			l.requeues++
		}
	case toggle:
		l := &w.laneOf[m.i]
		if !l.closed {
			w.halted++
		}
		l.closed = !l.closed
	case restart:
		w.restart()
		w.started++
		w.restarted++
	case crash:
		w.restart()
		w.crashed++
	case lose:
		c := &w.claimers[m.i]
		w.end(c)
		c.dead = true
		w.losses++
	case failover:
		w.restart()
		if !w.async {
			w.started++
		}
		w.failed++
		w.adders[m.i].at = waits
	}
}

// tick moves the clock.
func (w *world) tick(by int8) {
	w.clock += int64(by)
	if by < 0 {
		w.backs++
	}
}

// claim makes the next step of a claimer. The claimer reports what a statement found in its next
// step; until then any other move may happen.
func (w *world) claim(c *claimer, m move) {
	l := &w.laneOf[c.lane]
	switch c.pc {
	case locking:
		w.tick(m.j)
		l.lock = 1 + m.i
		c.requeues, c.clock = l.requeues, (w.clock+w.ahead)*w.unit
		c.xid, c.pc = w.take(), looking
		c.found = ServerState{Incarnation: w.started, Xid: c.xid, Xmin: w.xmin()}
		if w.xmax {
			c.found.Xid = w.latest + 1
		}
	case looking:
		now := w.now()
		switch {
		case m.j == 2:
			now = now.Add(2 * wholeReadInterval)
		case w.seal == 'x', w.seal == 'b' && m.j == 0:
			now = still
		}
		ask := c.c.SawServer(c.found, now)
		switch {
		case c.dead:
			c.pc = idle
		case ask && w.seal != 'x':
			c.held = c.held[:0:0]
			for i := range w.adders {
				if w.adders[i].locks {
					c.held = append(c.held, w.name(i))
				}
			}
			c.pc = locksLooking
		default:
			w.readTried(c)
		}
	case locksLooking:
		c.c.SawLocks(c.held)
		if c.dead {
			c.pc = idle
			return
		}
		w.readTried(c)
	case reading:
		if c.dead {
			c.pc = idle
			return
		}
		c.limit = w.limit
		if m.j == 1 {
			c.limit = 1
		}
		c.waits, c.openW = w.read(c, waits)
		c.pc = saying
	case saying:
		if c.c.SawWindow(w.service(c.lane), Window{Attempted: c.tried, Waiting: c.waits, Limit: c.limit, Open: c.openA && c.openW || w.oneWord && (c.openA || c.openW)}) {
			w.said = "a read from the beginning found what was hidden"
		}
		for i := range w.adders { // the claimer takes one row, or none
			if a := &w.adders[i]; m.j > 0 && a.lane == c.lane && a.at == waits && a.key == c.waits[m.j-1] {
				a.at, a.tried = tried, true
				break
			}
		}
		w.end(c)
		*c = claimer{process: c.process}
	}
}

func (w *world) readTried(c *claimer) {
	c.ranges = c.c.Ranges(w.service(c.lane), c.requeues, c.clock)
	c.tried, c.openA = w.read(c, tried)
	c.pc = reading
}
