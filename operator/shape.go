package operator

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// shape is all that decides about a lane with one batch that was attempted, or none, seen briefly.
// Very many lanes have few shapes, and one of each is judged.
type shape struct {
	ledger string // whose record holds for all its services
	// closed says how the lane is closed, and by what kind of batch.
	paused, halted   bool
	by               finalState
	attempted, waits batchShape
	behind           bool // the waiting batch stands behind the attempted one
	more             bool // more of them wait
}

// batchShape is all that decides about one batch.
type batchShape struct {
	state                       batch.State
	kind                        batch.ErrorKind
	live, early, resend, decide bool
}

// items is lane, and for a brief survey without the explanations.
func (v *view) items(s store.Survey, l store.LaneSurvey, u rules, q store.SurveyQuery) []item {
	if !q.Brief {
		return v.lane(s, l, u, q)
	}
	form, is := v.shapeOf(s, l, u)
	if !is {
		return withoutExplanations(v.lane(s, l, u, q))
	}
	known, is := v.shapes[form]
	if !is {
		known = withoutExplanations(v.lane(s, l, u, q))
		v.shapes[form] = known
		return known
	}
	v.again = append(v.again[:0], known...)
	for i := range v.again {
		it := &v.again[i]
		it.created = l.Rows[min(i, len(l.Rows)-1)].Created
		if i == len(l.Rows) { // the others that wait
			it.n, it.atLeast = l.Waiting-1, l.Waiting == q.Cap
		}
	}
	return v.again
}

// withoutExplanations leaves out the explanations: a brief survey does not know them for certain.
func withoutExplanations(items []item) []item {
	for i := range items {
		items[i].id, items[i].e, items[i].blocker = "", batch.Explanation{}, batch.Explanation{}
	}
	return items
}

// shapeOf returns the shape of a lane, if it has one.
func (v *view) shapeOf(s store.Survey, l store.LaneSurvey, u rules) (f shape, is bool) {
	if _, is = v.rules[l.Ledger]; !is || len(l.Rows) > 2 {
		return f, false
	}
	f = shape{ledger: l.Ledger, paused: !s.Everything.PausedAt.IsZero() || !l.Control.PausedAt.IsZero(), more: l.Waiting > 1}
	if f.halted = !l.Control.HaltedAt.IsZero(); f.halted {
		f.by = v.final[batch.Key{Service: l.Service, ID: l.Control.HaltedBy}]
	}
	var before time.Time
	for i := range l.Rows {
		r := &l.Rows[i]
		b := batchShape{
			state: r.Row.State, kind: kindOf(r.Row.Error), live: r.Row.Live(s.At), early: r.Row.NotBefore.After(s.At),
			decide: r.Row.Undecided(),
			resend: u.refuse == nil && r.Row.Resendable(s.At, u.query.TTL, resend(u, l.Service)),
		}
		switch {
		case r.Row.Attempted() && i == 0:
			f.attempted, before = b, r.Created
		case !r.Row.Attempted() && i == len(l.Rows)-1:
			f.waits, f.behind = b, r.Created.After(before)
		default:
			return f, false
		}
	}
	return f, true
}

// resend is the rule of a service's ledger.
func resend(u rules, s batch.ServiceID) store.Resend {
	if u.query.Resend == nil {
		return store.Resend{}
	}
	return u.query.Resend(s)
}
