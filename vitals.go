package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/whole"
	"github.com/dltbatch/dltbatch/store"
)

// vitals records how the calls of one Run went: to its store, to its ledger, and of each loop.
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

// look fills in the health of the parts.
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

// worse merges two parts into one: it takes the condition of the part that has failed for
// longer.
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

// silence is how long calls may be in flight without any answer before that counts as a
// failure. A frozen database refuses nothing, so no error would show it.
const silence = 3 * time.Second

var errSilent = errors.New("no answer")

// part records how the calls of one part went.
type part struct {
	patient bool      // its calls may take as long as their own timeouts
	under   int       // calls in flight
	since   time.Time // when the first of these calls began, or the last answer came, if later
	success time.Time
	failing time.Time // when the first failed call since the last success began
	failed  time.Time // when the last failed call ended
	n       int
	err     error
}

func (p *part) begin(now time.Time) {
	if p.under++; p.under == 1 {
		p.since = now
	}
}

// end records the result of a call that started at began. A call that was broken off counts as
// nothing.
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

// call runs f, a loop's call to the store or to the ledger, and records how it went.
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

// watchedStore is the store as one loop uses it: it records how each call went.
type watchedStore struct {
	*whole.Store
	v    *vitals
	loop string
}

// watch calls the store. Invalid input and not found count as answers, not as failures.
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
