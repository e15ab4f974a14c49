package sqlite

import "time"

const (
	// A write is seen before its commit can be read: SQLite writes the log, waits for the disk,
	// and only then shows the commit, which nothing tells. So one write leads to several reads,
	// after pauses from firstPause to lastPause, each half as long again as the one before: a
	// commit for which the disk takes d is found d/2 after it, or a firstPause. A disk that takes
	// longer than all of them together, about a second, leaves the commit to the next write, or to
	// a scan.
	firstPause = time.Millisecond
	lastPause  = 400 * time.Millisecond
	// busyPause is the pause while more is written all the time, mostly by this process itself.
	// After a rest, spared reads need not keep it: the commits of a batch that is delivered are a
	// few.
	busyPause = 5 * time.Millisecond
	spared    = 10
	// lookShare bounds the part of the time that reads take to one part in this number.
	lookShare = 3
)

// readPace says when a [hearCall] reads.
type readPace struct {
	due       time.Time     // the next read; zero: none
	pause     time.Duration // after it
	notBefore time.Time     // no read comes before it; it lies in the past by the time that was spared
}

// noteWrite takes note of a write that was seen. It does not wait for the end of a long pause,
// which belongs to an earlier write.
func (p *readPace) noteWrite(now time.Time) {
	at := later(now.Add(firstPause), p.notBefore)
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
	p.pause = firstPause
}

// isDue reports whether a read is due.
func (p *readPace) isDue(now time.Time) bool { return !p.due.IsZero() && !now.Before(p.due) }

// noteRead records the times of a read that was due.
func (p *readPace) noteRead(began, ended time.Time) {
	least := lookShare * ended.Sub(began)
	p.notBefore = later(p.notBefore, ended.Add(-spared*busyPause)).Add(max(busyPause, least))
	if p.pause > lastPause {
		p.due = time.Time{}
		return
	}
	p.due = later(ended.Add(max(p.pause, least)), p.notBefore)
	p.pause = p.pause * 3 / 2
}

// nextRead is when the next read is due, or the earlier of that and another moment.
func (p *readPace) nextRead(other time.Time) time.Time {
	if p.due.IsZero() || other.Before(p.due) {
		return other
	}
	return p.due
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
