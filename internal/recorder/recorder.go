// Package recorder writes the outcomes of attempts to the store, in groups.
package recorder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that the recorder writes to.
type Store interface {
	Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error)
}

// Options of a recorder; all but MaxBytes must be set.
type Options struct {
	// Linger is how long outcomes wait for others to share a write: outcomes that nobody waits
	// for, and all outcomes while much is written (see [Recorder]).
	Linger time.Duration
	Max    int // outcomes in a group
	// MaxBytes bounds the receipts of a group; one outcome may have more. 0 is no bound.
	MaxBytes int
	// Timeout bounds one write; a write that hangs fails. A write that is repeated has a sixteenth
	// of it, since all other outcomes wait meanwhile.
	Timeout time.Duration
	// Retry is how long a failed write is retried. An outcome that is given up is not lost:
	// its claim or its lease expires, and the monitor asks the ledger.
	Retry time.Duration
	// Done is called with every group after the store has answered about it. It must not keep
	// the slice.
	Done func([]inhand.Recorded)
	// Lost is called with outcomes that were given up. It must not keep the slice.
	Lost func([]store.Outcome)
	// Trouble is called for failed writes.
	Trouble func(error)
}

// Recorder groups outcomes. Put and PutAll may be called concurrently while Run runs.
//
// Outcomes that come while a write is under way share the next write. Beyond that an Accepted
// lingers, since nobody waits for it, and so does every outcome between writes of many
// outcomes: there it costs little and saves much. All other outcomes are written at once.
//
// A row that somebody has locked, or that cannot be written, must not hold up the others: failed
// outcomes are repeated in short rounds, and between two rounds comes the next group. While an
// outcome waits to be repeated, later outcomes about its batch wait behind it: they would hang,
// too, and hold up the outcomes that they share a write with, or overtake it.
type Recorder struct {
	store Store
	o     Options
	in    chan item
	ended chan struct{} // closed when Run returns

	busyUntil time.Time // Run's own: until when all linger, after a write of many
	// Run's own: the batches of which an outcome failed and is to be repeated; nil for none.
	stuck    map[batch.Key]struct{}
	moved    bool   // Run's own: the round was not in vain, it wrote outcomes or made groups smaller
	room     []item // Run's own, like the next two: memory for the next group
	outcomes []store.Outcome
	done     []inhand.Recorded
}

type item struct {
	o       store.Outcome
	rest    []store.Outcome // outcomes that came with it; nil once they are items of their own
	retried bool
	most    int       // outcomes in a group with it, after a repetition that hung; 0 for any number
	until   time.Time // when it is given up; zero before the first failure
}

// New returns a recorder; Run makes it work.
func New(s Store, o Options) *Recorder {
	return &Recorder{store: s, o: o, in: make(chan item, 4*o.Max), ended: make(chan struct{})}
}

// Put hands an outcome over. It waits while the recorder is far behind. Once Run has returned,
// Put does not wait, and the outcome is given up.
func (r *Recorder) Put(o store.Outcome) {
	select {
	case r.in <- item{o: o}:
	case <-r.ended:
	}
}

// PutAll is Put for several outcomes that became known together: up to Max of them are written
// together, and passed to Done as one group. It keeps the slice.
func (r *Recorder) PutAll(all []store.Outcome) {
	if len(all) == 0 {
		return
	}
	select {
	case r.in <- item{o: all[0], rest: all[1:]}:
	case <-r.ended:
	}
}

// Close lets Run end once every outcome is written. No Put may follow.
func (r *Recorder) Close() { close(r.in) }

