package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// rewindableStore is a store that can be put back to an earlier state, while no Runner runs: the
// database after a failover that lost commits, or after the restore of a backup.
type rewindableStore struct{ *memory.Store }

// rewind puts the store back to the moment after the batches all were added.
func (f *rewindableStore) rewind(t *testing.T, all ...batch.Batch) {
	f.Store = memory.New()
	require.NoError(t, f.Add(t.Context(), all...))
}

// forgottenErrors collects the errors about attempts that the database forgot.
type forgottenErrors struct {
	mu   sync.Mutex
	errs []error
}

func (s *forgottenErrors) Observe(_ context.Context, e batch.Event) {
	if e.Kind == batch.EventTrouble && errors.Is(e.Err, batch.ErrForgotten) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, e.Err)
	}
}

// findsByBytesLedger is a ledger whose client prepares bytes, and finds a batch only by its bytes.
// Without bytes the client says that nothing was sent, and that the batch is void.
type findsByBytesLedger struct{ *ledgermem.Ledger }

func (l findsByBytesLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	t.Prepares = true
	return t
}

func (findsByBytesLedger) Prepare(_ context.Context, a batch.Attempt) ([]byte, error) {
	return fmt.Appendf(nil, "%s as %d", a.ID, a.Number), nil
}

func (l findsByBytesLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	for _, a := range attempts {
		if len(a.Prepared) == 0 {
			all = append(all, batch.Status{ID: a.ID, Reported: batch.ReportedVoid})
			continue
		}
		known, err := l.Ledger.BatchStatuses(ctx, s, []batch.Attempt{a})
		if err != nil {
			return nil, err
		}
		all = append(all, known...)
	}
	return all, nil
}

// TestWhatTheDatabaseForgotIsNotPosted puts the database back to a state in which no batch was
// claimed: once while the ledger works on three batches, and once when they are final. The ledger
// executes duplicates.
func TestWhatTheDatabaseForgotIsNotPosted(t *testing.T) {
	for _, c := range []struct {
		name       string
		failsAfter time.Duration // when the database fails
		prepares   bool
		strategy   queuer.Strategy
	}{
		{"held as Pending", 2 * time.Second, false, queuer.Serial()},
		{"known to be final", time.Minute, false, queuer.Serial()},
		{"pipelined, held as Pending", 2 * time.Second, false, queuer.Pipelined(8)},
		{"pipelined, known to be final", time.Minute, false, queuer.Pipelined(8)},
		{"prepared bytes, held as Pending", 2 * time.Second, true, queuer.Serial()},
		{"prepared bytes, known to be final", time.Minute, true, queuer.Serial()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 12 * time.Second})
				var client dlt.Ledger = ledger
				if c.prepares {
					client = findsByBytesLedger{ledger}
				}
				st := &rewindableStore{memory.New()}
				seen := &forgottenErrors{}
				r, err := dltbatch.New(st, client, &dltbatch.Options{Observer: seen, Strategy: c.strategy})
				require.NoError(t, err)
				var batches []batch.Batch
				for i := range 3 {
					id := fmt.Sprint("b", i)
					batches = append(batches, batch.Batch{ID: batch.ID(id), Service: "s", Payload: []byte(id)})
				}
				require.NoError(t, r.Add(t.Context(), batches...))
				serveFor(t, r, c.failsAfter)
				before := len(ledger.Log("s"))
				st.rewind(t, batches...)
				serveFor(t, r, 3*time.Minute)
				assert.Equal(t, []batch.ID{"b0", "b1", "b2"}, ledger.Log("s"), "%d were executed before", before)
				assert.NotEmpty(t, seen.errs)
				for _, b := range batches {
					rec, err := r.Get(t.Context(), b.Key())
					require.NoError(t, err)
					assert.Equal(t, batch.Committed, rec.State, "%s: %v", b.ID, rec.Error)
				}
			})
		})
	}
}

// lostRecordReplyStore is a store that loses its first answer to each Record.
type lostRecordReplyStore struct {
	*rewindableStore
	lastReplyWasLost bool // true if the last answer was lost
}

func (d *lostRecordReplyStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	applied, err := d.rewindableStore.Record(ctx, outcomes)
	if d.lastReplyWasLost = !d.lastReplyWasLost; d.lastReplyWasLost {
		return nil, errors.New("the connection was lost")
	}
	return applied, err
}

