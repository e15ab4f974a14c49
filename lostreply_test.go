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

// lostReplyStore is a store that carries out one write and loses its reply: the first write with
// an outcome that the test chose.
type lostReplyStore struct {
	flaky.Store
	isChosen     func(store.Outcome) bool
	replyWasLost atomic.Bool
}

func newLostReplyStore(of func(store.Outcome) bool) *lostReplyStore {
	return &lostReplyStore{Store: flaky.Store{Store: memory.New(), Faults: flaky.New(1, 1)}, isChosen: of}
}

func (s *lostReplyStore) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	if slices.ContainsFunc(all, s.isChosen) && s.replyWasLost.CompareAndSwap(false, true) {
		s.Faults.FailNext("Record", true)
	}
	return s.Store.Record(ctx, all)
}

func isCommitOf(id batch.ID) func(store.Outcome) bool {
	return func(o store.Outcome) bool { return o.Key.ID == id && o.Finding == store.IsCommitted }
}

// refusingEventLedger is an eventLedger that refuses one batch, and is always busy for another.
type refusingEventLedger struct{ *eventLedger }

func (l refusingEventLedger) Submit(ctx context.Context, a batch.Attempt) error {
	switch a.ID {
	case "bad":
		return &dlt.Error{Kind: dlt.ErrRejected, Message: "refused"}
	case "busy":
		return dlt.ErrBusy
	}
	return l.eventLedger.Submit(ctx, a)
}

// kindsOf returns the kinds of the events about a batch.
func (e *eventRecorder) kindsOf(b batch.Batch, kindsOf ...batch.EventKind) (seen []batch.EventKind) {
	for _, kind := range kindsOf {
		for _, ev := range e.ofKind(kind) {
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
			l := &eventLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{
				Name: "test", ResendHarmlessFor: dlt.Forever, Streams: true,
			}}), committedIDs: make(chan batch.ID, 10)}
			st, seen := newLostReplyStore(isCommitOf(id)), &eventRecorder{}
			r := newStartedRunner(t, st, refusingEventLedger{l}, &dltbatch.Options{Observer: seen})
			first, bad, busy, waiting := newBatch("s", "first"), newBatch("s", "bad"), newBatch("s", "busy"), newBatch("s", "waiting")
			require.NoError(t, r.Add(t.Context(), first, bad))
			awaitFinal(t, r, first)
			require.Equal(t, batch.Rejected, awaitFinal(t, r, bad).State)
			require.NoError(t, r.Add(t.Context(), busy))
			time.Sleep(5 * time.Second)
			_, err := r.Pause(t.Context(), batch.Only("s"), somebody)
			require.NoError(t, err)
			require.NoError(t, r.Add(t.Context(), waiting))
			time.Sleep(2 * time.Minute) // nothing is claimed meanwhile
			l.committedIDs <- "bad"
			l.committedIDs <- "busy"
			l.committedIDs <- "waiting"
			time.Sleep(5 * time.Second)
			require.True(t, st.replyWasLost.Load())
			for b, want := range map[*batch.Batch][]batch.EventKind{
				&bad:     {batch.EventOrderBreach, batch.EventFinal},
				&busy:    {batch.EventFinal},
				&waiting: {batch.EventFinal},
			} {
				rec, err := r.Get(t.Context(), b.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State)
				assert.Equal(t, want, seen.kindsOf(*b, batch.EventOrderBreach, batch.EventFinal), "%s, lost: %s", b.ID, id)
			}
			if id == "bad" {
				if breach := seen.ofKind(batch.EventOrderBreach); assert.Len(t, breach, 1) {
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
			st, seen := newLostReplyStore(func(o store.Outcome) bool { return o.Finding == store.Refused }), &eventRecorder{}
			ledger, _ := newRefusingLedger("bad")
			r := newStartedRunner(t, st, ledger, &dltbatch.Options{Observer: seen, Policy: policy})
			bad := newBatch("s", "bad")
			require.NoError(t, r.Add(t.Context(), bad))
			assert.Equal(t, batch.Rejected, awaitFinal(t, r, bad).State)
			time.Sleep(5 * time.Second)
			require.True(t, st.replyWasLost.Load())
			assert.Equal(t, want, seen.kindsOf(bad, batch.EventFinal, batch.EventHalted, batch.EventQuarantined), policy)
		})
	}
}

// If the ledger took executions back, the lane is halted. This halt is reported although the
// store's reply is lost, and Health names the lane.
func TestAHaltByTheLedgerIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &dividedLedger{postTimes: map[batch.ID][]time.Time{}, isWhole: map[batch.ServiceID]bool{}}
		st, seen := newLostReplyStore(func(o store.Outcome) bool { return o.Halt != "" }), &eventRecorder{}
		r := newStartedRunner(t, st, ledger, &dltbatch.Options{Observer: seen})
		a := newBatch("s", "a")
		a.Budget = batch.Budget{Attempts: 9, EveryTry: true}
		require.NoError(t, r.Add(t.Context(), a))
		time.Sleep(time.Hour)
		require.True(t, st.replyWasLost.Load())
		if halts := seen.ofKind(batch.EventHalted); assert.Len(t, halts, 1) {
			assert.ErrorContains(t, halts[0].Err, "the nodes of this circuit disagree")
		}
		assert.Equal(t, []batch.ServiceID{"s"}, r.Health().HaltedServices)
	})
}

