package events

import (
	"slices"
	"sync"
	"time"
)

// sum counts the events under one key since the line before.
type sum[V any] struct {
	last  V
	times int
	// span is the time since the first, or, if it is over, from the first to the last.
	span time.Duration
	// over says that nothing happened since the line before. times is then the number of all.
	over bool
}

// repeats sums up by key what happens again and again, so that a log has one line for many. All
// methods may be called concurrently.
type repeats[K comparable, V any] struct {
	every time.Duration
	most  int
	say   func(sum[V])

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

// newRepeats returns an empty repeats, which starts nothing. It calls say for a key once in every,
// as long as something happens under it, and once when nothing did in the last every. say is
// called by a timer, or by end. It knows at most `most` keys: an event under another key is always
// new.
func newRepeats[K comparable, V any](every time.Duration, most int, say func(sum[V])) *repeats[K, V] {
	return &repeats[K, V]{every: every, most: most, say: say, known: map[K]*repeated[V]{}}
}

// seen says that something happened. It returns true for the first time, which the caller says
// itself: repeats does not.
func (l *repeats[K, V]) seen(key K, value V) (first bool) {
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

func (l *repeats[K, V]) tick() {
	for _, s := range l.due(time.Now()) {
		l.say(s)
	}
}

// due returns the sums to say now, those first that began first, and sets the timer for the next.
func (l *repeats[K, V]) due(now time.Time) []sum[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil { // end was faster
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

// end says the sums that are left, and forgets everything. seen may follow, and begins anew.
func (l *repeats[K, V]) end() {
	for _, s := range l.rest(time.Now()) {
		l.say(s)
	}
}

func (l *repeats[K, V]) rest(now time.Time) []sum[V] {
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
func sums[V any](said []*repeated[V], now time.Time) (all []sum[V]) {
	slices.SortFunc(said, func(a, b *repeated[V]) int { return a.first.Compare(b.first) })
	for _, r := range said {
		switch {
		case r.since > 0:
			all = append(all, sum[V]{last: r.value, times: r.since, span: now.Sub(r.first)})
			r.since = 0
		case r.all > 1:
			all = append(all, sum[V]{last: r.value, times: r.all, span: r.last.Sub(r.first), over: true})
		}
	}
	return all
}
