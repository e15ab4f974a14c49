package groups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Settings are the settings of every writer. MaxItems, Timeout and RetryFor must be set.
type Settings struct {
	// Linger is how long items wait for others that share their write. Items linger if nothing
	// waits for them, and all items linger after a write of many.
	Linger   time.Duration
	MaxItems int // items in a group
	// MaxBytes bounds the sizes of a group's items; one item may be larger. 0 is no bound.
	MaxBytes int
	// Timeout bounds one write; a write that hangs fails. A repeated write has a sixteenth of
	// Timeout, because all other items of its worker wait meanwhile.
	Timeout time.Duration
	// RetryFor is how long a failed write is retried.
	RetryFor time.Duration
}

// writerRules are what a writer does with its kind of items.
type writerRules[T any] struct {
	write     func(context.Context, []T) error
	key       func(*T) batch.Key // the batch of an item
	mayLinger func(*T) bool      // whether nothing waits for the write of an item
	size      func(*T) int       // the size of an item in bytes
	workers   int
	// onDone is called with every group that was written, onLost with items that were given up,
	// and trouble for failed writes. None of them may keep the slice.
	onDone, onLost func([]item[T])
	onTrouble      func(error)
}

// Writer writes items in groups. Each of its workers writes one group at a time. Items that arrive
// while all workers are busy share the next write.
//
// A row that is locked, or that cannot be written, must not delay the others. So a worker repeats
// failed items in short rounds, and writes the next group between two rounds. While an item waits
// to be repeated, later items of that worker about the same batch wait, too. They would otherwise
// hang like the failed item, delay the items in their write, or overtake the failed item.
type Writer[T any] struct {
	settings Settings
	rules    writerRules[T]
	arrivals chan arrival[T]
	ended    chan struct{} // closed when Run returns
}

// arrival has items that became known together.
type arrival[T any] struct {
	first T
	rest  []T
}

type item[T any] struct {
	value    T
	wasTried bool      // an earlier write of the item failed, and may have been applied nevertheless
	firstErr error     // the error of the earlier write
	maxGroup int       // most items in a group with this one, after a repeated write that hung; 0 for any number
	giveUpAt time.Time // when it is given up; zero before the first failure
}

func newWriter[T any](o Settings, r writerRules[T]) *Writer[T] {
	return &Writer[T]{settings: o, rules: r, arrivals: make(chan arrival[T], 4*o.MaxItems), ended: make(chan struct{})}
}

// Put adds items that became known together: up to MaxItems of them are written together. It may
// be called concurrently, and waits while the workers have many items to write. Once Run has
// returned, Put does not wait, and the items are given up. Put keeps the slice rest.
func (w *Writer[T]) Put(first T, rest ...T) {
	select {
	case w.arrivals <- arrival[T]{first, rest}:
	case <-w.ended:
	}
}

// Close lets Run return once every item is written. No Put may follow.
func (w *Writer[T]) Close() { close(w.arrivals) }

// Run writes until Close, or until ctx is done, which gives up the items that are left. It
// is called once.
func (w *Writer[T]) Run(ctx context.Context) {
	defer close(w.ended)
	var wg sync.WaitGroup
	for range w.rules.workers {
		wg.Go(func() { (&worker[T]{Writer: w}).run(ctx) })
	}
	wg.Wait()
}

// worker is a goroutine that writes groups.
type worker[T any] struct {
	*Writer[T]
	busyUntil time.Time // until then all items linger, after a write of many
	// stuckErrors has, by batch, the error of an item that failed and is to be repeated. It is nil
	// if there is none.
	stuckErrors  map[batch.Key]error
	madeProgress bool      // whether the last round wrote items or made groups smaller
	groupMemory  []item[T] // memory for the next group
	itemsMemory  []T       // memory for the next write
}

