package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/claim"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

var errStore = errors.New("database down")

// claimCall is one call of Claim.
type claimCall struct {
	sentAfter time.Duration // time since the start
	lanes     []batch.ServiceID
	limit     int
}

// claimTest is a store and a submitter that answer by its funcs, and keep a journal. A func that
// is nil stands for the usual answer.
type claimTest struct {
	startedAt time.Time
	lanes     []batch.ServiceID // the lanes with open batches, in order

	claim     func(q store.ClaimQuery, choose store.Choose) (store.Claimed, error)
	payloads  func(refs []store.Ref) ([][]byte, error)
	list      func(q store.LanesQuery) ([]batch.ServiceID, error)
	room      func() (int, time.Duration)
	closedFor func(batch.ServiceID) time.Duration

	mu         sync.Mutex
	scans      []store.LanesQuery
	calls      []claimCall
	posted     []post
	returned   []store.Claim
	claims     int
	heldErrors []error
	troubles   []error
}

type post struct {
	postedAfter, untilAfter time.Duration
	ids                     []batch.ID
	payloads                []string
}

func (w *claimTest) now() time.Duration { return time.Since(w.startedAt) }

// locked reads a value of the journal under the lock.
func locked[T any](w *claimTest, f func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *claimTest) claimCalls() []claimCall {
	return locked(w, func() []claimCall { return slices.Clone(w.calls) })
}
func (w *claimTest) posts() []post { return locked(w, func() []post { return slices.Clone(w.posted) }) }

// askTimes returns the times at which a lane was part of a claim.
func (w *claimTest) askTimes(s batch.ServiceID) (at []time.Duration) {
	for _, c := range w.claimCalls() {
		if slices.Contains(c.lanes, s) {
			at = append(at, c.sentAfter)
		}
	}
	return at
}

func (w *claimTest) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	w.mu.Lock()
	w.scans = append(w.scans, q)
	w.mu.Unlock()
	if w.list != nil {
		return w.list(q)
	}
	var out []batch.ServiceID
	for _, s := range w.lanes {
		if (q.Start || s > q.After) && len(out) < q.Limit {
			out = append(out, s)
		}
	}
	return out, ctx.Err()
}

func (w *claimTest) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return store.Claimed{}, err
	}
	w.mu.Lock()
	w.calls = append(w.calls, claimCall{w.now(), slices.Clone(q.Lanes), q.Limit})
	w.mu.Unlock()
	if w.claim != nil {
		c, err := w.claim(q, choose)
		return c, errors.Join(err, ctx.Err())
	}
	return store.Claimed{}, nil
}

func (w *claimTest) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.payloads != nil {
		return w.payloads(refs)
	}
	var out [][]byte
	for _, r := range refs {
		out = append(out, []byte("payload of "+r.Key.ID))
	}
	return out, nil
}

func (w *claimTest) Room() (int, time.Duration) {
	if w.room != nil {
		return w.room()
	}
	return 100, 0
}

func (w *claimTest) Closed(s batch.ServiceID) time.Duration {
	if w.closedFor != nil {
		return w.closedFor(s)
	}
	return 0
}

func (w *claimTest) Post(r store.ClaimedRun, payloads [][]byte, until time.Time) {
	p := post{postedAfter: w.now(), untilAfter: until.Sub(w.startedAt)}
	for i, c := range r.Batches {
		p.ids = append(p.ids, c.Key.ID)
		p.payloads = append(p.payloads, string(payloads[i]))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posted = append(w.posted, p)
}

func (w *claimTest) Return(claims []store.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned = append(w.returned, claims...)
}

// queuerTest is a queuer with its table of lanes.
type queuerTest struct {
	*claim.Queuer
	*lanes.Table
}

func (q *queuerTest) Hint(lanes ...batch.ServiceID)                { q.Free(time.Now(), lanes...) }
func (q *queuerTest) HintIn(lane batch.ServiceID, d time.Duration) { q.Free(time.Now().Add(d), lane) }

// start runs a queuer as the Runner does, until the test ends.
func (w *claimTest) start(t *testing.T, change func(*claim.Options)) (*queuerTest, context.CancelFunc) {
	w.startedAt = time.Now()
	o := claim.Options{
		Strategy: queuer.Serial(), Query: store.ClaimQuery{TTL: claimTTL}, Margin: claimMargin, ScanInterval: scan, Rest: func() time.Duration { return 0 }, BusyRest: scan, LanesPerScan: 3, LanesPerClaim: 100,
		Held: func(_ batch.ServiceID, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heldErrors = append(w.heldErrors, err)
		},
		Trouble: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, err)
		},
		Claimed: func(_ context.Context, r store.ClaimedRun) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claims += len(r.Batches)
		},
	}
	if change != nil {
		change(&o)
	}
	o.Query.Window = o.Strategy.Window
	table := lanes.New(max(1, o.LanesPerClaim/2))
	q := claim.New(w, w, table, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		loop.Run(ctx, func(ctx context.Context) error { q.Run(ctx); return nil }, func(error) {})
	}()
	return &queuerTest{q, table}, func() {
		cancel()
		<-done
	}
}

func serviceNames(n int) (out []batch.ServiceID) {
	for i := range n {
		out = append(out, batch.ServiceID(fmt.Sprintf("s%02d", i)))
	}
	return out
}

func claimedRun(service batch.ServiceID, ids ...batch.ID) store.ClaimedRun {
	r := store.ClaimedRun{Service: service}
	for _, id := range ids {
		r.Batches = append(r.Batches, store.Claim{Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 2, From: batch.Queued, Attempt: 1})
	}
	return r
}

// answerOnce answers the first claim with c, and later claims with nothing.
func answerOnce(c store.Claimed) func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
	first := true
	return func(store.ClaimQuery, store.Choose) (store.Claimed, error) {
		if first {
			first = false
			return c, nil
		}
		return store.Claimed{}, nil
	}
}

// strategyOf makes a strategy of a func.
func strategyOf(sel func(batch.Lane) []batch.Run) queuer.Strategy {
	return queuer.Strategy{Name: "own", Window: 10, Select: sel}
}
