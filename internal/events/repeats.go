package events

import (
	"slices"
	"sync"
	"time"
)

// summary counts the events of one key since the line before.
type summary[V any] struct {
	last  V
	count int
	// span is the time since the first event or, if isLast is true, from the first to the last.
	span time.Duration
	// isLast is true if nothing happened since the line before. count is then the number of all
	// events.
	isLast bool
}

// repetitions sums up repeated events by key, so that a log has one line for many. All methods may
// be called concurrently.
type repetitions[K comparable, V any] struct {
	interval time.Duration
	maxKeys  int
	report   func(summary[V])

	mu    sync.Mutex
	byKey map[K]*occurrences[V]
	timer *time.Timer // fires for the next line; nil while there is nothing to sum up
}

type occurrences[V any] struct {
	value            V
	first, last      time.Time
	nextLine         time.Time // when the next line is due
	total, sinceLine int       // number of events in all, and since the last line
}

// newRepeats returns an empty repeats, which starts nothing. It calls report for a key once in
// each interval in which something happens under the key, and once when nothing has happened in
// the last interval. A timer or reportAll calls report. It keeps at most maxKeys keys: an event
// under a further key is always the first.
func newRepeats[K comparable, V any](interval time.Duration, maxKeys int, report func(summary[V])) *repetitions[K, V] {
	return &repetitions[K, V]{interval: interval, maxKeys: maxKeys, report: report, byKey: map[K]*occurrences[V]{}}
}

// note notes an event. It returns true for the first event of a key, which the caller has to
// report itself.
func (l *repetitions[K, V]) note(key K, value V) (first bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.byKey[key]; r != nil {
		r.value, r.last = value, now
		r.total++
		r.sinceLine++
		return false
	}
	if len(l.byKey) >= l.maxKeys {
		return true
	}
	l.byKey[key] = &occurrences[V]{value: value, first: now, last: now, nextLine: now.Add(l.interval), total: 1}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.interval, l.reportDue)
	}
	return true
}

func (l *repetitions[K, V]) reportDue() {
	for _, s := range l.takeDue(time.Now()) {
		l.report(s)
	}
}

// takeDue returns the sums to report now, in the order in which they began, and sets the timer for
// the next ones.
func (l *repetitions[K, V]) takeDue(now time.Time) []summary[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil { // reportAll was faster
		return nil
	}
	var said []*occurrences[V]
	var soonest time.Time
	for key, r := range l.byKey {
		if !r.nextLine.After(now) {
			said = append(said, r)
			if r.sinceLine == 0 {
				delete(l.byKey, key)
				continue
			}
			r.nextLine = now.Add(l.interval)
		}
		if soonest.IsZero() || r.nextLine.Before(soonest) {
			soonest = r.nextLine
		}
	}
	if l.timer = nil; !soonest.IsZero() {
		l.timer = time.AfterFunc(soonest.Sub(now), l.reportDue)
	}
	return takeSums(said, now)
}

// reportAll reports the sums that are left, and forgets all keys. happened may be called
// afterwards, and starts anew.
func (l *repetitions[K, V]) reportAll() {
	for _, s := range l.takeAll(time.Now()) {
		l.report(s)
	}
}

func (l *repetitions[K, V]) takeAll(now time.Time) []summary[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	var said []*occurrences[V]
	for _, r := range l.byKey {
		if r.sinceLine > 0 {
			said = append(said, r)
		}
	}
	clear(l.byKey)
	return takeSums(said, now)
}

// takeSums returns the sums to report, and begins new ones. An event that happened only once was
// reported already.
func takeSums[V any](said []*occurrences[V], now time.Time) (all []summary[V]) {
	slices.SortFunc(said, func(a, b *occurrences[V]) int { return a.first.Compare(b.first) })
	for _, r := range said {
		switch {
		case r.sinceLine > 0:
			all = append(all, summary[V]{last: r.value, count: r.sinceLine, span: now.Sub(r.first)})
			r.sinceLine = 0
		case r.total > 1:
			all = append(all, summary[V]{last: r.value, count: r.total, span: r.last.Sub(r.first), isLast: true})
		}
	}
	return all
}
