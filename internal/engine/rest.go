package engine

import "time"

// While nothing is open and hints arrive from other processes, a Run reads the database little:
// with these pauses it sends less than 0.2 statements a second. Options.Rest makes each pause
// longer.
const (
	idleScanPause   = 15 * time.Second // between two scans, in place of ScanInterval
	idleWorkPause   = time.Minute      // between two writes of this instance's row, and between two reads of the monitor's own
	idleUpkeepPause = 5 * time.Minute  // between two counts, and between two calls of Upkeep
	pruneRest       = 4 * time.Minute
	// afterScan is the time after a scan in which all other work is done if Options.Rest is set,
	// so that the database sleeps until the next scan.
	afterScan = 30 * time.Second
)

// idleScanRest returns the longest pause between two scans while nothing is open. It is 0 if no
// hints arrive and Options.Rest is not set.
func (r *run) idleScanRest() time.Duration {
	if r.options.IdlePause > 0 || r.hintsHealth().Live {
		return max(r.options.IdlePause, idleScanPause)
	}
	return 0
}

// idleRest returns the pause of an idle Run's work other than scans, or 0 while the Run is not
// idle.
func (r *run) idleRest() time.Duration { return r.idlePause(idleWorkPause) }

// restingSince returns since when this Run is idle, or the zero time if it is not. Scans leave out
// lanes that are paused or halted, so the counts must show nothing open, too.
func (r *run) restingSince() time.Time {
	if since, _, rests := r.queuer.Rests(); rests && !r.vitals.hasOpenNow() {
		return since
	}
	return time.Time{}
}

// idlePause returns the pause to use while this Run is idle, lengthened by Options.Rest. It
// returns 0 if the Run is not idle.
func (r *run) idlePause(pause time.Duration) time.Duration {
	_, began, rests := r.queuer.Rests()
	switch {
	case !rests || r.vitals.hasOpenNow():
		return 0
	case r.options.IdlePause == 0:
		return pause
	case time.Since(began) < afterScan:
		return afterScan
	}
	return max(r.options.IdlePause, afterScan)
}
