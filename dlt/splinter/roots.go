package splinter

import "time"

// rootTracker follows the hash of a service's state, its root, beside its events. A node changes
// the state, writes the receipts and passes the events to the streams under one lock, which a
// query for the root takes, too (libscabbard 0.6.14, consensus.rs and state/mod.rs). Suppose that
// a root was read, and no event came before or after it until a pair of probes showed that none is
// on its way. Then this is the root after exactly the received events.
//
// If a state never returns to an earlier one, the same root after a gap proves that nothing
// was committed in it.
type rootTracker struct {
	pause time.Duration // after a failed query

	asking         bool
	askedAt        time.Time
	failed         bool
	quiet          bool   // no event came since the query
	unsettledRoot  string // not settled yet; "" means that there is none
	probesAtAnswer int    // number of probes sent when the answer came
	settledRoot    string // root after all received events; "" if not known
}

// due reports whether to query now.
func (r *rootTracker) due(now time.Time) bool {
	return !r.asking && r.unsettledRoot == "" && r.settledRoot == "" && (!r.failed || now.Sub(r.askedAt) >= r.pause)
}

func (r *rootTracker) ask(now time.Time) { r.asking, r.askedAt, r.quiet = true, now, true }

// noteAnswer takes the root, or "" if none came, and the number of probes sent.
func (r *rootTracker) noteAnswer(root string, probes int) {
	r.asking, r.failed = false, root == ""
	if r.quiet {
		r.unsettledRoot, r.probesAtAnswer = root, probes
	}
}

// noteEvent notes that an event came.
func (r *rootTracker) noteEvent() { r.quiet, r.unsettledRoot, r.settledRoot = false, "", "" }

// settle takes the last probe that proved that all earlier events were received.
func (r *rootTracker) settle(probe int) {
	if r.unsettledRoot != "" && probe > r.probesAtAnswer {
		r.settledRoot, r.unsettledRoot = r.unsettledRoot, ""
	}
}
