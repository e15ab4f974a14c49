package position

import (
	"math"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Claim holds the facts that one claiming transaction needs and reports. It is made before the
// transaction's BEGIN and used by one goroutine, in this order, as often as the transaction
// locks lanes:
//
//	c := lanes.Claim(time.Now()) // before BEGIN
//	... lock lanes; of each the requeues and the clock; the ids and the incarnation
//	if c.SawServer(state, time.Now()) {
//		c.SawLocks(... holders of ROW EXCLUSIVE on the table of waiting rows, from pg_locks)
//	}
//	ranges := c.Ranges(service, requeues, clock) // of each lane
//	... read both windows of the lanes, in these ranges only
//	c.SawWindow(service, window) // of each lane whose windows were both read
//
// Nothing is to be done after a COMMIT or a ROLLBACK. A missing report only leaves something
// unlearned, and does no harm. A transaction that is begun again gets a Claim of its own.
type Claim struct {
	lanes            *Lanes
	readAt           time.Time
	epoch            int64 // the epoch in which it read the server; 0 before that
	closedGeneration int64 // the generation that was closed before the claim began; 0 if none
	lockGeneration   int64 // the generation for which the locks are read; 0 if none
	laterLockRead    bool  // true if the locks were read before for this generation
	wholeReads       int   // how many lanes the claim reads from their beginnings without need
	visits           map[batch.ServiceID]visit
}

// visit is the state of a lane before its windows were read.
type visit struct {
	requeues, clock, bound int64
	readsWholeLane         bool
}

// Claim begins a claim. It must be called before BEGIN is sent. now is on the process's
// monotonic clock, as [time.Now] returns it, here and below.
func (m *Lanes) Claim(now time.Time) *Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeGeneration(now)
	c := &Claim{lanes: m, readAt: now, visits: map[batch.ServiceID]visit{}}
	if m.sealing != nil {
		c.closedGeneration = m.sealing.id
	}
	return c
}

// ServerState is a reading of the server's state by a statement of the claim's transaction.
type ServerState struct {
	// Incarnation is a number that changes with pg_postmaster_start_time(), with the database and
	// with its tables, used only for comparison. Where commits are asynchronous it must also
	// change after a recovery from a crash, as pg_stat_get_bgwriter_stat_reset_time() does.
	Incarnation int64
	Xid         uint64 // txid_current(): 64 bits, so that it never starts again
	Xmin        uint64 // txid_snapshot_xmin(txid_current_snapshot()), also 64 bits
}

// SawServer reports a reading of the server. If it returns true, the claim should now read the
// locks and report them to [Claim.SawLocks]; it need not. A process gets true at most once in 20
// ms, and only while transaction ids do not advance.
func (c *Claim) SawServer(found ServerState, now time.Time) bool {
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	c.readAt, c.lockGeneration = now, 0
	m := c.lanes
	if m.maxLanes == 0 {
		return false // with a limit of 0 the claim has not read the server
	}
	m.readAt = now
	if m.incarnation != found.Incarnation {
		m.forgetAll(found.Incarnation)
	}
	c.epoch = m.epoch
	g := m.sealing
	switch {
	case g == nil:
		return false
	case g.sealedBy(found.Xmin):
		m.sealGeneration(false)
		return false
	case g.xid == 0 && c.closedGeneration == g.id:
		g.xid, g.xidAt = found.Xid, now
	}
	if g.lockReadAsked && !g.locksRead && g.xid != 0 { // the earlier request was not answered, so nobody may read the locks here
		m.stall = Stall{Lasted: now.Sub(g.xidAt)}
	}
	if now.Before(m.nextLockRead) || (now.Sub(g.closedAt) < idsPatience && !m.lastSealWasByLock) {
		return false
	}
	m.nextLockRead = now.Add(lockReadInterval)
	g.lockReadAsked = true
	c.lockGeneration, c.laterLockRead = g.id, g.locksRead
	return true
}

