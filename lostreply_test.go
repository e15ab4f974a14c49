package dltbatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// losing is a store that carries out one write and loses its reply: the first write with an
// outcome that the test chose.
type losing struct {
	flaky.Store
	of   func(store.Outcome) bool
	lost atomic.Bool
}

func newLosing(of func(store.Outcome) bool) *losing {
	return &losing{Store: flaky.Store{Store: memory.New(), Faults: flaky.New(1, 1)}, of: of}
}

func (s *losing) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	if slices.ContainsFunc(all, s.of) && s.lost.CompareAndSwap(false, true) {
		s.Faults.FailNext("Record", true)
	}
	return s.Store.Record(ctx, all)
}

func commits(id batch.ID) func(store.Outcome) bool {
	return func(o store.Outcome) bool { return o.Key.ID == id && o.Finding == store.IsCommitted }
}

// refusing is a teller that refuses one batch, and is always busy for another.
type refusing struct{ *teller }

func (l refusing) Submit(ctx context.Context, a batch.Attempt) error {
	switch a.ID {
	case "bad":
		return &dlt.Error{Kind: dlt.ErrRejected, Message: "refused"}
	case "busy":
		return dlt.ErrBusy
	}
	return l.teller.Submit(ctx, a)
}

// kinds returns the kinds of the events about a batch.
func (e *events) kinds(b batch.Batch, kinds ...batch.EventKind) (seen []batch.EventKind) {
	for _, kind := range kinds {
		for _, ev := range e.of(kind) {
			if ev.Key == b.Key() {
				seen = append(seen, kind)
			}
		}
	}
	return seen
}

// A Rejected batch is committed after all, and the store's reply is lost: the breach is reported.
// The commit of a batch for which the ledger was too busy, or that was never posted, is not a
// breach.
func TestABreachIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	for _, id := range []batch.ID{"bad", "busy", "waiting"} {
		synctest.Test(t, func(t *testing.T) {
			l := &teller{Ledger: ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{
				Name: "test", ResendHarmlessFor: dlt.Forever, Streams: true,
			}}), told: make(chan batch.ID, 10)}
			st, seen := newLosing(commits(id)), &events{}
			r := started(t, st, refusing{l}, &dltbatch.Options{Observer: seen})
			first, bad, busy, waiting := one("s", "first"), one("s", "bad"), one("s", "busy"), one("s", "waiting")
			require.NoError(t, r.Add(t.Context(), first, bad))
			await(t, r, first)
			require.Equal(t, batch.Rejected, await(t, r, bad).State)
			require.NoError(t, r.Add(t.Context(), busy))
			time.Sleep(5 * time.Second)
			_, err := r.Pause(t.Context(), batch.Only("s"), somebody)
			require.NoError(t, err)
			require.NoError(t, r.Add(t.Context(), waiting))
			time.Sleep(2 * time.Minute) // nothing is claimed meanwhile
			l.told <- "bad"
			l.told <- "busy"
			l.told <- "waiting"
			time.Sleep(5 * time.Second)
			require.True(t, st.lost.Load())
			for b, want := range map[*batch.Batch][]batch.EventKind{
				&bad:     {batch.EventOrderBreach, batch.EventFinal},
				&busy:    {batch.EventFinal},
				&waiting: {batch.EventFinal},
			} {
				rec, err := r.Get(t.Context(), b.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State)
				assert.Equal(t, want, seen.kinds(*b, batch.EventOrderBreach, batch.EventFinal), "%s, lost: %s", b.ID, id)
			}
			if id == "bad" {
				if breach := seen.of(batch.EventOrderBreach); assert.Len(t, breach, 1) {
					assert.ErrorContains(t, breach[0].Err, "answer was lost")
				}
			}
		})
	}
}

// A batch ends, the policy halts the lane, and the store's reply is lost: the halt is reported.
func TestAHaltIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	for policy, want := range map[batch.Policy][]batch.EventKind{
		batch.PolicyHalt:       {batch.EventFinal, batch.EventHalted},
		batch.PolicyQuarantine: {batch.EventFinal, batch.EventQuarantined},
		batch.PolicyContinue:   {batch.EventFinal},
	} {
		synctest.Test(t, func(t *testing.T) {
			st, seen := newLosing(func(o store.Outcome) bool { return o.Finding == store.Refused }), &events{}
			ledger, _ := refuse("bad")
			r := started(t, st, ledger, &dltbatch.Options{Observer: seen, Policy: policy})
			bad := one("s", "bad")
			require.NoError(t, r.Add(t.Context(), bad))
			assert.Equal(t, batch.Rejected, await(t, r, bad).State)
			time.Sleep(5 * time.Second)
			require.True(t, st.lost.Load())
			assert.Equal(t, want, seen.kinds(bad, batch.EventFinal, batch.EventHalted, batch.EventQuarantined), policy)
		})
	}
}

// If the ledger took executions back, the lane is halted. This halt is reported although the
// store's reply is lost, and Health names the lane.
func TestAHaltByTheLedgerIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &divided{posts: map[batch.ID][]time.Time{}, whole: map[batch.ServiceID]bool{}}
		st, seen := newLosing(func(o store.Outcome) bool { return o.Halt != "" }), &events{}
		r := started(t, st, ledger, &dltbatch.Options{Observer: seen})
		a := one("s", "a")
		a.Budget = batch.Budget{Attempts: 9, EveryTry: true}
		require.NoError(t, r.Add(t.Context(), a))
		time.Sleep(time.Hour)
		require.True(t, st.lost.Load())
		if halts := seen.of(batch.EventHalted); assert.Len(t, halts, 1) {
			assert.ErrorContains(t, halts[0].Err, "the nodes of this circuit disagree")
		}
		assert.Equal(t, []batch.ServiceID{"s"}, r.Health().HaltedServices)
	})
}

