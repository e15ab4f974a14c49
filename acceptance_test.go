package dltbatch_test

import (
	"context"
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
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// If the first status query already finds the commit, one write records acceptance and commit
// together. If the query gets no answer, the acceptance is written once the query has taken its
// time.
func TestAQuickCommitIsWrittenWithItsAcceptance(t *testing.T) {
	harmless := &ledgermem.Options{Traits: &dlt.Traits{Name: "test", ResendHarmlessFor: dlt.Forever}}
	synctest.Test(t, func(t *testing.T) {
		r := newStartedRunner(t, unsaltedClaimsStore{memory.New(), new(atomic.Int64)}, ledgermem.New(harmless), nil)
		synctest.Wait() // at its start the Runner may delay the first status query
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, int64(3), awaitFinal(t, r, b).Version, "added, claimed, committed")
	})
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			r := newStartedRunner(t, st, &alwaysPendingLedger{Ledger: ledgermem.New(harmless), statusesHang: hangs}, nil)
			synctest.Wait()
			b := newBatch("s", "a")
			require.NoError(t, r.Add(t.Context(), b))
			time.Sleep(20 * time.Millisecond)
			if hangs {
				time.Sleep(100 * time.Millisecond)
			}
			rec, err := r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			assert.Equal(t, batch.Pending, rec.State, hangs)
		})
	}
}

// heldCommitsStore is a store on which commits wait for ten seconds, as if another process had a
// live claim.
type heldCommitsStore struct {
	store.Store
	holdUntil  time.Time
	heldWrites atomic.Int32
}

func (s *heldCommitsStore) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	if all[0].Finding != store.IsCommitted || !time.Now().Before(s.holdUntil) || s.heldWrites.Load() >= 1000 {
		return s.Store.Record(ctx, all)
	}
	s.heldWrites.Add(1)
	applied := make([]store.Applied, len(all))
	for i := range all {
		applied[i] = store.Applied{Ref: all[i].Ref, Result: store.Held}
	}
	return applied, nil
}

// A process sleeps past the end of its claim, and another process claims the batch. The commit
// that the first process found, and writes together with the acceptance, waits for the second
// claim. It is written few times meanwhile, not in a tight loop.
func TestACommitWaitsForAnotherProcessesClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &heldCommitsStore{Store: memory.New(), holdUntil: time.Now().Add(10 * time.Second)}
		ledger := ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{Name: "test", ResendHarmlessFor: dlt.Forever}})
		r := newStartedRunner(t, st, ledger, nil)
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		assert.InDelta(t, 40, st.heldWrites.Load(), 20, "four writes a second")
		assert.LessOrEqual(t, time.Since(st.holdUntil), time.Second)
	})
}

// If the ledger sends an event of a commit, one write records it together with the acceptance,
// whichever of the two comes first.
func TestAStreamedCommitIsWrittenWithItsAcceptance(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &eventLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{
				Name: "test", ResendHarmlessFor: dlt.Forever, Streams: true,
			}}), eventComesFirst: early, committedIDs: make(chan batch.ID, 10)}
			st := unsaltedClaimsStore{memory.New(), new(atomic.Int64)}
			r := newStartedRunner(t, st, l, nil)
			first := newBatch("s", "first") // this batch opens the event stream, and its commit is reported
			require.NoError(t, r.Add(t.Context(), first))
			awaitFinal(t, r, first)
			time.Sleep(time.Second)
			for _, id := range []batch.ID{"a", "b"} {
				b, before := newBatch("s", id), st.recordedOutcomes.Load()
				require.NoError(t, r.Add(t.Context(), b))
				assert.Equal(t, int64(3), awaitFinal(t, r, b).Version, "added, claimed, committed; early: %t", early)
				assert.EqualValues(t, 1, st.recordedOutcomes.Load()-before, "and recorded once; early: %t", early)
			}
		})
	}
}

// unsaltedClaimsStore is a store whose versions count the writes of a row. It also counts the
// outcomes that it gets to record.
type unsaltedClaimsStore struct {
	store.Store
	recordedOutcomes *atomic.Int64
}

func (s unsaltedClaimsStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	s.recordedOutcomes.Add(int64(len(outcomes)))
	return s.Store.Record(ctx, outcomes)
}

func (s unsaltedClaimsStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	q.Salt = 0
	return s.Store.Claim(ctx, q, choose)
}

// eventLedger is a ledger that sends an event of each commit, 2 ms after it has answered the POST
// or as long before. It leaves reported batches out of its answers.
type eventLedger struct {
	*ledgermem.Ledger
	eventComesFirst bool
	committedIDs    chan batch.ID
}

