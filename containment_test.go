package dltbatch_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
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
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// panickyLedger is a ledger that panics in one method until it is told to stop.
type panickyLedger struct {
	*ledgermem.Ledger
	method      string
	isPanicking atomic.Bool
}

func (p *panickyLedger) panicIn(method string) {
	if method == p.method && p.isPanicking.Load() {
		panic("boom in " + method)
	}
}

func (p *panickyLedger) Traits(s batch.ServiceID) dlt.Traits {
	p.panicIn("Traits")
	return p.Ledger.Traits(s)
}

func (p *panickyLedger) Submit(ctx context.Context, a batch.Attempt) error {
	p.panicIn("Submit")
	err := p.Ledger.Submit(ctx, a)
	p.panicIn("Submit, after it was taken")
	return err
}

func (p *panickyLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	p.panicIn("BatchStatuses")
	return p.Ledger.BatchStatuses(ctx, s, attempts)
}

func (p *panickyLedger) Resolve(ctx context.Context, a dlt.Doubt) (dlt.Evidence, error) {
	p.panicIn("Resolve")
	return p.Ledger.Resolve(ctx, a)
}

// A panic of a ledger is contained, logged with its stack, and the call repeated. Once the
// panics stop the batches end final, each executed once, in order.
func TestALedgerThatPanicsIsContained(t *testing.T) {
	for _, method := range []string{"Traits", "Submit", "Submit, after it was taken", "BatchStatuses", "Resolve"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &panickyLedger{method: method}
				ledger.Ledger = ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
					if method == "Resolve" && a.Number == 1 {
						return ledgermem.Fault{Kind: ledgermem.LostRequest} // loses the first POST, so that the Runner looks for evidence
					}
					return ledgermem.Fault{}
				}})
				log := &logBuffer{}
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Logger: log.logger(slog.LevelWarn)})
				stop := startRun(t, r)
				synctest.Wait()
				ledger.isPanicking.Store(true)
				order := map[batch.ServiceID][]batch.ID{}
				for i := range 6 {
					b := newBatch(batch.ServiceID(fmt.Sprint("s", i%2)), batch.ID(fmt.Sprint("b", i)))
					require.NoError(t, r.Add(t.Context(), b))
					order[b.Service] = append(order[b.Service], b.ID)
				}
				time.Sleep(30 * time.Second)
				assert.Contains(t, log.String(), "boom in "+method)
				assert.Contains(t, log.String(), "containment_test.go", "with its stack")
				assert.Less(t, strings.Count(log.String(), "boom in "), 300, "not flooded")
				ledger.isPanicking.Store(false)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				require.NoError(t, r.Idle(ctx))
				require.NoError(t, stop())
				require.NoError(t, ledger.Verify(order))
				for s, ids := range order {
					assert.Equal(t, ids, ledger.Log(s))
				}
			})
		})
	}
}

// panickyStore is a store whose methods panic after their work, until it is told to stop. It has
// no hints, so that an idle Runner calls each of them often.
type panickyStore struct {
	noHints
	method      string
	isPanicking atomic.Bool
}

func (p *panickyStore) panicIn(method string) {
	if method == p.method && p.isPanicking.Load() {
		panic("boom in " + method)
	}
}

func (p *panickyStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	defer p.panicIn("Lanes")
	return p.noHints.Lanes(ctx, q)
}

func (p *panickyStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	defer p.panicIn("Claim")
	return p.noHints.Claim(ctx, q, choose)
}

func (p *panickyStore) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	defer p.panicIn("Payloads")
	return p.noHints.Payloads(ctx, refs)
}

func (p *panickyStore) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	defer p.panicIn("Record")
	return p.noHints.Record(ctx, all)
}

func (p *panickyStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	defer p.panicIn("Pending")
	return p.noHints.Pending(ctx, q)
}

func (p *panickyStore) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	p.panicIn("Get")
	return p.noHints.Get(ctx, key)
}

func (p *panickyStore) Upkeep(context.Context) ([]store.Warning, error) {
	p.panicIn("Upkeep")
	return nil, nil
}

