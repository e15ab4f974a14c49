// Package repeats sums up what happens again and again, so that a log has one line for many.
package repeats

import (
	"slices"
	"sync"
	"time"
)

// Sum is what happened under one key since the line before.
type Sum[V any] struct {
	Last  V
	Times int
	// For is the time since the first, or, if it is over, from the first to the last.
	For time.Duration
	// Over says that nothing happened since the line before. Times is then the number of all.
	Over bool
}

// Log sums up by key. All methods may be called concurrently.
type Log[K comparable, V any] struct {
	every time.Duration
	most  int
	say   func(Sum[V])

	mu    sync.Mutex
	known map[K]*repeated[V]
	timer *time.Timer // for the next line; nil while nothing is known
}

type repeated[V any] struct {
	value       V
	first, last time.Time
	next        time.Time // of the next line
	all, since  int       // occurrences in all, and since the last line
}

// New returns an empty Log, which starts nothing. It calls say for a key once in every, as long as
// something happens under it, and once when nothing did in the last every. say is called by a
// timer, or by End. A Log knows at most so many keys: what happens under others is always new.
func New[K comparable, V any](every time.Duration, most int, say func(Sum[V])) *Log[K, V] {
	return &Log[K, V]{every: every, most: most, say: say, known: map[K]*repeated[V]{}}
}

// Seen says that something happened. It returns true for the first time, which the caller says
// itself: the Log does not.
func (l *Log[K, V]) Seen(key K, value V) (first bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.known[key]; r != nil {
		r.value, r.last = value, now
		r.all++
		r.since++
		return false
	}
	if len(l.known) >= l.most {
		return true
	}
	l.known[key] = &repeated[V]{value: value, first: now, last: now, next: now.Add(l.every), all: 1}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.every, l.tick)
	}
	return true
}

func (l *Log[K, V]) tick() {
	for _, s := range l.due(time.Now()) {
		l.say(s)
	}
}

// due returns the sums to say now, those first that began first, and sets the timer for the next.
func (l *Log[K, V]) due(now time.Time) []Sum[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil { // End was faster
		return nil
	}
	var said []*repeated[V]
	var soonest time.Time
	for key, r := range l.known {
		if !r.next.After(now) {
			said = append(said, r)
			if r.since == 0 {
				delete(l.known, key)
				continue
			}
			r.next = now.Add(l.every)
		}
		if soonest.IsZero() || r.next.Before(soonest) {
			soonest = r.next
		}
	}
	if l.timer = nil; !soonest.IsZero() {
		l.timer = time.AfterFunc(soonest.Sub(now), l.tick)
	}
	return sums(said, now)
}

// End says the sums that are left, and forgets everything. Seen may follow, and begins anew.
func (l *Log[K, V]) End() {
	for _, s := range l.rest(time.Now()) {
		l.say(s)
	}
}

func (l *Log[K, V]) rest(now time.Time) []Sum[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	var said []*repeated[V]
	for _, r := range l.known {
		if r.since > 0 {
			said = append(said, r)
		}
	}
	clear(l.known)
	return sums(said, now)
}

// sums returns what to say, and begins new sums. What happened only once was said already.
func sums[V any](said []*repeated[V], now time.Time) (all []Sum[V]) {
	slices.SortFunc(said, func(a, b *repeated[V]) int { return a.first.Compare(b.first) })
	for _, r := range said {
		switch {
		case r.since > 0:
			all = append(all, Sum[V]{Last: r.value, Times: r.since, For: now.Sub(r.first)})
			r.since = 0
		case r.all > 1:
			all = append(all, Sum[V]{Last: r.value, Times: r.all, For: r.last.Sub(r.first), Over: true})
		}
	}
	return all
}
