package engine

import "time"

// While nothing is open and hints tell of what others do, a Run leaves the database alone, nearly:
// with these pauses it sends less than 0.2 statements a second. Options.Rest makes each of them
// longer.
const (
	scanRest   = 15 * time.Second // between two scans, in place of ScanInterval
	calmRest   = time.Minute      // between two writes of this instance's row, and of the monitor's own reads
	upkeepRest = 5 * time.Minute  // between two counts, and between two calls of Upkeep
	pruneRest  = 4 * time.Minute
	// together is how soon after a scan all else is done where Options.Rest is set, so that the
	// database sleeps in between.
	together = 30 * time.Second
)

// rest returns the longest pause between two scans while nothing is open; 0 where no hints arrive,
// and nobody allowed to do without them.
func (r *run) rest() time.Duration {
	if r.o.Rest > 0 || r.hearing().Live {
		return max(r.o.Rest, scanRest)
	}
	return 0
}

// calm returns the pause of an idle Run's work beside its scans; 0 while it is not idle.
func (r *run) calm() time.Duration { return r.resting(calmRest) }

// restingSince returns since when this Run is idle; zero while it is not. Scans leave out lanes
// that are paused or halted, so the counts have a say, too.
func (r *run) restingSince() time.Time {
	if since, _, rests := r.queuer.Rests(); rests && !r.vitals.open() {
		return since
	}
	return time.Time{}
}

// resting returns a pause while this Run is idle, or one that makes Options.Rest true; else 0.
func (r *run) resting(pause time.Duration) time.Duration {
	_, began, rests := r.queuer.Rests()
	switch {
	case !rests || r.vitals.open():
		return 0
	case r.o.Rest == 0:
		return pause
	case time.Since(began) < together:
		return together
	}
	return max(r.o.Rest, together)
}