// firstAttemptRefuser is a ledger that refuses the first attempt of each batch.
type firstAttemptRefuser struct{ *ledgermem.Ledger }

func (l firstAttemptRefuser) Submit(ctx context.Context, a batch.Attempt) error {
	if a.Number == 1 {
		return dlt.ErrRejected
	}
	return l.Ledger.Submit(ctx, a)
}

// TestAnOutcomeWithoutAnAnswerIsHeld loses the store's answer to the outcome that makes a batch
// final.
func TestAnOutcomeWithoutAnAnswerIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := &lostRecordReplyStore{rewindableStore: &rewindableStore{memory.New()}}, &forgottenErrors{}
		r, err := dltbatch.New(st, firstAttemptRefuser{ledgermem.New(nil)}, &dltbatch.Options{Observer: seen})
		require.NoError(t, err)
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(t.Context(), b))
		serveFor(t, r, time.Minute)
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		require.Equal(t, batch.Rejected, rec.State)
		st.rewind(t, b)
		serveFor(t, r, time.Second)
		require.Len(t, seen.errs, 1)
		assert.ErrorContains(t, seen.errs[0], "this process knows it as final")
	})
}

// serveFor runs a Runner for a while.
func serveFor(t *testing.T, r *dltbatch.Runner, d time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	require.NoError(t, r.Run(ctx))
}

// TestTheDoubtIsAsOldAsTheForgottenAttempt: the database has forgotten the first attempt and takes
// a later claim for the first. The time in which a resend is harmless is counted from the first
// attempt that this process knows. The ledger forgets what it did.
func TestTheDoubtIsAsOldAsTheForgottenAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(0)
		traits.ResendHarmlessFor, traits.Resolves = 10*time.Minute, false
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, DeduplicateFor: 10 * time.Minute})
		st := &rewindableStore{memory.New()}
		r, err := dltbatch.New(st, ledger, nil)
		require.NoError(t, err)
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(t.Context(), b))
		serveFor(t, r, time.Minute)
		ledger.Restart()
		time.Sleep(9 * time.Minute)
		st.rewind(t, b)
		serveFor(t, r, 10*time.Minute)
		assert.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.NotEmpty(t, rec.Decision, "a person is asked: %v", rec.State)
	})
}

// TestTheLedgerIsAskedAboutTheBytesThatWereSent: the database forgets only the prepared bytes. The
// process that sent them asks the ledger about those bytes, not about an attempt without bytes.
func TestTheLedgerIsAskedAboutTheBytesThatWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 12 * time.Second})
		st := &rewindableStore{memory.New()}
		r, err := dltbatch.New(st, findsByBytesLedger{ledger}, nil)
		require.NoError(t, err)
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(t.Context(), b))
		serveFor(t, r, 2*time.Second)
		st.rewind(t, b)
		claimed, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, func(batch.Lane) []batch.Run {
			return []batch.Run{{0}}
		})
		require.NoError(t, err)
		c := claimed.Runs[0].Batches[0]
		_, err = st.Record(t.Context(), []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}})
		require.NoError(t, err)
		serveFor(t, r, 3*time.Minute)
		assert.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	})
}

// failingKeepStore is a store whose KeepPrepared fails for a while.
type failingKeepStore struct {
	*rewindableStore
	failsUntil time.Time
}

func (d *failingKeepStore) KeepPrepared(ctx context.Context, all []store.Prepared) ([]bool, error) {
	if time.Now().Before(d.failsUntil) {
		return nil, errors.New("the connection was lost")
	}
	return d.rewindableStore.KeepPrepared(ctx, all)
}