// SawLocks reports the virtual transactions that hold a granted RowExclusiveLock on the table of
// waiting rows, as pg_locks named them after SawServer had returned true.
func (c *Claim) SawLocks(held []string) {
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	m := c.lanes
	g := m.sealing
	if g == nil || c.lockGeneration != g.id {
		return
	}
	switch {
	case c.laterLockRead:
		g.dropEnded(held)
		m.stall = Stall{c.readAt.Sub(g.locksReadAt), g.someHolders()}
	case !g.locksRead:
		g.setHolders(held, c.readAt)
	}
	c.lockGeneration = 0
	if g.allEnded() {
		m.sealGeneration(true)
	}
}

// Ranges returns the order keys of a lane that both statements are to read, as ranges in ascending
// order; the last range has no end. requeues is how often batches of the lane were requeued, read
// with the lane's lock. clock is the database's clock in microseconds, read in this transaction
// before the windows. The caller must not change the slice.
func (c *Claim) Ranges(service batch.ServiceID, requeues, clock int64) []Range {
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	m := c.lanes
	if c.epoch != m.epoch {
		return wholeLane // the claim has not read the server, or has read another server
	}
	l := m.useLane(service, requeues, c.readAt)
	if clock < wholeFrom(l.ranges) {
		l.bound, l.ranges = math.MinInt64, wholeLane
	}
	v := visit{requeues: requeues, clock: clock, bound: l.bound}
	ranges := l.ranges
	if c.wholeReads*lanesPerWholeRead <= len(c.visits) && !c.readAt.Before(l.wholeReadAt) {
		l.wholeReadAt = c.readAt.Add(wholeReadInterval)
		c.wholeReads++
		v.readsWholeLane, ranges = true, wholeLane
	}
	c.visits[service] = v
	return ranges
}

// Window is the rows of a lane that a claim saw, in the ranges that it was to read.
// [Claim.SawWindow] may sort the slices, and does not keep them.
type Window struct {
	Attempted []int64 // the order keys of all attempted rows that are open
	Waiting   []int64 // the order keys of waiting rows: of the first Limit, ties included, and perhaps of more
	Limit     int
	// Open is true if both statements were sent and neither left rows out because the lane is
	// paused or halted.
	Open bool
}

// shownUpTo returns the key up to which the window shows all open rows.
func (w *Window) shownUpTo() int64 {
	switch {
	case w.Limit <= 0:
		return math.MinInt64
	case len(w.Waiting) < w.Limit:
		return math.MaxInt64
	}
	slices.Sort(w.Waiting)
	return w.Waiting[w.Limit-1]
}

// SawWindow reports a window. It ignores a lane for which Ranges was not called. It returns true
// if this claim read the lane from its beginning and found an open row that the ranges would have
// hidden: somebody has written to the tables without this library, or the library has a fault.
func (c *Claim) SawWindow(service batch.ServiceID, w Window) (hidden bool) {
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	m := c.lanes
	v, ok := c.visits[service]
	if !ok || c.epoch != m.epoch {
		return false
	}
	delete(c.visits, service)
	keys := w.Waiting
	if len(w.Attempted) > 0 {
		keys = slices.Concat(w.Attempted, w.Waiting)
	}
	if len(keys) > 0 {
		m.collecting.add(service, min(slices.Max(keys), v.clock), m.maxLanes)
	}
	l := m.findLane(service)
	if l == nil || l.requeues != v.requeues || !w.Open {
		return false
	}
	hidden = v.readsWholeLane && slices.ContainsFunc(keys, func(k int64) bool { return !isCovered(l.ranges, k) })
	if hidden {
		l.ranges = wholeLane
	}
	if start := min(v.bound, w.shownUpTo()); start >= wholeFrom(l.ranges) {
		l.ranges = coveringRanges(keys, start)
	}
	return hidden
}
