package engine

import "time"

// While nothing is open and hints tell of what others do, a Run leaves the database alone, nearly:
// with these pauses it sends less than 0.2 statements a second. Options.Rest makes each of them
// longer.
const (
	idleScanPause   = 15 * time.Second // between two scans, in place of ScanInterval
	idleWorkPause   = time.Minute      // between two writes of this instance's row, and of the monitor's own reads
	idleUpkeepPause = 5 * time.Minute  // between two counts, and between two calls of Upkeep
	pruneRest       = 4 * time.Minute
	// afterScan is how soon after a scan all else is done where Options.Rest is set, so that the
	// database sleeps in between.
	afterScan = 30 * time.Second
)

// idleScanRest returns the longest pause between two scans while nothing is open; 0 where no hints
// arrive, and nobody allowed to do without them.
func (r *run) idleScanRest() time.Duration {
	if r.o.IdlePause > 0 || r.hintsHealth().Live {
		return max(r.o.IdlePause, idleScanPause)
	}
	return 0
}

// idleRest returns the pause of an idle Run's work beside its scans; 0 while it is not idle.
func (r *run) idleRest() time.Duration { return r.idlePause(idleWorkPause) }

// restingSince returns since when this Run is idle; zero while it is not. Scans leave out lanes
// that are paused or halted, so the counts have a say, too.
func (r *run) restingSince() time.Time {
	if since, _, rests := r.queuer.Rests(); rests && !r.vitals.anyOpenNow() {
		return since
	}
	return time.Time{}
}

// idlePause returns a pause while this Run is idle, or one that makes Options.Rest true; else 0.
func (r *run) idlePause(pause time.Duration) time.Duration {
	_, began, rests := r.queuer.Rests()
	switch {
	case !rests || r.vitals.anyOpenNow():
		return 0
	case r.o.IdlePause == 0:
		return pause
	case time.Since(began) < afterScan:
		return afterScan
	}
	return max(r.o.IdlePause, afterScan)
}
