package splinter

import "time"

// roots follows the hash of a service's state, its root, beside its events. A node changes the
// state, writes the receipts and passes the events to the streams under one lock, which a
// query for the root takes, too (libscabbard 0.6.14, consensus.rs and state/mod.rs). Suppose
// that a root was read, and no event came before or after it until a pair of probes showed
// that none is on its way. Then this is the root after exactly the received events.
//
// If a state never returns to an earlier one, the same root after a gap proves that nothing
// was committed in it.
type roots struct {
	pause time.Duration // after a failed query

	asking bool
	asked  time.Time
	failed bool
	quiet  bool   // no event came since the query
	read   string // not settled yet; "" means that there is none
	probes int    // number of probes sent when the answer came
	known  string // root after all received events; "" if not known
}

// due reports whether to query now.
func (r *roots) due(now time.Time) bool {
	return !r.asking && r.read == "" && r.known == "" && (!r.failed || now.Sub(r.asked) >= r.pause)
}

func (r *roots) ask(now time.Time) { r.asking, r.asked, r.quiet = true, now, true }

// answered takes the root, or "" if none came, and the number of probes sent.
func (r *roots) answered(root string, probes int) {
	r.asking, r.failed = false, root == ""
	if r.quiet {
		r.read, r.probes = root, probes
	}
}

// disturbed notes an event.
func (r *roots) disturbed() { r.quiet, r.read, r.known = false, "", "" }

// settle takes the last probe that proved that all earlier events were received.
func (r *roots) settle(probe int) {
	if r.read != "" && probe > r.probes {
		r.known, r.read = r.read, ""
	}
}
