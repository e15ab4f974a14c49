package position

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// setting says which moves are possible in a world, and how often at most.
type setting struct {
	name     string
	adders   []string // the steps of each adder, see [world.add]
	lane     []int    // the lane of each adder; nil means the first lane
	lanes    int      // the number of lanes; 0 is 1
	claimers []int    // the process of each claimer
	claims   int      // the number of claims in all
	from     int64    // the first tick; 0 is 1
	clock    int64    // the highest tick
	back     int      // how many times the clock steps back by two ticks
	unit     int64    // the microseconds of a tick; 0 is 1
	limit    int      // the limit of a window; 0 is 2
	narrow   bool     // the limit may also be 1
	memory   int      // how many lanes a process remembers; 0 is 100
	seal     byte     // how generations are sealed: 'x' by id, 'l' by lock, 'b' by either
	aborts   int      // how many adders are rolled back
	cancels  int      // cancels, and requeues in place
	halts    int      // halts and releases of a lane
	restarts int      // restarts of the server
	crashes  int      // crashes after which the server recovers with the same start time
	lost     int      // lost connections of claims
	failover int      // failovers to a server that lacks the last changes
	prunes   int      // removals of final batches by retention
	age      int64    // the age at which they are removed, in ticks since they became final
	first    []move   // the moves made at the beginning
	wholes   bool     // true if lanes are read from their beginnings from time to time

	xmax      bool  // claims note pg_snapshot_xmax instead of an id
	used      bool  // the lanes were claimed from before
	uncounted bool  // requeues are not counted
	oneWord   bool  // a lane counts as open if one of the two statements saw it open
	ahead     int64 // by how many ticks the clock of claims is ahead of the clock of additions
	async     bool  // the last changes may be lost without a sign of it
}

type place uint8

const (
	unseen place = iota // not committed
	waits               // its row is in the table of waiting rows
	tried               // its row is in the table of attempted rows
	final               // its row is in neither table
	gone                // rolled back, or pruned
)

// adder adds one batch.
type adder struct {
	pc, lane      int8
	locks         bool // true while it holds the lock on the table
	prepared      bool
	renamed       bool // true for a prepared transaction that has outlasted a restart
	tried         bool // true if its batch was attempted
	at            place
	xid           uint64
	last, key     int64
	finalAt       int64
	requeuedTimes int8
}

// running reports whether the adder's transaction has an id and has not ended.
func (a *adder) running() bool { return a.xid != 0 && a.at == unseen }

// open reports whether the adder's batch is visible and not final.
func (a *adder) open() bool { return a.at == waits || a.at == tried }

// claimer is a goroutine that claims, with the rows that its transaction has read.
type claimer struct {
	pc, lane, process int8
	dead              bool // its transaction is gone, and the claimer has not noticed
	openA, openW      bool
	requeues          int64
	clock             int64
	xid               uint64
	found             ServerState
	limit             int
	held              []string
	ranges            []Range
	tried, waits      []int64
	c                 *Claim
}

// These are the states of a claimer, by its next action.
const (
	idle int8 = iota
	locking
	looking
	locksLooking
	reading
	saying
)

type laneState struct {
	lock     int8 // 0 is free; 1+i is claimer i; -1-i is the operator who requeues the batch of adder i
	requeues int64
	closed   bool
}

// world is a database, with its processes and the memory of each.
type world struct {
	*setting
	steps     [][]string
	clock     int64
	xid       uint64 // the next id
	latest    uint64 // the highest id that has ended
	started   int64
	did       int // the number of steps, from which a process takes its time
	backs     int8
	claimed   int8
	aborted   int8
	cancelled int8
	halted    int8
	restarted int8
	crashed   int8
	losses    int8
	failed    int8
	pruned    int8
	adders    []adder
	laneOf    []laneState
	claimers  []claimer
	memories  []*Lanes
	said      string // the fault that was found
}

func newWorld(s *setting) *world {
	s.lanes, s.unit = cmp.Or(s.lanes, 1), cmp.Or(s.unit, 1)
	s.limit, s.memory = cmp.Or(s.limit, 2), cmp.Or(s.memory, 100)
	w := &world{setting: s, clock: cmp.Or(s.from, 1), xid: 1, started: 1, laneOf: make([]laneState, s.lanes)}
	for i, steps := range s.adders {
		a := adder{}
		if s.lane != nil {
			a.lane = int8(s.lane[i])
		}
		w.adders = append(w.adders, a)
		w.steps = append(w.steps, strings.Fields(steps))
	}
	for _, p := range s.claimers {
		w.claimers = append(w.claimers, claimer{process: int8(p)})
		for len(w.memories) <= p {
			w.memories = append(w.memories, NewLanes(s.memory))
		}
	}
	return w
}