// A strategy relies on the ledger's order, an Invalid batch is executed after all, and the store's
// reply is lost: the breach is reported.
func TestAnInvalidThatCommitsIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := invalidFirst(30*time.Second, "01")
		st, seen := newLosing(commits("01")), &events{}
		r := newRunner(t, st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen})
		ids := lane(t, r, "s", 6)
		keepRunning(t, r)
		idle(t, r)
		require.True(t, st.lost.Load())
		if breach := seen.of(batch.EventOrderBreach); assert.Len(t, breach, 1) {
			assert.Equal(t, ids[1], breach[0].Key.ID)
			assert.ErrorContains(t, breach[0].Err, "behind 02")
		}
	})
}

// The ledger cannot take a batch for too long, and the store's reply to the outcome with that
// finding is lost: a person is asked nevertheless.
func TestADecisionIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.NotYet}
		}})
		begin := time.Now()
		st := newLosing(func(o store.Outcome) bool {
			return o.StuckAfter > 0 && time.Since(begin) > time.Hour
		})
		seen := &events{}
		r := started(t, st, ledger, &dltbatch.Options{Observer: seen, StuckAfter: time.Hour})
		a := one("s", "a")
		require.NoError(t, r.Add(t.Context(), a))
		time.Sleep(3 * time.Hour)
		require.True(t, st.lost.Load())
		if asked := seen.of(batch.EventDecision); assert.Len(t, asked, 1) {
			assert.ErrorContains(t, asked[0].Err, "not its turn")
		}
	})
}

// cutOff is a process's connection to the store. It is cut after the first write whose outcome the
// test chose: the reply to that write is lost, and every call fails until the connection is
// mended.
type cutOff struct {
	store.Store
	after func(store.Applied) bool
	down  atomic.Bool
	cut   chan struct{}
	once  sync.Once
}

var errCutOff = errors.New("cut off")

func (c *cutOff) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if c.down.Load() {
		return nil, errCutOff
	}
	a, err := c.Store.Record(ctx, o)
	if slices.ContainsFunc(a, c.after) {
		c.once.Do(func() {
			c.down.Store(true)
			close(c.cut)
		})
	}
	if c.down.Load() {
		return nil, errCutOff
	}
	return a, err
}

func (c *cutOff) Claim(ctx context.Context, q store.ClaimQuery, f store.Choose) (store.Claimed, error) {
	if c.down.Load() {
		return store.Claimed{}, errCutOff
	}
	return c.Store.Claim(ctx, q, f)
}

func (c *cutOff) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if c.down.Load() {
		return nil, errCutOff
	}
	return c.Store.Pending(ctx, q)
}

// A batch needs a decision, the store's reply to that outcome is lost, and another process changes
// the batch before the write is repeated: a person is asked nevertheless.
func TestADecisionIsReportedAlthoughTheBatchMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		way := &cutOff{Store: st, after: func(a store.Applied) bool { return a.Stuck }, cut: make(chan struct{})}
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.NotYet}
		}})
		o := dltbatch.Options{StuckAfter: 10 * time.Second, Retry: dltbatch.RetryPolicy{Delay: time.Second, MaxDelay: time.Second}}
		first, other := &events{}, &events{}
		ours, others := o, o
		ours.Observer, others.Observer = first, other
		r, r2 := newRunner(t, way, ledger, &ours), newRunner(t, st, ledger, &others)
		stop := running(t, r)
		require.NoError(t, r.Add(t.Context(), one("s", "a")))
		<-way.cut
		stop2 := running(t, r2)
		time.Sleep(20 * time.Second)
		way.down.Store(false)
		time.Sleep(time.Hour)
		assert.Len(t, append(first.of(batch.EventDecision), other.of(batch.EventDecision)...), 1)
		require.NoError(t, stop())
		require.NoError(t, stop2())
	})
}

// A batch ends and halts its lane, the store's reply is lost, and a person requeues the batch
// before the write is repeated: the end and the halt are both reported.
func TestAnEndAndAHaltAreReportedAlthoughTheBatchMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		way := &cutOff{Store: st, after: func(a store.Applied) bool { return a.Row.State == batch.Rejected }, cut: make(chan struct{})}
		seen := &events{}
		ledger, _ := refuse("a")
		r := started(t, way, ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyHalt})
		a := one("s", "a")
		require.NoError(t, r.Add(t.Context(), a))
		<-way.cut
		rec, err := st.Get(t.Context(), a.Key())
		require.NoError(t, err)
		_, err = newRunner(t, st, ledger, nil).Requeue(t.Context(), rec, somebody)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		way.down.Store(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.EventKind{batch.EventFinal, batch.EventHalted}, seen.kinds(a, batch.EventFinal, batch.EventHalted))
		if final := seen.of(batch.EventFinal); assert.NotEmpty(t, final) {
			assert.Equal(t, batch.Rejected, final[0].State)
		}
	})
}
