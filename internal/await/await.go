// Package await lets any number of callers wait for outcomes, with one query of the store in each
// interval.
package await

import (
	"context"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Options of waiters; all must be set.
type Options[K comparable, R any] struct {
	Interval time.Duration // between two queries about all keys
	Linger   time.Duration // shortest time between two queries, so that keys that come together are in one query
	Timeout  time.Duration // limit of one query
	// Finals returns the records of keys that are final, and the keys that are not stored.
	Finals func(ctx context.Context, keys []K) (final []R, missing []K, err error)
	Key    func(R) K
	// Hear calls heard with what other processes tell of keys that became final, until ctx is
	// done: their hashes, or that many became final. It calls look when it may have missed some.
	// nil means that no process tells.
	Hear func(ctx context.Context, heard func(hashes []uint64, many bool), look func())
	// Hash returns the hash of a key; nil if Hear is nil.
	Hash func(K) uint64
}

// Waiters are the callers that wait. A reader runs while there are any. All methods may be
// called concurrently.
type Waiters[K comparable, R any] struct {
	options Options[K, R]

	mu      sync.Mutex
	hashes  map[uint64]map[K]struct{}     // the keys of waiting by their hashes, if Hear is set
	waiting map[K]map[chan answer[R]]bool // the waiters for each key; true if a query began since the waiter came
	reader  *reader[K]                    // nil while no reader runs
}

// reader makes the queries for the waiters.
type reader[K comparable] struct {
	stop      context.CancelFunc
	wake      chan struct{}  // makes the reader query newKeys at once
	newKeys   map[K]struct{} // guarded by the waiters' lock
	allWanted bool           // whether all keys are to be queried once allDue has come; guarded by the waiters' lock
	allDue    time.Time      // when all keys may be queried again; used by the reader only
}

// answer is a query's result for a waiter.
type answer[R any] struct {
	rec R
	err error
}

// New returns Waiters for which no caller waits.
func New[K comparable, R any](o Options[K, R]) *Waiters[K, R] {
	return &Waiters[K, R]{options: o, waiting: map[K]map[chan answer[R]]bool{}, hashes: map[uint64]map[K]struct{}{}}
}

// Wait returns the record of key once it is final, or [batch.ErrNotFound], the
// store's error, or ctx's.
func (w *Waiters[K, R]) Wait(ctx context.Context, key K) (R, error) {
	c := w.join(key) // joined before the first read, so that no end in between is missed
	defer w.leave(key, c)
	select {
	case <-ctx.Done():
		var none R
		return none, ctx.Err()
	case a := <-c:
		return a.rec, a.err
	}
}

// Final reports that this process saw keys become final. The reader queries them at once.
func (w *Waiters[K, R]) Final(keys ...K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if len(w.waiting[key]) > 0 {
			w.reader.ask(key)
		}
	}
}

// read queries which of the waiters' keys are final, until ctx is done: all keys in every
// interval, and new keys at once, unless a query has just ended.
func (w *Waiters[K, R]) read(ctx context.Context, now *reader[K]) {
	tick := time.NewTicker(w.options.Interval)
	defer tick.Stop()
	var asked time.Time
	var later <-chan time.Time // when all keys may be queried
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			all = true
		case <-later:
			later = nil
		case <-now.wake:
			if !loop.Sleep(ctx, time.Until(asked.Add(w.options.Linger))) {
				return
			}
		}
		asked = time.Now()
		keys, all, wait := w.keysToAsk(now, all)
		if wait > 0 && later == nil {
			later = time.After(wait)
		}
		if len(keys) == 0 {
			continue
		}
		final, missing, err := w.finals(ctx, keys)
		if all {
			now.allDue = time.Now().Add(min(pauseFactor*time.Since(asked), w.options.Interval))
		}
		if ctx.Err() != nil {
			return // no caller waits any more
		}
		if err != nil {
			for _, key := range keys {
				w.answerWaiters(key, answer[R]{err: err})
			}
			continue
		}
		for _, rec := range final {
			w.answerWaiters(w.options.Key(rec), answer[R]{rec: rec})
		}
		for _, key := range missing {
			w.answerWaiters(key, answer[R]{err: batch.ErrNotFound})
		}
	}
}

