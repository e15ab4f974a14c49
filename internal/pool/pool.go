// Package pool bounds the requests under way, and limits the places that hanging requests take.
package pool

import (
	"sync"
	"time"
)

// Pool gives out a bounded number of hands. A key becomes slow when one of its requests takes
// longer than slowLimit, or runs into its time limit. It stays slow until one of its requests ends
// within its limit. Slow keys share a quarter of the pool. A request that becomes slow gives its
// place to others (up to as many again), so that a few hanging requests cannot hold up the rest. A
// ledger that is slow and answers loses no places.
type Pool struct {
	size      int
	slowAfter time.Duration
	onFreed   func() // called without a lock each time a place becomes free

	mu            sync.Mutex
	quickRequests int // requests under way that are not slow
	slowRequests  int // requests under way that are slow
	slowKeys      map[string]struct{}
	postedNow     int // batches posted since the present window began
	postedBefore  int // batches posted in the window before
	windowStart   time.Time
}

// maxSlowKeys bounds the set of slow keys; beyond it all are forgotten.
const maxSlowKeys = 10_000

// New returns a pool of size hands. It calls freed each time a hand becomes free.
func New(size int, slowAfter time.Duration, freed func()) *Pool {
	return &Pool{size: size, slowAfter: slowAfter, onFreed: freed, slowKeys: map[string]struct{}{}}
}

func (p *Pool) slowSize() int { return max(1, p.size/4) }

// Hand is the right to make one request.
type Hand struct {
	pool       *Pool
	key        string
	isSlow     bool // guarded by p.mu
	isReleased bool
	slowTimer  *time.Timer
}

// Acquire takes a hand for key; false means that no hand is free for it now.
func (p *Pool) Acquire(key string) (*Hand, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, slow := p.slowKeys[key]
	if slow && p.slowRequests >= p.slowSize() || !slow && p.quickRequests >= p.size {
		return nil, false
	}
	h := &Hand{pool: p, key: key, isSlow: slow}
	if slow {
		p.slowRequests++
		return h, true
	}
	p.quickRequests++
	h.slowTimer = time.AfterFunc(p.slowAfter, h.turnSlow)
	return h, true
}

// Crowded reports whether slow keys have used up their share.
func (p *Pool) Crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slowRequests >= p.slowSize()
}

// Hangs reports whether key is slow and gets no hand, because slow keys have used up their share.
func (p *Pool) Hangs(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, slow := p.slowKeys[key]
	return slow && p.slowRequests >= p.slowSize()
}

// Free returns how many hands are free for keys that are not slow.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size - p.quickRequests
}

// Busy returns how many requests are under way.
func (p *Pool) Busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quickRequests + p.slowRequests
}

// Posted tells the pool that n batches were posted with this hand.
func (h *Hand) Posted(n int) {
	p := h.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextWindow(time.Now())
	p.postedNow += n
}

// Recent returns how many batches were posted in about the last 100 ms.
func (p *Pool) Recent(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextWindow(now)
	return max(p.postedNow, p.postedBefore)
}

func (p *Pool) nextWindow(now time.Time) {
	const window = 100 * time.Millisecond
	switch age := now.Sub(p.windowStart); {
	case age < window:
	case age < 2*window:
		p.postedNow, p.postedBefore, p.windowStart = 0, p.postedNow, now
	default:
		p.postedNow, p.postedBefore, p.windowStart = 0, 0, now
	}
}

func (h *Hand) turnSlow() {
	p := h.pool
	p.mu.Lock()
	if h.isReleased || h.isSlow || p.slowRequests >= p.size {
		p.mu.Unlock()
		return
	}
	h.isSlow = true
	p.quickRequests--
	p.slowRequests++
	p.markSlow(h.key)
	p.mu.Unlock()
	p.onFreed()
}

func (p *Pool) markSlow(key string) {
	if len(p.slowKeys) >= maxSlowKeys {
		clear(p.slowKeys)
	}
	p.slowKeys[key] = struct{}{}
}

// ReleaseUnused gives the hand back if no request was made. It tells nothing about the key.
func (h *Hand) ReleaseUnused() {
	h.release(func(*Pool) {})
	h.pool.onFreed()
}

// Release gives the hand back. hung is true if the request ran into its time limit.
func (h *Hand) Release(hung bool) {
	h.ReleaseQuietly(hung)
	h.pool.onFreed()
}

// ReleaseQuietly is Release without a call of freed: the caller looks for work for the place
// itself, and reports the free place if it finds none.
func (h *Hand) ReleaseQuietly(hung bool) {
	h.release(func(p *Pool) {
		if hung {
			p.markSlow(h.key)
		} else {
			delete(p.slowKeys, h.key)
		}
	})
}

func (h *Hand) release(note func(*Pool)) {
	p := h.pool
	if h.slowTimer != nil {
		h.slowTimer.Stop()
	}
	p.mu.Lock()
	h.isReleased = true
	if h.isSlow {
		p.slowRequests--
	} else {
		p.quickRequests--
	}
	note(p)
	p.mu.Unlock()
}
