package operator

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// laneShape holds everything that decides how a lane with at most one attempted batch is explained
// in a brief survey. Very many lanes have few different shapes, so one lane of each shape is
// judged.
type laneShape struct {
	ledger string // the record of this ledger holds for all its services
	// These three say how the lane is closed, and how the batch that halted it ended.
	paused, halted     bool
	halterEnd          finalState
	attempted, waiting batchShape
	waitsBehind        bool // the waiting batch comes after the attempted one
	hasMore            bool // more batches wait
}

// batchShape holds everything that decides how one batch is explained.
type batchShape struct {
	state                                                    batch.State
	kind                                                     batch.ErrorKind
	hasLiveClaim, isBeforeItsTime, isResendable, isUndecided bool
}

// items returns the items of a lane. For a brief survey it leaves out the explanations, and reuses
// the items of another lane of the same shape.
func (v *surveyView) items(s store.Survey, l store.LaneSurvey, u claimRules, q store.SurveyQuery) []laneItem {
	if !q.Brief {
		return v.laneItems(s, l, u, q)
	}
	form, is := v.shapeOf(s, l, u)
	if !is {
		return withoutExplanations(v.laneItems(s, l, u, q))
	}
	known, is := v.shapes[form]
	if !is {
		known = withoutExplanations(v.laneItems(s, l, u, q))
		v.shapes[form] = known
		return known
	}
	v.itemBuffer = append(v.itemBuffer[:0], known...)
	for i := range v.itemBuffer {
		it := &v.itemBuffer[i]
		it.created = l.Rows[min(i, len(l.Rows)-1)].Created
		if i == len(l.Rows) { // the item for the other waiting batches
			it.count, it.atLeast = l.Waiting-1, l.Waiting == q.Cap
		}
	}
	return v.itemBuffer
}

// withoutExplanations clears the explanations, since a brief survey does not read enough for them.
func withoutExplanations(items []laneItem) []laneItem {
	for i := range items {
		items[i].id, items[i].explanation, items[i].blocker = "", batch.Explanation{}, batch.Explanation{}
	}
	return items
}

// shapeOf returns the shape of a lane; is is false if the lane has none.
func (v *surveyView) shapeOf(s store.Survey, l store.LaneSurvey, u claimRules) (f laneShape, is bool) {
	if _, is = v.rules[l.Ledger]; !is || len(l.Rows) > 2 {
		return f, false
	}
	f = laneShape{ledger: l.Ledger, paused: !s.Everything.PausedAt.IsZero() || !l.Control.PausedAt.IsZero(), hasMore: l.Waiting > 1}
	if f.halted = !l.Control.HaltedAt.IsZero(); f.halted {
		f.halterEnd = v.finalStates[batch.Key{Service: l.Service, ID: l.Control.HaltedBy}]
	}
	var before time.Time
	for i := range l.Rows {
		r := &l.Rows[i]
		b := batchShape{
			state: r.Row.State, kind: kindOf(r.Row.Error), hasLiveClaim: r.Row.Live(s.At), isBeforeItsTime: r.Row.NotBefore.After(s.At),
			isUndecided:  r.Row.Undecided(),
			isResendable: u.queryErr == nil && r.Row.Resendable(s.At, u.query.TTL, resendRule(u, l.Service)),
		}
		switch {
		case r.Row.Attempted() && i == 0:
			f.attempted, before = b, r.Created
		case !r.Row.Attempted() && i == len(l.Rows)-1:
			f.waiting, f.waitsBehind = b, r.Created.After(before)
		default:
			return f, false
		}
	}
	return f, true
}

// resendRule returns the resend rule of the ledger of service s.
func resendRule(u claimRules, s batch.ServiceID) store.Resend {
	if u.query.Resend == nil {
		return store.Resend{}
	}
	return u.query.Resend(s)
}
