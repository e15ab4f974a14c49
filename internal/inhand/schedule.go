package inhand

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// plan schedules the entry's next time. t.mu is held.
func (t *Table) plan(s *slot) {
	at := s.Ask
	if at.IsZero() || !s.Due.IsZero() && s.Due.Before(at) {
		at = s.Due
	}
	switch {
	case at.IsZero() && s.index < 0, s.index >= 0 && at.Equal(s.at):
		return
	case at.IsZero():
		heap.Remove(&t.times, s.index)
		return
	}
	if s.at = at; s.index < 0 {
		heap.Push(&t.times, s)
	} else {
		heap.Fix(&t.times, s.index)
	}
	if s.index == 0 {
		t.poke()
	}
}

// poke makes Run look at its times again.
func (t *Table) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// due returns the questions and outcomes whose time has come, and the time until the next.
func (t *Table) due(now time.Time) (questions []Question, waited []store.Outcome, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waited, t.left = t.left, nil
	for len(t.times) > 0 {
		s := t.times[0]
		if wait := s.at.Sub(now); wait > 0 && (len(questions) == 0 || wait >= grain) {
			break
		}
		if !s.Due.IsZero() && !s.Due.After(now) {
			out := t.step(s, &Event{Kind: IsDue}, now)
			waited = append(waited, out.Write()...)
			continue
		}
		if s.Ask.IsZero() { // only its Due is near
			break
		}
		e := s.Entry
		if e.Ask = (time.Time{}); e.followed() {
			questions = append(questions, t.question(s, now))
		}
		t.set(s, e, now)
	}
	questions = append(questions, t.askGroups(now)...)
	t.sweep(now)
	next = t.keep // for the sweep
	if len(t.times) > 0 {
		next = t.times[0].at.Sub(now)
	}
	for _, g := range t.groups {
		if !g.askAt.IsZero() {
			next = min(next, g.askAt.Sub(now))
		}
	}
	return questions, waited, next
}

func (t *Table) question(s *slot, now time.Time) Question {
	s.asked = now
	return Question{Row: s.Aged(now), Seen: now.Sub(s.Read), Unwritten: s.Phase == Accepted}
}

// askGroups returns the questions that events have caused: about all that is open in their
// groups, in the order of the POSTs, which is roughly the order of the commits. Commits of the
// same moment are then in one answer, and in one write. t.mu is held.
func (t *Table) askGroups(now time.Time) (questions []Question) {
	for _, g := range t.groups {
		if g.askAt.IsZero() || g.askAt.After(now) {
			continue
		}
		g.askAt, t.lastAsk = time.Time{}, now
		open := slices.Clone(g.open)
		slices.SortFunc(open, func(a, b *slot) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Row.Row, b.Row.Row)) })
		for _, s := range open {
			e := s.Entry
			if e.Ask = (time.Time{}); now.Sub(e.Began) > followFor {
				e = Entry{} // nothing waits in phase Open
			} else if !s.asked.Equal(now) {
				questions = append(questions, t.question(s, now))
			}
			t.set(s, e, now)
		}
	}
	return questions
}

// schedule is a heap of slots by their next time.
type schedule []*slot

// drain returns the slots with an unwritten outcome in the order in which they came due.
func (h schedule) drain() []*slot {
	all := slices.Clone(h)
	slices.SortFunc(all, func(a, b *slot) int { return a.Due.Compare(b.Due) })
	return all
}

func (h schedule) Len() int           { return len(h) }
func (h schedule) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h schedule) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *schedule) Push(x any) {
	s := x.(*slot)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *schedule) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = -1
	return s
}
