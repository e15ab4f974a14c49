package position

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// UnderWay remembers where the monitor's rows are among all attempted rows. An index has the
// number of the transaction that made each row. Before the monitor's rows are the dead entries of
// final rows; while a transaction holds an old snapshot these entries stay, and a read from the
// beginning would read over all of them.
//
// An open row whose transaction has a number below from is in slowRows. This is exact if from is
// the number of the oldest running transaction. A long transaction that writes anything would stop
// from at its own number. So a number that was the next number more than settledAfter ago also
// serves as from. If a claim takes longer to commit, a read from there misses its rows, which are
// above exactReadFrom. The next read from exactReadFrom finds them, at most about allReadInterval
// later.
//
// A server that recovers from a crash may assign numbers again, or lose an asynchronous commit,
// and a person may restore rows. A read from the beginning finds such rows, every
// wholeSearchInterval, and with asynchronous commits every allReadInterval.
//
// Both of these long reads may take seconds. So Upkeep makes them, and Pending only if nobody
// calls Upkeep.
type UnderWay struct {
	mu              sync.Mutex
	readFrom        int64
	exactReadFrom   int64   // every open row below it is in slowRows, however long a transaction runs
	slowRows        []int64 // the numbers of rows
	incarnation     int64   // the incarnation of the database; another may assign lower numbers
	highestNext     int64   // the highest next number that a read saw
	reads           int64   // the number of reads that were begun; only the last one counts
	isReading       bool    // true while the last read is under way; Saw or Failed ends it
	readBeganAt     time.Time
	nextReadAt      time.Time
	exactReadAt     time.Time // the time of the last read from exactReadFrom
	wholeReadAt     time.Time // the time of the last read from the beginning
	longReadTriedAt time.Time // when one of these two last began because of its age
	longReadPause   time.Duration
	lastUpkeepAt    time.Time // the time of the last call of Upkeep

	nextNumberAtMark, settledNumber int64 // transaction numbers: the next number at since, and the next number at an earlier time
	markedAt                        time.Time
}

const (
	// frontReadInterval is the time between two reads that move readFrom on.
	frontReadInterval = 500 * time.Millisecond
	// wholeSearchInterval is the time between two reads from the beginning.
	wholeSearchInterval = 30 * time.Minute
	// firstLongReadPause is how long a long read waits after it has failed. The pause doubles with
	// each failure, up to wholeSearchInterval.
	firstLongReadPause = time.Minute
	// upkeepValidFor is how long Pending relies on Upkeep after a call of it.
	upkeepValidFor = time.Minute
	// readTimeLimit is how long other callers wait for a read to end. A result that comes later
	// does not count.
	readTimeLimit = 20 * time.Second
	// settledAfter is the time after which every claim is assumed to have ended.
	settledAfter = 5 * time.Second
	// MostSlow is the largest number of slow rows that are remembered.
	MostSlow = 1000
)

// Search is one read for the monitor's rows: from a transaction number on, and of slow rows by
// their numbers.
type Search struct {
	From    int64
	Slow    []int64
	number  int64
	beganAt time.Time
}

// Where returns where a read begins, and the slow rows.
func (u *UnderWay) Where() (from int64, slow []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.readFrom, u.slowRows
}

// LongReadDue reports whether a long read is due. It notes that Upkeep is called. lost is true if
// commits may be lost.
func (u *UnderWay) LongReadDue(now time.Time, lost bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastUpkeepAt = now
	_, late := u.longRead(now, lost)
	return late && !u.isBusy(now)
}

func (u *UnderWay) isBusy(now time.Time) bool {
	return u.isReading && now.Sub(u.readBeganAt) < readTimeLimit
}

// longRead returns where a long read begins, if one is due. lost is true if commits may be lost.
func (u *UnderWay) longRead(now time.Time, lost bool) (from int64, due bool) {
	switch {
	case u.incarnation == 0 || now.Sub(u.longReadTriedAt) < u.longReadPause:
		return 0, false
	case now.Sub(u.wholeReadAt) >= wholeSearchInterval || lost && now.Sub(u.wholeReadAt) >= allReadInterval:
		return 0, true
	case u.exactReadFrom < u.readFrom && now.Sub(u.exactReadAt) >= allReadInterval:
		return u.exactReadFrom, true
	}
	return 0, false
}

