package position

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// UnderWay remembers where the monitor's rows are among all claimed rows. An index holds the
// number of the transaction that made each row. In front of the monitor's rows are final rows;
// while somebody holds a snapshot these stay there, dead, and a read from the beginning passes
// over all of them.
//
// An open row whose transaction has a number below from is in slow. That is exact while from
// comes from the oldest running transaction. But a long transaction that writes elsewhere
// would stop from. So a number that was the next number more than settledAfter ago also serves
// as from. A claim that takes longer to commit makes rows that this misses: they are above
// exact. The next read from exact finds them, at most about lookAtAll later.
//
// A server that recovers from a crash may give numbers out again, or lose a commit that was
// asynchronous; and a person may restore rows. A read from the beginning finds such rows,
// every lookWhole, and with asynchronous commits every lookAtAll.
//
// Both looks may take seconds. So Upkeep makes them, and Pending only where nobody calls Upkeep.
type UnderWay struct {
	mu      sync.Mutex
	from    int64
	exact   int64   // every open row below it is in slow, however long a transaction runs
	slow    []int64 // rows, by their numbers
	started int64   // the incarnation of the database; another may give out lower numbers
	later   int64   // the highest next number that a read saw
	looks   int64   // reads that were begun; only the last one counts
	looking bool    // the last one is under way, and ends with Saw or Failed
	began   time.Time
	next    time.Time
	all     time.Time // the time of the last read from exact
	whole   time.Time // the time of the last read from the beginning
	tried   time.Time // when a read from either last began because of its age
	pause   time.Duration
	upkeep  time.Time // the last call of Upkeep

	mark, settled int64 // transaction numbers: the next number at since, and at an earlier time
	since         time.Time
}

const (
	// lookAgain is the time between two looks that move from.
	lookAgain = 500 * time.Millisecond
	// lookWhole is the time between two looks from the beginning.
	lookWhole = 30 * time.Minute
	// firstPause is the wait before a long look is made again, after it has failed. The wait
	// doubles with each failure, up to lookWhole.
	firstPause = time.Minute
	// upkeepFor is how long Pending counts on Upkeep after a call of it.
	upkeepFor = time.Minute
	// lookFor is how long other callers wait for a read to end. A later result of it does not
	// count.
	lookFor = 20 * time.Second
	// settledAfter is the time after which every claim is taken to have ended.
	settledAfter = 5 * time.Second
	// MostSlow is the most rows that a read remembers one by one.
	MostSlow = 1000
)

// Search is one search for the monitor's rows: from a transaction number on, and at slow rows by
// their own numbers.
type Search struct {
	From  int64
	Slow  []int64
	n     int64
	began time.Time
}

// Where returns where a read begins, and the slow rows.
func (u *UnderWay) Where() (from int64, slow []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from, u.slow
}

// Late reports whether a long look is due, and that Upkeep is called. lost says that commits
// may be lost.
func (u *UnderWay) Late(now time.Time, lost bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.upkeep = now
	_, late := u.long(now, lost)
	return late && !u.busy(now)
}

func (u *UnderWay) busy(now time.Time) bool { return u.looking && now.Sub(u.began) < lookFor }

// long returns where a long look begins, if one is due. lost says that commits may be lost.
func (u *UnderWay) long(now time.Time, lost bool) (from int64, due bool) {
	switch {
	case u.started == 0 || now.Sub(u.tried) < u.pause:
		return 0, false
	case now.Sub(u.whole) >= lookWhole || lost && now.Sub(u.whole) >= lookAtAll:
		return 0, true
	case u.exact < u.from && now.Sub(u.all) >= lookAtAll:
		return u.exact, true
	}
	return 0, false
}

// Due returns a read that is to be made now, in order to move from. A caller that gets true
// calls Saw or Failed; until then, or for lookFor, no other caller gets true.
func (u *UnderWay) Due(now time.Time, lost, upkeep bool) (l Search, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy(now) {
		return l, false
	}
	from, late := u.long(now, lost)
	switch {
	case late && (upkeep || now.Sub(u.upkeep) >= upkeepFor):
		u.tried = now
		u.pause = min(max(firstPause, 2*u.pause), lookWhole)
	case now.Before(u.next):
		return l, false
	default:
		from = u.from
	}
	u.looks++
	u.looking, u.began, u.next = true, now, now.Add(lookAgain)
	return Search{from, u.slow, u.looks, now}, true
}

// Failed records that a read failed.
func (u *UnderWay) Failed(l Search) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.n == u.looks {
		u.looking = false
	}
}

// Claimed is an open row and the number of the transaction that made it. A read returns all
// rows from its beginning on, oldest first up to MostSlow+1, and the rows that it looked for
// by number.
type Claimed struct{ Seq, Made int64 }

// Sight is the result of one read.
type Sight struct {
	Rows          []Claimed
	Oldest, Later int64 // the oldest running transaction, and the next number to be given out
	Started       int64 // the incarnation of the database
}

// Saw records the result of a read.
func (u *UnderWay) Saw(l Search, s Sight) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.n != u.looks {
		return // this read took too long, and another one has begun
	}
	u.looking = false
	if s.Started != u.started || s.Later < u.later { // the server restarted, or recovered from a crash
		u.started = s.Started
		u.anew()
		if l.From != 0 {
			u.next = time.Time{} // so that the next read, from the beginning, comes at once
		}
	}
	u.later = s.Later
	if u.from < l.From {
		return
	}
	if l.began.Sub(u.since) >= settledAfter {
		u.settled, u.mark, u.since = u.mark, s.Later, l.began
	}
	to := max(s.Oldest, u.settled)
	slices.SortFunc(s.Rows, func(a, b Claimed) int { return cmp.Compare(a.Made, b.Made) })
	if len(s.Rows) > MostSlow {
		to = min(to, s.Rows[MostSlow].Made)
	}
	if l.From == 0 {
		u.whole = l.began
	}
	if l.From <= u.exact {
		u.exact, u.all, u.pause = min(s.Oldest, to), l.began, 0
	} else if to < u.from {
		return
	}
	u.from, u.slow = to, nil
	for _, r := range s.Rows {
		if r.Made < to {
			u.slow = append(u.slow, r.Seq)
		}
	}
}

// forget makes the next calls begin at the beginning.
func (u *UnderWay) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.started, u.later, u.next = 0, 0, time.Time{}
	u.anew()
}

func (u *UnderWay) anew() {
	u.from, u.exact, u.slow, u.settled, u.mark = 0, 0, nil, 0, 0
	u.since, u.tried = time.Time{}, time.Time{}
}

// Front returns where a quick look for rows begins, on which server, and whether it is enough:
// no row is known to be slow, and no long look is overdue.
func (u *UnderWay) Front(now time.Time, lost bool) (from, started int64, enough bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, overdue := u.long(now.Add(-upkeepFor), lost)
	return u.from, u.started, u.started != 0 && len(u.slow) == 0 && !overdue
}