func (w *worker[T]) run(ctx context.Context) {
	in := w.arrivals
	pause := loop.NewBriefPauses()
	var again []item[T] // items that failed, or that wait behind a failed one
	var retry <-chan time.Time
	var hung time.Duration // how long the last round took, if it made no progress
	open := true
	for open || (len(again) > 0 && ctx.Err() == nil) {
		select {
		case a, ok := <-in:
			if open = ok; !ok {
				in = nil // no more items arrive, only repetitions are left
				continue
			}
			w.groupMemory = w.fillGroup(appendAll(w.groupMemory[:0], a))
			again = append(again, w.writeAll(ctx, w.groupMemory)...)
			w.busyUntil = time.Time{}
			if len(w.groupMemory) >= min(manyItems, w.settings.MaxItems) {
				w.busyUntil = time.Now().Add(w.settings.Linger)
			}
		case <-retry:
			retry = nil
			began := time.Now()
			if again = w.repeat(ctx, again); w.madeProgress {
				pause.Reset() // the other failed items are repeated soon
				hung = 0
			} else {
				hung = time.Since(began)
			}
		case <-ctx.Done():
			return
		}
		switch {
		case len(again) == 0:
			pause.Reset()
		case retry == nil:
			retry = time.After(max(pause.NextBackOff(), restPerRoundTime*hung))
		}
	}
}

// restPerRoundTime is the least pause after a round without progress, as a multiple of the round's
// time. While a row is locked, all other items have three quarters of the time.
const restPerRoundTime = 3

// manyItems is the number of items in a write from which on it is worth waiting for more: the
// fixed cost of a transaction is then the smaller part.
const manyItems = 16

// fillGroup adds to the group the items that have arrived, or that arrive while the group may
// linger.
func (w *worker[T]) fillGroup(group []item[T]) []item[T] {
	now := time.Now()
	until, busy := now.Add(w.settings.Linger), w.busyUntil.After(now)
	if busy {
		until = w.busyUntil
	}
	linger := time.NewTimer(until.Sub(now))
	defer linger.Stop()
	counted := 0 // number of items in the group that were counted
	for wait, size := w.rules.mayLinger(&group[0].value), 0; len(group) < w.settings.MaxItems; {
		if size += w.sizeOf(group[counted:]); w.settings.MaxBytes > 0 && size >= w.settings.MaxBytes {
			return group
		}
		counted = len(group)
		a, ok := w.nextArrival(wait || busy, linger.C)
		if !ok {
			return group
		}
		wait = wait && w.rules.mayLinger(&a.first)
		group = appendAll(group, a)
	}
	return group
}

// groupLength returns how many of the first items may form one group. It is at least one if there
// are any.
func (w *worker[T]) groupLength(items []item[T]) (n int) {
	size, most := 0, max(1, w.settings.MaxItems)
	for ; n < min(len(items), most); n++ {
		size += w.sizeOf(items[n : n+1])
		if m := items[n].maxGroup; m > 0 {
			most = min(most, m)
		}
		if n > 0 && (n >= most || w.settings.MaxBytes > 0 && size > w.settings.MaxBytes) {
			break
		}
	}
	return n
}

func (w *worker[T]) sizeOf(items []item[T]) (n int) {
	for i := range items {
		n += w.rules.size(&items[i].value)
	}
	return n
}

func appendAll[T any](group []item[T], a arrival[T]) []item[T] {
	group = append(group, item[T]{value: a.first})
	for _, of := range a.rest {
		group = append(group, item[T]{value: of})
	}
	return group
}

// nextArrival returns items that have arrived, or arrive before the wait ends; ok is false if
// there are none.
func (w *worker[T]) nextArrival(wait bool, end <-chan time.Time) (a arrival[T], ok bool) {
	select {
	case a, ok = <-w.arrivals:
		return a, ok
	default:
	}
	if wait {
		select {
		case a, ok = <-w.arrivals:
		case <-end:
		}
	}
	return a, ok
}

// writeAll writes items in groups of allowed size. It splits a group that fails, so that a bad row
// does not delay the others. It splits into halves only, since in an outage every row fails and
// more splits would add to the load. It returns the items that are to be repeated.
func (w *worker[T]) writeAll(ctx context.Context, items []item[T]) (again []item[T]) {
	for len(items) > 0 {
		n := w.groupLength(items)
		again = append(again, w.split(ctx, items[:n], 1, w.settings.Timeout, time.Time{})...)
		items = items[n:]
	}
	return again
}

// minRetryTimeout is the shortest time limit of a repeated write, where Timeout is not shorter.
const minRetryTimeout = 250 * time.Millisecond

// retryTimeout returns the time limit of a repeated write.
func (w *worker[T]) retryTimeout() time.Duration {
	return max(w.settings.Timeout/16, min(w.settings.Timeout, minRetryTimeout))
}