// A panic of a store is contained and logged with its stack. It counts as a failure of the call,
// which may have done its work. Once the panics stop, the batches end final, each executed once,
// in order.
func TestAStoreThatPanicsIsContained(t *testing.T) {
	for _, method := range []string{"Lanes", "Claim", "Payloads", "Record", "Pending", "Upkeep"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := ledgermem.New(nil)
				log := &logBuffer{}
				st := &panickyStore{noHints: noHints{memory.New()}, method: method}
				r := newRunner(t, st, ledger, &dltbatch.Options{Logger: log.logger(slog.LevelWarn)})
				stop := startRun(t, r)
				synctest.Wait()
				st.isPanicking.Store(true)
				order := map[batch.ServiceID][]batch.ID{}
				for i := range 6 {
					b := newBatch(batch.ServiceID(fmt.Sprint("s", i%2)), batch.ID(fmt.Sprint("b", i)))
					require.NoError(t, r.Add(t.Context(), b))
					order[b.Service] = append(order[b.Service], b.ID)
				}
				time.Sleep(30 * time.Second)
				assert.Contains(t, log.String(), "boom in "+method)
				assert.Contains(t, log.String(), "containment_test.go", "with its stack")
				st.isPanicking.Store(false)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				require.NoError(t, r.Idle(ctx))
				require.NoError(t, stop())
				require.NoError(t, ledger.Verify(order))
				for s, ids := range order {
					assert.Equal(t, ids, ledger.Log(s))
				}
			})
		})
	}
}

// If the store panics in a call of the application, the call returns an error, and the stack is
// logged.
func TestAPanicOfTheStoreIsToldToTheApplication(t *testing.T) {
	log := &logBuffer{}
	st := &panickyStore{noHints: noHints{memory.New()}, method: "Get"}
	r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Logger: log.logger(slog.LevelWarn)})
	st.isPanicking.Store(true)
	_, err := r.Get(t.Context(), newBatch("s", "a").Key())
	require.EqualError(t, err, "get: panic: boom in Get")
	assert.Contains(t, log.String(), "containment_test.go", "with its stack")
}

// If the ledger panics in Traits at the start of Run, Run returns an error and records nothing,
// because it does not know the ledger's name.
func TestALedgerThatPanicsAtTheStartNamesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		ledger := &panickyLedger{Ledger: ledgermem.New(nil), method: "Traits"}
		ledger.isPanicking.Store(true)
		_, err := dltbatch.New(st, ledger, nil)
		require.Error(t, err)
		ledger.isPanicking.Store(false)
		r := newRunner(t, st, ledger, nil)
		ledger.isPanicking.Store(true)
		require.Error(t, r.Run(t.Context()))
		ledger.isPanicking.Store(false)
		name, err := texts.Ledger(t.Context(), st, "fresh")
		require.NoError(t, err)
		assert.Equal(t, "fresh", name)
	})
}

// A panic of an observer disturbs no delivery.
func TestAnObserverThatPanicsIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		told := atomic.Int64{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Logger: log.logger(slog.LevelWarn),
			Observer: batch.ObserverFunc(func(context.Context, batch.Event) {
				told.Add(1)
				panic("boom in the observer")
			}),
		})
		stop := startRun(t, r)
		for i := range 3 {
			b := newBatch("s", batch.ID(fmt.Sprint(i)))
			require.NoError(t, r.Add(t.Context(), b))
			assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		}
		require.NoError(t, stop())
		assert.EqualValues(t, 12, told.Load(), "and it is told of everything")
		assert.Contains(t, log.String(), "boom in the observer")
	})
}

// failingStrategy is a strategy that panics, or gives a bad answer, about one service for a while.
func failingStrategy(bad func() []batch.Run, panics *atomic.Bool) queuer.Strategy {
	return queuer.Strategy{Name: "sulking", Window: 1, Select: func(l batch.Lane) []batch.Run {
		if l.Service == "bad" && panics.Load() {
			return bad()
		}
		if len(l.Batches) == 0 || !l.Batches[0].Ready {
			return nil
		}
		return []batch.Run{{0}}
	}}
}

