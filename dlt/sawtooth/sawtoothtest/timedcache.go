package sawtoothtest

import "time"

// timedCache forgets entries that were not read for keepTime. A lazy one forgets only while an
// entry is added, and at most once per purgeInterval: then keepTime is a lower bound
// (docs/ledgers/sawtooth.md#the-same-bytes-again).
type timedCache[V any] struct {
	keepTime      time.Duration
	purgeInterval time.Duration
	isLazy        bool
	entries       map[string]timedEntry[V]
	purgedAt      time.Time
}

type timedEntry[V any] struct {
	value     V
	renewedAt time.Time
}

func newTimedCache[V any](now time.Time, keep, every time.Duration, lazy bool) *timedCache[V] {
	return &timedCache[V]{keepTime: keep, purgeInterval: every, isLazy: lazy, entries: map[string]timedEntry[V]{}, purgedAt: now}
}

// get returns an entry, and renews its time.
func (c *timedCache[V]) get(now time.Time, key string) (V, bool) {
	v, ok := c.peek(now, key)
	if ok {
		c.entries[key] = timedEntry[V]{value: v, renewedAt: now}
	}
	return v, ok
}

func (c *timedCache[V]) peek(now time.Time, key string) (V, bool) {
	e, ok := c.entries[key]
	if !ok || (!c.isLazy && now.Sub(e.renewedAt) >= c.keepTime) {
		var zero V
		return zero, false
	}
	return e.value, true
}

func (c *timedCache[V]) put(now time.Time, key string, v V) {
	c.entries[key] = timedEntry[V]{value: v, renewedAt: now}
	if now.Sub(c.purgedAt) <= c.purgeInterval {
		return
	}
	for k, e := range c.entries {
		if now.Sub(e.renewedAt) >= c.keepTime {
			delete(c.entries, k)
		}
	}
	c.purgedAt = now
}