// repeat makes one round of repeated writes. It splits a group that fails, down to single rows. It
// begins no write after the round's time, so a write that hangs ends the round. Items that were
// not tried are the first of the next round. repeat gives up items that are too old.
func (w *worker[T]) repeat(ctx context.Context, items []item[T]) (left []item[T]) {
	w.stuckErrors, w.madeProgress = nil, false
	end := time.Now().Add(w.retryTimeout())
	var failed []item[T]
	for len(items) > 0 && time.Now().Before(end) {
		n := w.groupLength(items)
		failed = append(failed, w.split(ctx, items[:n], n, w.retryTimeout(), end)...)
		items = items[n:]
	}
	left, behind := w.takeStuck(slices.Clone(items))
	left = append(append(left, failed...), behind...)
	left = w.dropOld(left)
	w.stuckErrors = nil
	w.markStuck(left)
	return left
}

// markStuck notes that later items about the same batches must wait.
func (w *worker[T]) markStuck(items []item[T]) {
	for i := range items {
		if w.stuckErrors == nil {
			w.stuckErrors = map[batch.Key]error{}
		}
		w.stuckErrors[w.rules.key(&items[i].value)] = items[i].firstErr
	}
}

// takeStuck removes from a group the items about batches with a failed item.
func (w *worker[T]) takeStuck(group []item[T]) (now, behind []item[T]) {
	if len(w.stuckErrors) == 0 {
		return group, nil
	}
	now = group[:0]
	for _, it := range group {
		err, ok := w.stuckErrors[w.rules.key(&it.value)]
		if !ok {
			now = append(now, it)
			continue
		}
		if it.giveUpAt.IsZero() {
			it.giveUpAt, it.firstErr = time.Now().Add(w.settings.RetryFor), err
		}
		behind = append(behind, it)
	}
	return now, behind
}

// split writes a group and, if that fails, its parts. After end, unless end is zero, it begins no
// further write after a failure. It returns the items that are to be repeated.
func (w *worker[T]) split(ctx context.Context, group []item[T], splits int, timeout time.Duration, end time.Time) (again []item[T]) {
	if group, again = w.takeStuck(group); len(group) == 0 {
		return again
	}
	w.itemsMemory = w.itemsMemory[:0]
	for i := range group {
		group[i].firstErr = nil
		w.itemsMemory = append(w.itemsMemory, group[i].value)
	}
	if err := w.writeOnce(ctx, w.itemsMemory, timeout); err != nil {
		late := !end.IsZero() && !time.Now().Before(end)
		for i := range group { // the write may have been committed nevertheless, so the halves are repetitions, too
			group[i].wasTried, group[i].firstErr = true, err
			if late {
				group[i].maxGroup = max(1, len(group)/16)
			}
		}
		w.madeProgress = w.madeProgress || late && len(group) > 1
		if len(group) == 1 || splits == 0 || late {
			return append(again, w.markFailed(group, err)...)
		}
		half := len(group) / 2
		again = append(again, w.split(ctx, group[:half], splits-1, w.retryTimeout(), end)...)
		return append(again, w.split(ctx, group[half:], splits-1, w.retryTimeout(), end)...)
	}
	w.madeProgress = true
	w.rules.onDone(group)
	return again
}

func (w *worker[T]) writeOnce(ctx context.Context, items []T, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return w.rules.write(ctx, items)
}

// markFailed marks items for another try.
func (w *worker[T]) markFailed(group []item[T], err error) []item[T] {
	w.rules.onTrouble(fmt.Errorf("write about %d batches: %w", len(group), err))
	until := time.Now().Add(w.settings.RetryFor)
	for i := range group {
		if group[i].giveUpAt.IsZero() {
			group[i].giveUpAt = until
		}
	}
	w.markStuck(group)
	return slices.Clone(group) // the next group uses the memory of this one
}

// dropOld returns the items that are not too old.
func (w *worker[T]) dropOld(items []item[T]) (keep []item[T]) {
	now := time.Now()
	var lost []item[T]
	keep = items[:0]
	for _, it := range items {
		if now.Before(it.giveUpAt) {
			keep = append(keep, it)
		} else {
			lost = append(lost, it)
		}
	}
	if len(lost) > 0 {
		w.rules.onLost(lost)
	}
	return keep
}