// Due returns the read that is to be made now to move from, if any. A caller that gets true calls
// Saw or Failed afterwards. Until then, or for readTimeLimit, no other caller gets true.
func (u *UnderWay) Due(now time.Time, lost, upkeep bool) (l Search, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isBusy(now) {
		return l, false
	}
	from, late := u.longRead(now, lost)
	switch {
	case late && (upkeep || now.Sub(u.lastUpkeepAt) >= upkeepValidFor):
		u.longReadTriedAt = now
		u.longReadPause = min(max(firstLongReadPause, 2*u.longReadPause), wholeSearchInterval)
	case now.Before(u.nextReadAt):
		return l, false
	default:
		from = u.readFrom
	}
	u.reads++
	u.isReading, u.readBeganAt, u.nextReadAt = true, now, now.Add(frontReadInterval)
	return Search{from, u.slowRows, u.reads, now}, true
}

// Failed records that a read failed.
func (u *UnderWay) Failed(l Search) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.number == u.reads {
		u.isReading = false
	}
}

// NumberedRow is an open row and the number of the transaction that made it. A read returns the
// rows from its beginning on, the oldest first and at most MostSlow+1, and the rows that it looked
// up by number.
type NumberedRow struct{ Seq, MadeBy int64 }

// ReadResult is the result of one read.
type ReadResult struct {
	Rows                      []NumberedRow
	OldestRunning, NextNumber int64 // the oldest running transaction, and the next number to be assigned
	Incarnation               int64 // the incarnation of the database
}

// Saw records the result of a read.
func (u *UnderWay) Saw(l Search, s ReadResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.number != u.reads {
		return // the read took too long, and another one has begun since
	}
	u.isReading = false
	if s.Incarnation != u.incarnation || s.NextNumber < u.highestNext { // the server was restarted, or has recovered from a crash
		u.incarnation = s.Incarnation
		u.beginAnew()
		if l.From != 0 {
			u.nextReadAt = time.Time{} // the next read, from the beginning, comes at once
		}
	}
	u.highestNext = s.NextNumber
	if u.readFrom < l.From {
		return
	}
	if l.beganAt.Sub(u.markedAt) >= settledAfter {
		u.settledNumber, u.nextNumberAtMark, u.markedAt = u.nextNumberAtMark, s.NextNumber, l.beganAt
	}
	to := max(s.OldestRunning, u.settledNumber)
	slices.SortFunc(s.Rows, func(a, b NumberedRow) int { return cmp.Compare(a.MadeBy, b.MadeBy) })
	if len(s.Rows) > MostSlow {
		to = min(to, s.Rows[MostSlow].MadeBy)
	}
	if l.From == 0 {
		u.wholeReadAt = l.beganAt
	}
	if l.From <= u.exactReadFrom {
		u.exactReadFrom, u.exactReadAt, u.longReadPause = min(s.OldestRunning, to), l.beganAt, 0
	} else if to < u.readFrom {
		return
	}
	u.readFrom, u.slowRows = to, nil
	for _, r := range s.Rows {
		if r.MadeBy < to {
			u.slowRows = append(u.slowRows, r.Seq)
		}
	}
}

// forget makes the next reads begin at the beginning.
func (u *UnderWay) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.incarnation, u.highestNext, u.nextReadAt = 0, 0, time.Time{}
	u.beginAnew()
}

func (u *UnderWay) beginAnew() {
	u.readFrom, u.exactReadFrom, u.slowRows, u.settledNumber, u.nextNumberAtMark = 0, 0, nil, 0, 0
	u.markedAt, u.longReadTriedAt = time.Time{}, time.Time{}
}

// Front returns where a quick read for rows begins, and for which incarnation. enough is true if
// that read suffices: no row is known to be slow, and no long read is overdue.
func (u *UnderWay) Front(now time.Time, lost bool) (from, incarnation int64, enough bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, overdue := u.longRead(now.Add(-upkeepValidFor), lost)
	return u.readFrom, u.incarnation, u.incarnation != 0 && len(u.slowRows) == 0 && !overdue
}