// Run writes until Close, or until ctx is done, which gives up the outcomes that are left. It
// is called once.
func (r *Recorder) Run(ctx context.Context) {
	defer close(r.ended)
	in := r.in
	pause := loop.Brief()
	var again []item // failed, or behind a failed one, to be written again
	var retry <-chan time.Time
	var hung time.Duration // how long the last round took, if it was in vain
	open := true
	for open || (len(again) > 0 && ctx.Err() == nil) {
		select {
		case it, ok := <-in:
			if open = ok; !ok {
				in = nil // no more comes; only retries are left
				continue
			}
			r.room = r.gather(appendAll(r.room[:0], it))
			again = append(again, r.write(ctx, r.room)...)
			r.busyUntil = time.Time{}
			if len(r.room) >= min(many, r.o.Max) {
				r.busyUntil = time.Now().Add(r.o.Linger)
			}
		case <-retry:
			retry = nil
			began := time.Now()
			if again = r.repeat(ctx, again); r.moved {
				pause.Reset() // the rest is tried soon
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
			retry = time.After(max(pause.NextBackOff(), share*hung))
		}
	}
}

// share is how many times longer than a round in vain the pause after it is at least: while a row
// is locked, all others have three quarters of the time.
const share = 3

// many is the number of outcomes from which on a write is worth waiting for: a transaction's
// fixed cost is then the smaller part.
const many = 16

// lingers reports whether nobody waits for the outcome to be written: the ledger is not asked
// about the batch before Check.
func (it item) lingers() bool { return it.o.Finding == store.Accepted }

// gather fills the group with outcomes that came meanwhile, or come while the group may
// linger.
func (r *Recorder) gather(group []item) []item {
	now := time.Now()
	until, busy := now.Add(r.o.Linger), r.busyUntil.After(now)
	if busy {
		until = r.busyUntil
	}
	linger := time.NewTimer(until.Sub(now))
	defer linger.Stop()
	counted := 0 // of the group
	for wait, size := group[0].lingers(), 0; len(group) < r.o.Max; {
		if size += bytesOf(group[counted:]); r.o.MaxBytes > 0 && size >= r.o.MaxBytes {
			return group
		}
		counted = len(group)
		it, ok := r.next(wait || busy, linger.C)
		if !ok {
			return group
		}
		wait = wait && it.lingers()
		group = appendAll(group, it)
	}
	return group
}

// fits returns how many of the first items may be one group, at least one of any.
func (r *Recorder) fits(items []item) (n int) {
	size := 0
	for ; n < min(len(items), max(1, r.o.Max)); n++ {
		size += bytesOf(items[n : n+1])
		if n > 0 && r.o.MaxBytes > 0 && size > r.o.MaxBytes {
			break
		}
	}
	return n
}

// bytesOf returns the bytes of receipts, which are the only large part of an outcome.
func bytesOf(items []item) (n int) {
	for i := range items {
		for _, c := range items[i].o.Receipts {
			n += len(c.TransactionID) + len(c.Message) + len(c.Data)
		}
	}
	return n
}

// appendAll appends an item and the outcomes that came with it.
func appendAll(group []item, it item) []item {
	rest := it.rest
	it.rest = nil
	group = append(group, it)
	for _, o := range rest {
		group = append(group, item{o: o})
	}
	return group
}

// next returns an item that is there, or comes before a wait ends; ok is false for none.
func (r *Recorder) next(wait bool, end <-chan time.Time) (it item, ok bool) {
	select {
	case it, ok = <-r.in:
		return it, ok
	default:
	}
	if wait {
		select {
		case it, ok = <-r.in:
		case <-end:
		}
	}
	return it, ok
}

// write records items, in groups that fit. It splits a group that fails, so that a bad
// row does not hold up the others: into halves only, since in an outage every row fails and more
// splits would add to the load. It returns the items that are to be repeated.
func (r *Recorder) write(ctx context.Context, items []item) (again []item) {
	for len(items) > 0 {
		n := r.fits(items)
		again = append(again, r.split(ctx, items[:n], 1, r.o.Timeout, time.Time{})...)
		items = items[n:]
	}
	return again
}

// least is the shortest time limit of a repeated write, where Timeout is not shorter.
const least = 250 * time.Millisecond

// brief is the time limit of a repeated write.
func (r *Recorder) brief() time.Duration { return max(r.o.Timeout/16, min(r.o.Timeout, least)) }

// repeat is one round of repetitions. A group that fails is split down to single rows. The round
// begins no write after its time is over: a write that hangs ends it. The items that had no
// turn are the first of the next round. repeat gives up items that are too old.
func (r *Recorder) repeat(ctx context.Context, items []item) (left []item) {
	r.stuck, r.moved = nil, false
	end := time.Now().Add(r.brief())
	var failed []item
	for len(items) > 0 && time.Now().Before(end) {
		n := r.together(items)
		failed = append(failed, r.split(ctx, items[:n], n, r.brief(), end)...)
		items = items[n:]
	}
	left, behind := r.aside(slices.Clone(items))
	left = append(append(left, failed...), behind...)
	left = r.giveUp(left)
	r.stuck = nil
	r.stick(left)
	return left
}

// together returns how many of the first items may share a write.
func (r *Recorder) together(items []item) (n int) {
	most := r.fits(items)
	for ; n < most; n++ {
		if m := items[n].most; m > 0 && m < most {
			if most = m; n >= most {
				break
			}
		}
	}
	return n
}

// stick notes that later outcomes about the items' batches must wait.
func (r *Recorder) stick(items []item) {
	for i := range items {
		if r.stuck == nil {
			r.stuck = map[batch.Key]struct{}{}
		}
		r.stuck[items[i].o.Key] = struct{}{}
	}
}

// aside takes the items about batches that are stuck out of a group.
func (r *Recorder) aside(group []item) (now, behind []item) {
	if len(r.stuck) == 0 {
		return group, nil
	}
	now = group[:0]
	for _, it := range group {
		if _, ok := r.stuck[it.o.Key]; !ok {
			now = append(now, it)
			continue
		}
		if it.until.IsZero() {
			it.until = time.Now().Add(r.o.Retry)
		}
		behind = append(behind, it)
	}
	return now, behind
}

// split writes a group, and if that fails its parts. After end, unless it is zero, a failure is
// not followed by another write. It returns the items that are to be repeated.
func (r *Recorder) split(ctx context.Context, group []item, splits int, timeout time.Duration, end time.Time) (again []item) {
	if group, again = r.aside(group); len(group) == 0 {
		return again
	}
	outcomes := r.outcomes[:0]
	for i := range group {
		outcomes = append(outcomes, group[i].o)
	}
	r.outcomes = outcomes
	applied, err := r.record(ctx, outcomes, timeout)
	if err != nil {
		late := !end.IsZero() && !time.Now().Before(end)
		for i := range group { // it may have been committed all the same: then the halves are repeats, too
			group[i].retried = true
			if late {
				group[i].most = max(1, len(group)/16)
			}
		}
		r.moved = r.moved || late && len(group) > 1
		if len(group) == 1 || splits == 0 || late {
			return append(again, r.failed(group, err)...)
		}
		half := len(group) / 2
		again = append(again, r.split(ctx, group[:half], splits-1, r.brief(), end)...)
		return append(again, r.split(ctx, group[half:], splits-1, r.brief(), end)...)
	}
	done := r.done[:0]
	for i, a := range applied {
		if a.Result == store.Fenced && group[i].retried && a.Row.Version == outcomes[i].Version+1 {
			// The write before was committed and then failed: it raised the version itself.
			a.Result = store.Written
		}
		done = append(done, inhand.Recorded{Outcome: outcomes[i], Applied: a, Again: group[i].retried})
	}
	r.done, r.moved = done, true
	r.o.Done(done)
	return again
}

func (r *Recorder) record(ctx context.Context, outcomes []store.Outcome, timeout time.Duration) (applied []store.Applied, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = loop.Contain(func() error {
		applied, err = r.store.Record(ctx, outcomes)
		if err == nil && len(applied) != len(outcomes) {
			err = fmt.Errorf("recorder: %d answers to %d outcomes", len(applied), len(outcomes))
		}
		return err
	})
	return applied, err
}

// failed marks items for another try.
func (r *Recorder) failed(group []item, err error) []item {
	r.o.Trouble(fmt.Errorf("record %d outcomes: %w", len(group), err))
	until := time.Now().Add(r.o.Retry)
	for i := range group {
		if group[i].until.IsZero() {
			group[i].until = until
		}
	}
	r.stick(group)
	return slices.Clone(group) // its memory is the next group's
}

// giveUp returns the items that are not too old.
func (r *Recorder) giveUp(items []item) (keep []item) {
	now := time.Now()
	var lost []store.Outcome
	keep = items[:0]
	for _, it := range items {
		if now.Before(it.until) {
			keep = append(keep, it)
		} else {
			lost = append(lost, it.o)
		}
	}
	if len(lost) > 0 {
		r.o.Lost(lost)
	}
	return keep
}