func (l *eventLedger) Submit(ctx context.Context, a batch.Attempt) error {
	err := l.Ledger.Submit(ctx, a)
	if l.eventComesFirst {
		l.committedIDs <- a.ID
		time.Sleep(2 * time.Millisecond)
	} else {
		time.AfterFunc(2*time.Millisecond, func() { l.committedIDs <- a.ID })
	}
	return err
}

func (l *eventLedger) Events(ctx context.Context, _ []batch.ServiceID, tell func(dlt.Event) error) error {
	if err := tell(dlt.Event{Live: true}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-l.committedIDs:
			if err := tell(dlt.Event{Service: "s", Statuses: []batch.Status{{ID: id, Reported: batch.ReportedCommitted}}}); err != nil {
				return err
			}
		}
	}
}

// If the strategy lets a lane go on once a whole run is acknowledged, acceptances are written at
// once.
func TestARunIsAcknowledgedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), &alwaysPendingLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &dlt.Traits{
			Name: "test", ResendHarmlessFor: dlt.Forever, KeepsOrder: true,
		}})}, &dltbatch.Options{Strategy: queuer.Pipelined(4)})
		keepRunning(t, r)
		synctest.Wait()
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(5 * time.Millisecond)
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Pending, rec.State)
	})
}

// If a resend is not harmless for long enough, an acceptance is written at once, so that a crash
// leaves as few batches as possible in doubt.
func TestAnAcceptanceThatACrashWouldMakeADoubtIsWrittenAtOnce(t *testing.T) {
	for _, c := range []struct {
		harmlessFor time.Duration
		want        batch.State
	}{
		{0, batch.Pending},
		{minHarmlessTime - time.Millisecond, batch.Pending},
		{minHarmlessTime, batch.Submitting}, // the acceptance is held back
		{dlt.Forever, batch.Submitting},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newStartedRunner(t, memory.New(), &alwaysPendingLedger{Ledger: harmlessResendLedger(c.harmlessFor)}, nil)
			synctest.Wait()
			b := newBatch("s", "a")
			require.NoError(t, r.Add(t.Context(), b))
			time.Sleep(5 * time.Millisecond)
			rec, err := r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			assert.Equal(t, c.want, rec.State, c.harmlessFor)
		})
	}
}

// minHarmlessTime is the shortest ResendHarmlessFor with which the Runner holds an acceptance
// back. It covers two claims, late arrivals after each, and the time until the monitor asks.
const minHarmlessTime = 2*time.Minute + 3*time.Second

// harmlessResendLedger is a ledger whose resends are harmless for a time.
func harmlessResendLedger(harmless time.Duration) *ledgermem.Ledger {
	traits := ledgermem.Unforgiving(time.Second)
	traits.ResendHarmlessFor, traits.Resolves = harmless, false
	return ledgermem.New(&ledgermem.Options{Traits: &traits})
}

// The time named by shortest is long enough: a process dies before it has written an acceptance,
// and the ledger loses the batch. The batch is sent again, and no person has to decide.
func TestACrashWithAnAcceptanceIsNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ledger := memory.New(), firstAttemptLoser{harmlessResendLedger(minHarmlessTime)}
		r := newRunner(t, recordsNothing{st}, ledger, &dltbatch.Options{Drain: time.Millisecond, RequestTimeout: time.Millisecond})
		stop := startRun(t, r)
		synctest.Wait()
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Millisecond)
		_ = stop()
		r = newRunner(t, st, ledger, nil)
		stop = startRun(t, r)
		time.Sleep(2 * time.Minute)
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Empty(t, rec.Decision)
		assert.Equal(t, batch.Committed, rec.State)
		assert.Equal(t, 2, rec.Attempt)
		require.NoError(t, stop())
	})
}

// firstAttemptLoser is a ledger that loses the first attempts that it accepts.
type firstAttemptLoser struct{ *ledgermem.Ledger }

func (l firstAttemptLoser) Submit(ctx context.Context, a batch.Attempt) error {
	if a.Number == 1 {
		return nil
	}
	return l.Ledger.Submit(ctx, a)
}

// recordsNothing is a store that records nothing, as if the process had died before each write.
type recordsNothing struct{ *memory.Store }

func (recordsNothing) Record(context.Context, []store.Outcome) ([]store.Applied, error) {
	return nil, errStore
}

// alwaysPendingLedger is a ledger that commits nothing, and can be told not to answer status
// queries.
type alwaysPendingLedger struct {
	*ledgermem.Ledger
	statusesHang bool
}

func (l *alwaysPendingLedger) BatchStatuses(ctx context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
	if l.statusesHang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	said := make([]batch.Status, len(as))
	for i, a := range as {
		said[i] = batch.Status{ID: a.ID, Reported: batch.ReportedPending}
	}
	return said, nil
}
