package splinter

import "time"

// roots follows the hash of a service's state beside its events. A node changes the state,
// writes the receipts and hands the events to the streams under one lock, which a question
// about the root takes, too (libscabbard 0.6.14, consensus.rs and state/mod.rs). So a root
// that was read, and before and after which nothing was told until a pair of probes showed
// that nothing is on its way, is that of all that was told, and of nothing else.
//
// Where a state never comes back to what it was, the same root after a gap says that nothing
// was committed in it.
type roots struct {
	pause time.Duration // after a question that failed

	asking bool
	asked  time.Time
	failed bool
	quiet  bool   // nothing was told since it was asked
	read   string // not settled yet; "" is none
	probes int    // that had been sent when the answer was there
	known  string // of all that was told; "" is not known
}

// due reports whether to ask now.
func (r *roots) due(now time.Time) bool {
	return !r.asking && r.read == "" && r.known == "" && (!r.failed || now.Sub(r.asked) >= r.pause)
}

func (r *roots) ask(now time.Time) { r.asking, r.asked, r.quiet = true, now, true }

// answered takes the root, or "" where there was none, and how many probes have been sent.
func (r *roots) answered(root string, probes int) {
	r.asking, r.failed = false, root == ""
	if r.quiet {
		r.read, r.probes = root, probes
	}
}

// disturbed notes an event.
func (r *roots) disturbed() { r.quiet, r.read, r.known = false, "", "" }

// settle takes the last probe that showed that all from before it has been told.
func (r *roots) settle(probe int) {
	if r.read != "" && probe > r.probes {
		r.known, r.read = r.read, ""
	}
}