// TestForgottenBytesAreKeptOnceTheStoreAnswers: another process has declared the bytes of an
// attempt void. This process, which sent the bytes, wants to keep them again, and the store fails.
// The failure says nothing about the batch: the batch is executed, also if the Runner is stopped
// meanwhile.
func TestForgottenBytesAreKeptOnceTheStoreAnswers(t *testing.T) {
	for _, serves := range []time.Duration{30 * time.Minute, 2 * time.Second} {
		t.Run(serves.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := ledgermem.New(nil)
				st := &failingKeepStore{rewindableStore: &rewindableStore{memory.New()}}
				r, err := dltbatch.New(st, voidBytesLedger{findsByBytesLedger{ledger}}, &dltbatch.Options{FirstPoll: time.Minute, PollInterval: time.Minute})
				require.NoError(t, err)
				b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
				require.NoError(t, r.Add(t.Context(), b))
				serveFor(t, r, time.Second)
				time.Sleep(time.Hour) // the next check is due
				rows, err := st.Pending(t.Context(), store.PendingQuery{Limit: 1})
				require.NoError(t, err)
				require.Len(t, rows, 1)
				require.Equal(t, "b as 1", string(rows[0].Prepared))
				_, err = st.Record(t.Context(), []store.Outcome{{
					Ref: rows[0].Ref, Version: rows[0].Version, By: batch.ByMonitor, Finding: store.IsVoid, Prepared: rows[0].Prepared,
				}})
				require.NoError(t, err)
				st.failsUntil = time.Now().Add(10 * time.Second)
				serveFor(t, r, serves)
				serveFor(t, r, 30*time.Minute)
				rec, err := r.Get(t.Context(), b.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State, "%+v", rec.Error)
				assert.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
			})
		})
	}
}

// voidBytesLedger is a ledger on which the bytes of the first attempt are void, because another
// transaction has used up what they need.
type voidBytesLedger struct{ findsByBytesLedger }

func (l voidBytesLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if a.Number == 1 {
		return dlt.ErrDoubt
	}
	return l.findsByBytesLedger.Submit(ctx, a)
}

func (l voidBytesLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	for _, a := range attempts {
		if string(a.Prepared) == "b as 1" {
			a.Prepared = nil
		}
		known, err := l.findsByBytesLedger.BatchStatuses(ctx, s, []batch.Attempt{a})
		if err != nil {
			return nil, err
		}
		all = append(all, known...)
	}
	return all, nil
}

// TestAnotherProcessEndsTheBytes: another process finds that the bytes are void, claims the batch
// again, and dies before it keeps new bytes. The process that sent the bytes still knows them, and
// asks the ledger about them. What it finds is recorded, though the database keeps no bytes.
func TestAnotherProcessEndsTheBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(nil)
		st := memory.New()
		r, err := dltbatch.New(st, voidBytesLedger{findsByBytesLedger{ledger}}, &dltbatch.Options{FirstPoll: time.Minute, PollInterval: time.Minute})
		require.NoError(t, err)
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(t.Context(), b))
		serveFor(t, r, time.Second)
		time.Sleep(time.Hour)
		rows, err := st.Pending(t.Context(), store.PendingQuery{Limit: 1})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, "b as 1", string(rows[0].Prepared))
		done, err := st.Record(t.Context(), []store.Outcome{{
			Ref: rows[0].Ref, Version: rows[0].Version, By: batch.ByMonitor, Finding: store.IsVoid, Prepared: rows[0].Prepared,
		}})
		require.NoError(t, err)
		require.Equal(t, store.Written, done[0].Result)
		_, err = st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, func(batch.Lane) []batch.Run {
			return []batch.Run{{0}}
		})
		require.NoError(t, err)
		serveFor(t, r, 30*time.Minute)
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State, "%+v", rec)
		assert.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
	})
}

// TestOtherBytesAreNotTheBytesThatWereSent puts the database back to the bytes of the first
// attempt, which are void. The bytes of the second attempt were executed, and the database has
// lost them. That the first bytes are void says nothing about the second, so the batch is not
// prepared anew.
func TestOtherBytesAreNotTheBytesThatWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(nil)
		st := &rewindableStore{memory.New()}
		r, err := dltbatch.New(st, voidBytesLedger{findsByBytesLedger{ledger}}, nil)
		require.NoError(t, err)
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(t.Context(), b))
		serveFor(t, r, 30*time.Minute)
		require.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
		st.rewind(t, b)
		claimed, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, func(batch.Lane) []batch.Run {
			return []batch.Run{{0}}
		})
		require.NoError(t, err)
		c := claimed.Runs[0].Batches[0]
		kept, err := st.KeepPrepared(t.Context(), []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte("b as 1")}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, kept)
		_, err = st.Record(t.Context(), []store.Outcome{{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Failed}})
		require.NoError(t, err)
		serveFor(t, r, 30*time.Minute)
		assert.Equal(t, []batch.ID{"b"}, ledger.Log("s"))
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Rejected, rec.State)
		require.NotNil(t, rec.Error)
		assert.Equal(t, batch.KindGivenUp, rec.Error.Kind)
	})
}
