package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// vitals is how the calls of one Run went: of its store, of its ledger, and of each loop.
type vitals struct {
	mu            sync.Mutex
	store, ledger part
	loops         map[string]*part
	streams       map[batch.ServiceID]*stream
}

func newVitals() *vitals {
	v := &vitals{loops: map[string]*part{}, streams: map[batch.ServiceID]*stream{}}
	v.ledger.patient = true
	return v
}

// look fills in what is known of the parts.
func (v *vitals) look(now time.Time, h *Health) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.Store, h.Ledger = v.store.look(now), v.ledger.look(now)
	h.Loops = make(map[string]PartHealth, len(v.loops))
	for name, p := range v.loops {
		h.Loops[name] = p.look(now)
	}
	for s, st := range v.streams {
		h.Streams = worse(h.Streams, st.look())
		if !st.lost.IsZero() {
			h.LostStreams = append(h.LostStreams, s)
		}
	}
	slices.Sort(h.LostStreams)
}

// worse is two parts as one: it fails since the one has failed that does so for longer.
func worse(a, b PartHealth) PartHealth {
	last := a.LastSuccess
	if b.LastSuccess.After(last) {
		last = b.LastSuccess
	}
	failures := a.Failures + b.Failures
	if b.Condition > a.Condition || b.Condition == ConditionFailing && b.FailingSince.Before(a.FailingSince) {
		a = b
	}
	a.LastSuccess, a.Failures = last, failures
	return a
}

// silence is for how long calls may be under way without an answer to any of them before
// that counts as a failure: a database that is frozen refuses nothing.
const silence = 3 * time.Second

var errSilent = errors.New("no answer")

// part is how the calls of something went.
type part struct {
	patient bool      // its calls may take as long as their own time limits
	under   int       // calls under way
	since   time.Time // when the first of those began, or the last answer came, if later
	success time.Time
	failing time.Time // when the first call that failed after that was begun
	failed  time.Time // when the last one ended
	n       int
	err     error
}

func (p *part) begin(now time.Time) {
	if p.under++; p.under == 1 {
		p.since = now
	}
}

// end takes note of how a call went that began then. One that was broken off tells nothing.
func (p *part) end(began, now time.Time, err error, brokenOff bool) {
	p.under--
	switch {
	case brokenOff:
	case err == nil:
		p.since, p.success = now, now
		p.failing, p.n, p.err = time.Time{}, 0, nil
	default:
		p.since = now
		if p.failing.IsZero() || now.Sub(p.failed) >= HealthMemory {
			p.failing, p.n = began, 0
		}
		p.failed, p.err = now, err
		p.n++
	}
}

func (p *part) look(now time.Time) PartHealth {
	h := PartHealth{LastSuccess: p.success}
	switch {
	case !p.failing.IsZero() && (p.under > 0 || now.Sub(p.failed) < HealthMemory):
		h.Condition, h.FailingSince, h.Failures, h.Err = ConditionFailing, p.failing, p.n, p.err
	case !p.patient && p.under > 0 && now.Sub(p.since) >= silence:
		h.Condition, h.FailingSince, h.Failures = ConditionFailing, p.since, p.under
		h.Err = fmt.Errorf("%w for %s", errSilent, now.Sub(p.since).Round(time.Millisecond))
	case p.failing.IsZero() && !p.success.IsZero():
		h.Condition = ConditionOK
	}
	return h
}

// call takes note of a call of the store or of the ledger by a loop.
func (v *vitals) call(ctx context.Context, whole *part, loop string, f func() error) {
	began := time.Now()
	v.mu.Lock()
	own := v.loops[loop]
	if own == nil {
		own = &part{patient: whole.patient}
		v.loops[loop] = own
	}
	whole.begin(began)
	own.begin(began)
	v.mu.Unlock()
	err := errPanicked // unless it comes back
	defer func() {
		now := time.Now()
		brokenOff := errors.Is(ctx.Err(), context.Canceled)
		v.mu.Lock()
		defer v.mu.Unlock()
		whole.end(began, now, err, brokenOff)
		own.end(began, now, err, brokenOff)
	}()
	err = f()
}

var errPanicked = errors.New("panic")

// watchedStore is the store as one loop uses it.
type watchedStore struct {
	store.Store
	v    *vitals
	loop string
}

// watch calls the store. That what it was given makes no sense, or is not there, is an answer.
func watch[T any](ctx context.Context, w watchedStore, f func() (T, error)) (got T, err error) {
	w.v.call(ctx, &w.v.store, w.loop, func() error {
		got, err = f()
		if errors.Is(err, batch.ErrInvalidInput) || errors.Is(err, batch.ErrNotFound) {
			return nil
		}
		return err
	})
	return got, err
}

func (w watchedStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return watch(ctx, w, func() ([]batch.ServiceID, error) { return w.Store.Lanes(ctx, q) })
}

func (w watchedStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return watch(ctx, w, func() (store.Claimed, error) { return w.Store.Claim(ctx, q, choose) })
}

func (w watchedStore) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	return watch(ctx, w, func() ([][]byte, error) { return w.Store.Payloads(ctx, refs) })
}

func (w watchedStore) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	return watch(ctx, w, func() ([]bool, error) { return w.Store.KeepPrepared(ctx, kept) })
}

func (w watchedStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	return watch(ctx, w, func() ([]store.Applied, error) { return w.Store.Record(ctx, outcomes) })
}

func (w watchedStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	return watch(ctx, w, func() ([]store.InFlight, error) { return w.Store.Pending(ctx, q) })
}

func (w watchedStore) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	return watch(ctx, w, func() ([]batch.ID, error) { return w.Store.Witnesses(ctx, ref, limit) })
}

func (w watchedStore) Checked(ctx context.Context, due []store.Due) error {
	_, err := watch(ctx, w, func() (struct{}, error) { return struct{}{}, w.Store.Checked(ctx, due) })
	return err
}

func (w watchedStore) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	return watch(ctx, w, func() (store.Pruned, error) { return w.Store.Prune(ctx, q) })
}
