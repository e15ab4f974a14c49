// Package recorder writes the outcomes of attempts to the store, in groups.
package recorder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the part of a store that the recorder writes to.
type Store interface {
	Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error)
}

// Options of a recorder; all must be set.
type Options struct {
	// Linger is how long outcomes wait for others to share a write: outcomes that nobody waits
	// for, and all outcomes while much is written (see [Recorder]).
	Linger time.Duration
	Max    int // outcomes in a group
	// Timeout bounds one write; a write that hangs fails.
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
type Recorder struct {
	store Store
	o     Options
	in    chan item
	ended chan struct{} // closed when Run returns

	busyUntil time.Time // Run's own: until when all linger, after a write of many
	room      []item    // Run's own, like the next two: memory for the next group
	outcomes  []store.Outcome
	done      []inhand.Recorded
}

type item struct {
	o       store.Outcome
	rest    []store.Outcome // outcomes that came with it; nil once they are items of their own
	retried bool
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
	var again []item // failed, to be written again
	var retry <-chan time.Time
	open := true
	for open || (len(again) > 0 && ctx.Err() == nil) {
		var group []item
		select {
		case it, ok := <-in:
			if open = ok; !ok {
				in = nil // no more comes; only retries are left
				continue
			}
			group = r.gather(appendAll(r.room[:0], it))
			r.room = group
		case <-retry:
			group, again, retry = again, nil, nil
		case <-ctx.Done():
			return
		}
		failed := r.write(ctx, group)
		r.busyUntil = time.Time{}
		if len(group) >= min(many, r.o.Max) {
			r.busyUntil = time.Now().Add(r.o.Linger)
		}
		if len(failed) == 0 {
			pause.Reset()
			continue
		}
		again = append(again, failed...)
		if retry == nil {
			retry = time.After(pause.NextBackOff())
		}
	}
}

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
	for wait := group[0].lingers(); len(group) < r.o.Max; {
		it, ok := r.next(wait || busy, linger.C)
		if !ok {
			return group
		}
		wait = wait && it.lingers()
		group = appendAll(group, it)
	}
	return group
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

// write records items, in groups of at most Max. It splits a group that fails, so that a bad
// row does not hold up the others. The first time it splits into halves only, since in an
// outage every row fails and more splits would add to the load; when the group comes again,
// down to single rows.
func (r *Recorder) write(ctx context.Context, items []item) (failed []item) {
	for group := range slices.Chunk(items, max(1, r.o.Max)) {
		splits := 1
		if group[0].retried {
			splits = len(group)
		}
		failed = append(failed, r.split(ctx, group, splits)...)
	}
	return failed
}

func (r *Recorder) split(ctx context.Context, group []item, splits int) (failed []item) {
	outcomes := r.outcomes[:0]
	for i := range group {
		outcomes = append(outcomes, group[i].o)
	}
	r.outcomes = outcomes
	applied, err := r.record(ctx, outcomes)
	if err != nil {
		for i := range group { // it may have been committed all the same: then the halves are repeats, too
			group[i].retried = true
		}
		if len(group) == 1 || splits == 0 {
			return r.failed(group, err)
		}
		half := len(group) / 2
		left := r.split(ctx, group[:half], splits-1)
		return append(left, r.split(ctx, group[half:], splits-1)...)
	}
	done := r.done[:0]
	for i, a := range applied {
		if a.Result == store.Fenced && group[i].retried && a.Row.Version == outcomes[i].Version+1 {
			// The write before was committed and then failed: it raised the version itself.
			a.Result = store.Written
		}
		done = append(done, inhand.Recorded{Outcome: outcomes[i], Applied: a, Again: group[i].retried})
	}
	r.done = done
	r.o.Done(done)
	return nil
}

func (r *Recorder) record(ctx context.Context, outcomes []store.Outcome) (applied []store.Applied, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
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

// failed marks items for another try and gives up items that are too old.
func (r *Recorder) failed(group []item, err error) []item {
	r.o.Trouble(fmt.Errorf("record %d outcomes: %w", len(group), err))
	now := time.Now()
	keep := make([]item, 0, len(group))
	var lost []store.Outcome
	for _, it := range group {
		if it.until.IsZero() {
			it.until = now.Add(r.o.Retry)
		}
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