func (w *world) service(lane int8) batch.ServiceID { return batch.ServiceID('a' + rune(lane)) }

func (w *world) now() time.Time { return time.Unix(1_000_000+int64(w.did), 0) }

// still is a time that does not pass, so that nothing becomes due by waiting.
var still = time.Unix(1_000_000, 0)

// add makes the next step of an adder.
func (w *world) add(i int8) {
	a := &w.adders[i]
	step := w.steps[i][a.pc]
	a.pc++
	switch step {
	case "begin": // takes the lock and an id, in the message that begins the transaction
		a.locks = true
		a.xid = w.take()
	case "lock":
		a.locks = true
	case "xid":
		a.xid = w.take()
	case "snap": // takes the snapshot of the statement
		a.last = 0
		for j := range w.adders {
			if o := &w.adders[j]; o.lane == a.lane && (o.open() || o.at == final) {
				a.last = max(a.last, o.key)
			}
		}
	case "clock":
		a.key = max(w.clock*w.unit, a.last+1)
	case "prepare":
		a.prepared = true
	case "unlock":
		a.locks = false
	case "end":
		a.at, a.locks = waits, false
		w.latest = max(w.latest, a.xid)
	case "quit": // ends without an addition
		w.undo(int(i))
	default:
		panic(step)
	}
}

func (w *world) take() uint64 {
	w.xid++
	return w.xid - 1
}

func (w *world) undo(i int) {
	a := &w.adders[i]
	a.at, a.locks, a.pc = gone, false, int8(len(w.steps[i]))
	w.latest = max(w.latest, a.xid)
}

// name returns the adder's name in pg_locks.
func (w *world) name(i int) string {
	if w.adders[i].renamed {
		return fmt.Sprintf("-1/%d", i)
	}
	return fmt.Sprintf("3/%d", i)
}

// xmin returns the lowest running id.
func (w *world) xmin() uint64 {
	low := w.xid
	for i := range w.adders {
		if w.adders[i].running() {
			low = min(low, w.adders[i].xid)
		}
	}
	for i := range w.claimers {
		if c := &w.claimers[i]; c.pc > locking && !c.dead {
			low = min(low, c.xid)
		}
	}
	return low
}

// end ends the transaction of a claimer.
func (w *world) end(c *claimer) {
	if l := &w.laneOf[c.lane]; !c.dead && c.pc > locking {
		l.lock = 0
		w.latest = max(w.latest, c.xid)
	}
}

// restart ends all transactions that are not prepared.
func (w *world) restart() {
	for i := range w.adders {
		switch a := &w.adders[i]; {
		case a.pc == 0 || a.at != unseen:
		case a.prepared:
			a.renamed = true
		default:
			w.undo(i)
		}
	}
	for i := range w.claimers {
		c := &w.claimers[i]
		w.end(c)
		c.dead = c.pc > locking
	}
	for i := range w.laneOf {
		w.laneOf[i].lock = 0
	}
}

// read returns the window of a table in the ranges that the claimer reads. An open row outside of
// the ranges is a fault.
func (w *world) read(c *claimer, table place) (keys []int64, open bool) {
	if w.laneOf[c.lane].closed {
		return nil, false
	}
	for i := range w.adders {
		switch a := &w.adders[i]; {
		case a.lane != c.lane || a.at != table:
		case covered(c.ranges, a.key):
			keys = append(keys, a.key)
		default:
			w.said = fmt.Sprintf("batch %d of key %d is hidden from a claim that reads %v", i, a.key, c.ranges)
		}
	}
	slices.Sort(keys)
	if table == waits && len(keys) > c.limit {
		n := c.limit
		for n < len(keys) && keys[n] == keys[n-1] {
			n++
		}
		keys = keys[:n]
	}
	return keys, true
}

// check compares the memory of each process with the database: the ranges must contain the key of
// every batch that is open or may yet become visible.
func (w *world) check() string {
	if w.said != "" {
		return w.said
	}
	for p, m := range w.memories {
		if m.incarnation != w.started {
			continue
		}
		for i := range w.adders {
			a := &w.adders[i]
			l := m.find(w.service(a.lane))
			if l == nil || l.requeues != w.laneOf[a.lane].requeues || a.key == 0 || covered(l.ranges, a.key) {
				continue
			}
			switch {
			case a.open():
				return fmt.Sprintf("batch %d of key %d is hidden from process %d, which reads %v", i, a.key, p, l.ranges)
			case a.at == unseen:
				return fmt.Sprintf("batch %d of key %d will be hidden from process %d, which reads %v", i, a.key, p, l.ranges)
			}
		}
	}
	return ""
}