// A strategy relies on the ledger's order, an Invalid batch is executed after all, and the store's
// reply is lost: the breach is reported.
func TestAnInvalidThatCommitsIsReportedAlthoughTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := invalidFirstLedger(30*time.Second, "01")
		st, seen := newLostReplyStore(isCommitOf("01")), &eventRecorder{}
		r := newRunner(t, st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen})
		ids := addLane(t, r, "s", 6)
		keepRunning(t, r)
		waitIdle(t, r)
		require.True(t, st.replyWasLost.Load())
		if breach := seen.ofKind(batch.EventOrderBreach); assert.Len(t, breach, 1) {
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
		st := newLostReplyStore(func(o store.Outcome) bool {
			return o.StuckAfter > 0 && time.Since(begin) > time.Hour
		})
		seen := &eventRecorder{}
		r := newStartedRunner(t, st, ledger, &dltbatch.Options{Observer: seen, StuckAfter: time.Hour})
		a := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), a))
		time.Sleep(3 * time.Hour)
		require.True(t, st.replyWasLost.Load())
		if asked := seen.ofKind(batch.EventDecision); assert.Len(t, asked, 1) {
			assert.ErrorContains(t, asked[0].Err, "not its turn")
		}
	})
}

// cutConnection is a process's connection to the store. It is cut after the first write whose
// outcome the test chose: the reply to that write is lost, and every call fails until the
// connection is mended.
type cutConnection struct {
	store.Store
	isLastBeforeCut func(store.Applied) bool
	isDown          atomic.Bool
	cut             chan struct{}
	cutOnce         sync.Once
}

var errCutOff = errors.New("cut off")

func (c *cutConnection) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if c.isDown.Load() {
		return nil, errCutOff
	}
	a, err := c.Store.Record(ctx, o)
	if slices.ContainsFunc(a, c.isLastBeforeCut) {
		c.cutOnce.Do(func() {
			c.isDown.Store(true)
			close(c.cut)
		})
	}
	if c.isDown.Load() {
		return nil, errCutOff
	}
	return a, err
}

func (c *cutConnection) Claim(ctx context.Context, q store.ClaimQuery, f store.Choose) (store.Claimed, error) {
	if c.isDown.Load() {
		return store.Claimed{}, errCutOff
	}
	return c.Store.Claim(ctx, q, f)
}

func (c *cutConnection) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if c.isDown.Load() {
		return nil, errCutOff
	}
	return c.Store.Pending(ctx, q)
}

// A batch needs a decision, the store's reply to that outcome is lost, and another process changes
// the batch before the write is repeated: a person is asked nevertheless.
func TestADecisionIsReportedAlthoughTheBatchMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		way := &cutConnection{Store: st, isLastBeforeCut: func(a store.Applied) bool { return a.Stuck }, cut: make(chan struct{})}
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.NotYet}
		}})
		o := dltbatch.Options{StuckAfter: 10 * time.Second, Retry: dltbatch.RetryPolicy{Delay: time.Second, MaxDelay: time.Second}}
		first, other := &eventRecorder{}, &eventRecorder{}
		ours, others := o, o
		ours.Observer, others.Observer = first, other
		r, r2 := newRunner(t, way, ledger, &ours), newRunner(t, st, ledger, &others)
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		<-way.cut
		stop2 := startRun(t, r2)
		time.Sleep(20 * time.Second)
		way.isDown.Store(false)
		time.Sleep(time.Hour)
		assert.Len(t, append(first.ofKind(batch.EventDecision), other.ofKind(batch.EventDecision)...), 1)
		require.NoError(t, stop())
		require.NoError(t, stop2())
	})
}

// A batch ends and halts its lane, the store's reply is lost, and a person requeues the batch
// before the write is repeated: the end and the halt are both reported.
func TestAnEndAndAHaltAreReportedAlthoughTheBatchMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		way := &cutConnection{Store: st, isLastBeforeCut: func(a store.Applied) bool { return a.Row.State == batch.Rejected }, cut: make(chan struct{})}
		seen := &eventRecorder{}
		ledger, _ := newRefusingLedger("a")
		r := newStartedRunner(t, way, ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyHalt})
		a := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), a))
		<-way.cut
		rec, err := st.Get(t.Context(), a.Key())
		require.NoError(t, err)
		_, err = newRunner(t, st, ledger, nil).Requeue(t.Context(), rec, somebody)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		way.isDown.Store(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.EventKind{batch.EventFinal, batch.EventHalted}, seen.kindsOf(a, batch.EventFinal, batch.EventHalted))
		if final := seen.ofKind(batch.EventFinal); assert.NotEmpty(t, final) {
			assert.Equal(t, batch.Rejected, final[0].State)
		}
	})
}
