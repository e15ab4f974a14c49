package sqlite

import "time"

const (
	// firstPause and lastPause bound the pauses between the reads after a write. A write is
	// noticed before its commit can be read, because SQLite writes the log, waits for the disk,
	// and only then shows the commit without any further event. So one write leads to several
	// reads, after pauses from firstPause to lastPause, each half as long again as the pause
	// before. A commit for which the disk takes d is found d/2 after it, or a firstPause. If the
	// disk takes longer than all pauses together, about a second, the next write or a scan finds
	// the commit.
	firstPause = time.Millisecond
	lastPause  = 400 * time.Millisecond
	// busyPause is the pause during frequent writes, which are mostly this process's own. After a
	// rest, freeReads reads may follow without it, because the delivery of a batch makes only a
	// few commits.
	busyPause = 5 * time.Millisecond
	freeReads = 10
	// readTimeShare bounds the part of the time that reads take: one part in readTimeShare.
	readTimeShare = 3
)

// readPace decides when a [hearCall] reads.
type readPace struct {
	nextReadAt time.Time     // the time of the next read; zero if none is due
	pause      time.Duration // the pause after the next read
	notBefore  time.Time     // no read comes earlier; in the past by the time that was not used
}

// noteWrite notes a write that was seen. The next read does not wait for the end of a long pause,
// which belongs to an earlier write.
func (p *readPace) noteWrite(now time.Time) {
	at := later(now.Add(firstPause), p.notBefore)
	if p.nextReadAt.IsZero() || at.Before(p.nextReadAt) {
		p.nextReadAt = at
	}
	p.pause = firstPause
}

// isDue reports whether a read is due.
func (p *readPace) isDue(now time.Time) bool {
	return !p.nextReadAt.IsZero() && !now.Before(p.nextReadAt)
}

// noteRead records the times of a read that was due.
func (p *readPace) noteRead(began, ended time.Time) {
	least := readTimeShare * ended.Sub(began)
	p.notBefore = later(p.notBefore, ended.Add(-freeReads*busyPause)).Add(max(busyPause, least))
	if p.pause > lastPause {
		p.nextReadAt = time.Time{}
		return
	}
	p.nextReadAt = later(ended.Add(max(p.pause, least)), p.notBefore)
	p.pause = p.pause * 3 / 2
}

// nextRead returns when the next read is due, or other if that is earlier.
func (p *readPace) nextRead(other time.Time) time.Time {
	if p.nextReadAt.IsZero() || other.Before(p.nextReadAt) {
		return other
	}
	return p.nextReadAt
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
