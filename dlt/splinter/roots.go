package splinter

import "time"

// rootTracker follows the root hash of a service's state along with its events. A node changes the
// state, writes the receipts and passes the events to the streams under one lock, which a query
// for the root also takes (libscabbard 0.6.14, consensus.rs and state/mod.rs). Suppose that a root
// was read, and that no event came from the query on until a pair of probes has shown that none is
// on its way. Then this is the root after exactly the received events.
//
// If a state never returns to an earlier one, the same root before and after a gap proves that no
// batch was committed in the gap.
type rootTracker struct {
	retryDelay time.Duration // the wait after a failed query

	isAsking       bool
	askedAt        time.Time
	hasFailed      bool
	isQuiet        bool   // no event came since the query
	unsettledRoot  string // a root that is not settled yet; "" if there is none
	probesAtAnswer int    // how many probes were sent when the answer came
	settledRoot    string // the root after all received events; "" if it is not known
}

// isDue reports whether it is time for a query.
func (r *rootTracker) isDue(now time.Time) bool {
	return !r.isAsking && r.unsettledRoot == "" && r.settledRoot == "" && (!r.hasFailed || now.Sub(r.askedAt) >= r.retryDelay)
}

func (r *rootTracker) noteAsked(now time.Time) { r.isAsking, r.askedAt, r.isQuiet = true, now, true }

// noteAnswer notes the root in an answer, "" if none came, and the number of probes sent so far.
func (r *rootTracker) noteAnswer(root string, probes int) {
	r.isAsking, r.hasFailed = false, root == ""
	if r.isQuiet {
		r.unsettledRoot, r.probesAtAnswer = root, probes
	}
}

// noteEvent notes that an event came.
func (r *rootTracker) noteEvent() { r.isQuiet, r.unsettledRoot, r.settledRoot = false, "", "" }

// settle notes the last probe that proved that all earlier events were received.
func (r *rootTracker) settle(probe int) {
	if r.unsettledRoot != "" && probe > r.probesAtAnswer {
		r.settledRoot, r.unsettledRoot = r.unsettledRoot, ""
	}
}