// A strategy that panics or gives a bad answer about a lane holds only that lane, and is reported.
func TestAStrategyThatPanicsHoldsItsLaneOnly(t *testing.T) {
	for name, bad := range map[string]func() []batch.Run{
		"panics": func() []batch.Run { panic("boom in the strategy") },
		"lies":   func() []batch.Run { return []batch.Run{{7}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen, sulks := &eventRecorder{}, &atomic.Bool{}
				sulks.Store(true)
				r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
					Strategy: failingStrategy(bad, sulks), Observer: seen,
				})
				keepRunning(t, r)
				require.NoError(t, r.Add(t.Context(), newBatch("bad", "a"), newBatch("good", "b")))
				assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("good", "b")).State)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				rec, err := r.Get(t.Context(), newBatch("bad", "a").Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Queued, rec.State)
				held := seen.ofKind(batch.EventLaneHeld)
				require.NotEmpty(t, held)
				assert.Equal(t, batch.ServiceID("bad"), held[0].Key.Service)
				require.Error(t, held[0].Err)
				require.Error(t, r.Health().Trouble)
				sulks.Store(false)
				assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("bad", "a")).State)
			})
		})
	}
}

// A bad answer of a strategy is reported after the claim has ended. So the observer may call the
// store, which would otherwise wait for the claim.
func TestABadAnswerIsReportedAfterTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, sulks := memory.New(), &atomic.Bool{}
		sulks.Store(true)
		looked := make(chan error, 1)
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{
			Strategy: failingStrategy(func() []batch.Run { panic("boom in the strategy") }, sulks),
			Observer: batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
				if e.Kind != batch.EventLaneHeld || !sulks.CompareAndSwap(true, false) {
					return
				}
				_, err := st.Get(ctx, newBatch("bad", "a").Key())
				looked <- err
			}),
		})
		keepRunning(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("bad", "a")))
		require.NoError(t, <-looked)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("bad", "a")).State)
	})
}

// panickyCheckLedger is panicky with a Check method, before which the Runner asks for the traits.
type panickyCheckLedger struct{ *panickyLedger }

func (panickyCheckLedger) Check(batch.Batch) error { return nil }

// An observer of a panic in Traits may call the Runner, which asks for the traits again.
func TestAnObserverOfAPanicInTraitsMayAskForThem(t *testing.T) {
	ledger := panickyCheckLedger{&panickyLedger{Ledger: ledgermem.New(nil), method: "Traits"}}
	var r *dltbatch.Runner
	heard := 0
	r = newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		heard++
		_ = r.Check(newBatch("s", "b"))
	})})
	ledger.isPanicking.Store(true)
	_ = r.Check(newBatch("s", "a"))
	_ = r.Check(newBatch("s", "c"))
	assert.Equal(t, 1, heard)
}

// panickyLogHandler panics in each method of a handler.
type panickyLogHandler struct{}

func (panickyLogHandler) Enabled(context.Context, slog.Level) bool { return true }
func (panickyLogHandler) Handle(context.Context, slog.Record) error {
	panic("boom in the log's handler")
}
func (panickyLogHandler) WithAttrs([]slog.Attr) slog.Handler { panic("boom") }
func (panickyLogHandler) WithGroup(string) slog.Handler      { panic("boom") }

// A panic in the handler of Options.Logger disturbs no delivery, and Health shows it.
func TestALogHandlerThatPanicsIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStartedRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{Logger: slog.New(panickyLogHandler{})})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "a")).State)
		require.ErrorContains(t, r.Health().Trouble, "boom in the log's handler")
	})
}

// No log line holds a payload, at any level and after any failure.
func TestTheLogHoldsNoPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		faults := ledgermem.Faults{Seed: 7, Busy: 0.1, Unavailable: 0.1, Misconfigured: 0.05, LostRequest: 0.1, LostReply: 0.1, Hang: 0.05}
		r := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{Fault: faults.Fault}), &dltbatch.Options{
			Logger: log.logger(slog.LevelDebug - 10),
		})
		stop := startRun(t, r)
		for i := range 40 {
			secret := []string{"", "invalid ", "reject "}[i%3] + "tell-nobody"
			require.NoError(t, r.Add(t.Context(), batch.Batch{
				Service: batch.ServiceID(fmt.Sprint("s", i)), ID: batch.ID(fmt.Sprint("b", i)), Payload: []byte(secret),
			}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		require.NoError(t, r.Idle(ctx))
		require.NoError(t, stop())
		assert.Contains(t, log.String(), "b17")
		assert.NotContains(t, log.String(), "tell-nobody")
	})
}