// pauseFactor is the pause after a query of all keys, as a multiple of its time, if other
// processes tell that many keys are final. So many hints take one part in pauseFactor of the time.
const pauseFactor = 20

// onHeard acts on what other processes tell.
func (w *Waiters[K, R]) onHeard(hashes []uint64, many bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader == nil {
		return
	}
	for _, hash := range hashes {
		for key := range w.hashes[hash] {
			w.reader.ask(key)
		}
	}
	if many {
		w.reader.allWanted = true
		loop.Poke(w.reader.wake)
	}
}

// askAnew makes the reader query all keys again.
func (w *Waiters[K, R]) askAnew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, all := range w.waiting {
		for _, asked := range all {
			if asked {
				w.reader.ask(key)
			}
		}
	}
}

func (w *Waiters[K, R]) finals(ctx context.Context, keys []K) (final []R, missing []K, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	err = loop.Contain(func() error {
		final, missing, err = w.options.Finals(ctx, keys)
		return err
	})
	return final, missing, err
}

// join registers a waiter for a key; the first waiter starts the reader.
func (w *Waiters[K, R]) join(key K) chan answer[R] {
	c := make(chan answer[R], 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[key] == nil {
		w.waiting[key] = map[chan answer[R]]bool{}
		if w.options.Hear != nil {
			hash := w.options.Hash(key)
			if w.hashes[hash] == nil {
				w.hashes[hash] = map[K]struct{}{}
			}
			w.hashes[hash][key] = struct{}{}
		}
	}
	w.waiting[key][c] = false
	if w.reader == nil {
		ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // the last to leave calls it
		w.reader = &reader[K]{stop: cancel, wake: make(chan struct{}, 1), newKeys: map[K]struct{}{}}
		go w.read(ctx, w.reader)
		if w.options.Hear != nil {
			go w.options.Hear(ctx, w.onHeard, w.askAnew)
		}
	}
	w.reader.ask(key)
	return c
}

// leave removes a waiter; the last one stops the reader.
func (w *Waiters[K, R]) leave(key K, c chan answer[R]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting[key], c)
	if len(w.waiting[key]) == 0 {
		delete(w.waiting, key)
		delete(w.reader.newKeys, key)
		if w.options.Hear != nil {
			hash := w.options.Hash(key)
			if delete(w.hashes[hash], key); len(w.hashes[hash]) == 0 {
				delete(w.hashes, hash)
			}
		}
	}
	if len(w.waiting) == 0 {
		w.reader.stop()
		w.reader = nil
	}
}

func (r *reader[K]) ask(key K) {
	r.newKeys[key] = struct{}{}
	loop.Poke(r.wake)
}

// keysToAsk returns the keys to query now, and marks their waiters. It also returns whether these
// are all keys, and the time after which all are to be queried; 0 means that they are not.
func (w *Waiters[K, R]) keysToAsk(r *reader[K], all bool) (keys []K, _ bool, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.allWanted && !all {
		wait = time.Until(r.allDue)
		all = wait <= 0
	}
	if all {
		r.allWanted, wait = false, 0
		for key := range w.waiting {
			keys = append(keys, key)
		}
	} else {
		for key := range r.newKeys {
			keys = append(keys, key)
		}
	}
	clear(r.newKeys)
	for _, key := range keys {
		for c := range w.waiting[key] {
			w.waiting[key][c] = true
		}
	}
	return keys, all, wait
}

// answerWaiters answers the waiters that came before the query began. For a waiter that came
// later, the answer may be older than the Add or the Requeue before its Wait, and that waiter has
// caused another query.
func (w *Waiters[K, R]) answerWaiters(key K, a answer[R]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, asked := range w.waiting[key] {
		if !asked {
			continue
		}
		select {
		case c <- a:
		default: // the waiter has an answer, and is about to leave
		}
	}
}
