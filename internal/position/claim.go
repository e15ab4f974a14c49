package position

import (
	"math"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Claim is what one transaction that claims needs to know, and reports. It is made before the
// transaction's BEGIN and used by one goroutine, in this order, as often as the transaction
// locks lanes:
//
//	c := lanes.Claim(time.Now()) // before BEGIN
//	... lock lanes; of each the turn and the clock; the ids and the start of the server
//	if c.Look(look, time.Now()) {
//		c.Locks(... who holds ROW EXCLUSIVE on the table of what waits, of pg_locks)
//	}
//	ranges := c.Ranges(service, turn, clock) // of each lane
//	... read both windows of the lanes, in these ranges only
//	c.Saw(service, window) // of each lane of which both were read
//
// Nothing is to be done after a COMMIT or a ROLLBACK. What is not reported is not learned, and
// does no harm. A transaction that is begun again gets a Claim of its own.
type Claim struct {
	m       *Lanes
	now     time.Time
	epoch   int64 // in which it has looked; 0: it has not
	closed  int64 // the generation that was closed before this began; 0: none
	asked   int64 // the generation for which locks are looked at; 0: none
	later   bool  // that look comes after another one for this generation
	wholes  int   // lanes that it reads from their beginnings though it need not
	visited map[batch.ServiceID]visit
}

// visit is a lane as it was before its windows were read.
type visit struct {
	turn, clock, bound int64
	whole              bool
}

// Claim begins a claim. It must be called before BEGIN is sent. now is of the process's
// monotonic clock, as [time.Now] returns it, here and below.
func (m *Lanes) Claim(now time.Time) *Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close(now)
	c := &Claim{m: m, now: now, visited: map[batch.ServiceID]visit{}}
	if m.sealing != nil {
		c.closed = m.sealing.id
	}
	return c
}

// Look is what a statement of the claim's transaction found out about the server.
type Look struct {
	// Started is pg_postmaster_start_time() as a number; it is compared with others only. Where
	// commits are asynchronous it must also be another one after a recovery from a crash, as
	// the sum with pg_stat_get_bgwriter_stat_reset_time() is.
	Started int64
	Xid     uint64 // txid_current(): 64 bits, which never begin anew
	Xmin    uint64 // txid_snapshot_xmin(txid_current_snapshot()), likewise
}

// Look reports what was found out about the server. Where it returns true the claim should ask
// for the locks now, and report them to [Claim.Locks]; it need not. That is at most once in 20 ms
// a process, and only where ids do not move.
func (c *Claim) Look(found Look, now time.Time) bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.now, c.asked = now, 0
	m := c.m
	m.looked = now
	if m.started != found.Started {
		m.forget(found.Started)
	}
	c.epoch = m.epoch
	g := m.sealing
	switch {
	case g == nil:
		return false
	case g.sealedBy(found.Xmin):
		m.seal(false)
		return false
	case g.xid == 0 && c.closed == g.id:
		g.xid, g.noted = found.Xid, now
	}
	if g.asked && !g.looked && g.xid != 0 { // nobody may look at locks here
		m.stall = Stall{For: now.Sub(g.noted)}
	}
	if now.Before(m.next) || (now.Sub(g.closed) < patience && !m.byLock) {
		return false
	}
	m.next = now.Add(lookEvery)
	g.asked = true
	c.asked, c.later = g.id, g.looked
	return true
}

// Locks reports the virtual transactions that hold a granted RowExclusiveLock on the table of
// what waits, as pg_locks named them after Look had returned true.
func (c *Claim) Locks(held []string) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	m := c.m
	g := m.sealing
	if g == nil || c.asked != g.id {
		return
	}
	switch {
	case c.later:
		g.release(held)
		m.stall = Stall{c.now.Sub(g.since), g.some()}
	case !g.looked:
		g.hold(held, c.now)
	}
	c.asked = 0
	if g.released() {
		m.seal(true)
	}
}

// Ranges returns which order keys of a lane are to be read, by both statements, in ascending
// order; the last range has no end. turn is the lane's, which was read with its lock; clock is
// the database's in microseconds, read in this transaction before the windows. The caller does
// not change what it gets.
func (c *Claim) Ranges(service batch.ServiceID, turn, clock int64) []Range {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	m := c.m
	if c.epoch != m.epoch {
		return whole // it has not looked, or at another server
	}
	l := m.use(service, turn, c.now)
	if clock < bottom(l.ranges) {
		l.bound, l.ranges = math.MinInt64, whole
	}
	v := visit{turn: turn, clock: clock, bound: l.bound}
	ranges := l.ranges
	if c.wholes*wholeShare <= len(c.visited) && !c.now.Before(l.whole) {
		l.whole = c.now.Add(wholeEvery)
		c.wholes++
		v.whole, ranges = true, whole
	}
	c.visited[service] = v
	return ranges
}

// Window is what a claim saw of a lane, in the ranges that it was to read. [Claim.Saw] may
// sort the slices, and keeps neither.
type Window struct {
	Attempted []int64 // the order keys of all that was attempted and is open
	Waiting   []int64 // of what waits: of the first Limit rows, ties included, and maybe of more
	Limit     int
	// Open says that both statements were sent, and that neither left rows out because the lane
	// is paused or halted.
	Open bool
}

// upto is the key up to which the window shows all that is open.
func (w *Window) upto() int64 {
	switch {
	case w.Limit <= 0:
		return math.MinInt64
	case len(w.Waiting) < w.Limit:
		return math.MaxInt64
	}
	slices.Sort(w.Waiting)
	return w.Waiting[w.Limit-1]
}

// Saw reports a window; a lane that Ranges was not asked for is passed over. It returns true
// where the lane was read from its beginning for once, and has an open row that the ranges would
// have hidden: somebody wrote to the tables by other means than this library, or this is a fault.
func (c *Claim) Saw(service batch.ServiceID, w Window) (hidden bool) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	m := c.m
	v, ok := c.visited[service]
	if !ok || c.epoch != m.epoch {
		return false
	}
	delete(c.visited, service)
	keys := w.Waiting
	if len(w.Attempted) > 0 {
		keys = slices.Concat(w.Attempted, w.Waiting)
	}
	if len(keys) > 0 {
		m.open.add(service, min(slices.Max(keys), v.clock), m.limit)
	}
	l := m.find(service)
	if l == nil || l.turn != v.turn || !w.Open {
		return false
	}
	hidden = v.whole && slices.ContainsFunc(keys, func(k int64) bool { return !covered(l.ranges, k) })
	if hidden {
		l.ranges = whole
	}
	if start := min(v.bound, w.upto()); start >= bottom(l.ranges) {
		l.ranges = cover(keys, start)
	}
	return hidden
}
