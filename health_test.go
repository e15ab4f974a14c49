package dltbatch_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// fault is the present state of a store or a ledger.
type fault struct {
	mu        sync.Mutex
	err       error         // error of every call; nil for none
	hangUntil chan struct{} // calls hang until it is closed; nil if none hang
}

func (o *fault) setFault(down error, hangs bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hangUntil != nil {
		close(o.hangUntil)
		o.hangUntil = nil
	}
	if o.err = down; hangs {
		o.hangUntil = make(chan struct{})
	}
}

func (o *fault) callError(ctx context.Context) error {
	o.mu.Lock()
	down, hold := o.err, o.hangUntil
	o.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return down
}

// outageStore is a store that fails during an outage.
type outageStore struct {
	store.Store
	*fault
}

func (s outageStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := s.callError(ctx); err != nil {
		return nil, err
	}
	return s.Store.Lanes(ctx, q)
}

func (s outageStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := s.callError(ctx); err != nil {
		return store.Claimed{}, err
	}
	return s.Store.Claim(ctx, q, choose)
}

func (s outageStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if err := s.callError(ctx); err != nil {
		return nil, err
	}
	return s.Store.Record(ctx, o)
}

func (s outageStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if err := s.callError(ctx); err != nil {
		return nil, err
	}
	return s.Store.Pending(ctx, q)
}

func (s outageStore) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	if err := s.callError(ctx); err != nil {
		return store.Pruned{}, err
	}
	return s.Store.Prune(ctx, q)
}

var errDown = errors.New("connection refused")

// awaitHealth reads the health twice a second, until it is as want wishes or d has passed.
func awaitHealth(t *testing.T, r *dltbatch.Runner, d time.Duration, want func(health.Health) bool) (health.Health, time.Duration) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		synctest.Wait() // until all that is due now has happened
		h := r.Health()
		if want(h) {
			return h, time.Since(begin)
		}
		require.Less(t, time.Since(begin), d, "%+v", h)
	}
}

// An idle Runner checks its database. Health shows an outage within seconds, whether the database
// refuses calls or does not answer, and shows the end of the outage.
func TestHealthSeesTheDatabase(t *testing.T) {
	tier.Plain(t)
	for name, hangs := range map[string]bool{"it refuses": false, "it is silent": true} {
		for _, lasts := range []time.Duration{5 * time.Second, time.Hour} {
			t.Run(name+" for "+lasts.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := outageStore{noHints{memory.New()}, &fault{}}
					r := newRunner(t, st, ledgermem.New(nil), nil)
					stop := startRun(t, r)
					for range 120 { // the Runner is idle
						time.Sleep(time.Minute)
						h := r.Health()
						require.True(t, h.Running)
						require.Equal(t, health.ConditionOK, h.Store.Condition, "%+v", h)
						require.LessOrEqual(t, time.Since(h.Store.LastSuccess), time.Second)
						require.Equal(t, health.ConditionOK, h.Loops["queuer"].Condition)
						require.Equal(t, health.ConditionOK, h.Loops["monitor"].Condition)
						require.Equal(t, health.ConditionIdle, h.Ledger.Condition, "nothing was asked of it")
					}
					last, since := r.Health().Store.LastSuccess, time.Now()
					st.setFault(errDown, hangs)
					h, took := awaitHealth(t, r, 5*time.Second, func(h health.Health) bool { return h.Store.Condition == health.ConditionFailing })
					t.Logf("seen after %s", took)
					assert.Equal(t, last, h.Store.LastSuccess)
					assert.WithinDuration(t, since, h.Store.FailingSince, time.Second, "a read a second")
					if !hangs {
						require.ErrorIs(t, h.Store.Err, errDown)
						require.ErrorIs(t, h.Trouble, errDown)
					}
					assert.Equal(t, health.ConditionIdle, h.Ledger.Condition, "it is not the ledger")
					for time.Since(since) < lasts {
						time.Sleep(time.Second)
						now := r.Health()
						require.Equal(t, health.ConditionFailing, now.Store.Condition, "%s: %+v", time.Since(since), now)
						require.Equal(t, h.Store.FailingSince, now.Store.FailingSince)
						require.Error(t, now.Store.Err)
						if time.Since(since) > 30*time.Second {
							require.NotEqual(t, health.ConditionOK, now.Loops["queuer"].Condition)
							require.NotEqual(t, health.ConditionOK, now.Loops["monitor"].Condition)
						}
					}
					st.setFault(nil, false)
					_, took = awaitHealth(t, r, 2*time.Minute, func(h health.Health) bool {
						return h.Store.Condition == health.ConditionOK && h.Loops["queuer"].Condition == health.ConditionOK &&
							h.Loops["monitor"].Condition == health.ConditionOK
					})
					t.Logf("cleared after %s", took)
					h = r.Health()
					assert.Zero(t, h.Store.FailingSince)
					assert.Zero(t, h.Store.Failures)
					require.NoError(t, h.Store.Err)
					time.Sleep(health.FailureMemory)
					require.NoError(t, r.Health().Trouble, "an old trouble does not stay for ever")
					require.NoError(t, stop())
					assert.Empty(t, r.Health().Loops)
				})
			})
		}
	}
}

// outageLedger is a ledger that cannot be reached during an outage.
type outageLedger struct {
	*ledgermem.Ledger
	*fault
}

func (l outageLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if err := l.callError(ctx); err != nil {
		return err
	}
	return l.Ledger.Submit(ctx, a)
}

func (l outageLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
	if err := l.callError(ctx); err != nil {
		return nil, err
	}
	return l.Ledger.BatchStatuses(ctx, s, as)
}

// Health shows whether the ledger or the database fails, and shows the end of the failure with the
// next answer.
func TestHealthShowsADeadLedger(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		err   error
		hangs bool
	}{
		"not reached":        {&dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable, Err: errDown}, false},
		"refuses the client": {&dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured, StatusCode: 401}, false},
		"silent":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := outageLedger{ledgermem.New(nil), &fault{}}
				r := newRunner(t, memory.New(), ledger, nil)
				stop := startRun(t, r)
				defer func() { require.NoError(t, stop()) }()
				first, second := newBatch("s", "a"), newBatch("s", "b")
				require.NoError(t, r.Add(t.Context(), first))
				awaitFinal(t, r, first)
				require.Equal(t, health.ConditionOK, r.Health().Ledger.Condition)
				time.Sleep(time.Hour)
				require.Equal(t, health.ConditionOK, r.Health().Ledger.Condition, "it was not asked since")
				ledger.setFault(c.err, c.hangs)
				require.NoError(t, r.Add(t.Context(), second))
				since := time.Now()
				h, took := awaitHealth(t, r, 20*time.Second, func(h health.Health) bool { return h.Ledger.Condition == health.ConditionFailing })
				t.Logf("seen after %s", took)
				assert.WithinDuration(t, since, h.Ledger.FailingSince, time.Second)
				assert.Equal(t, health.ConditionFailing, h.Loops["submitter"].Condition)
				for range 600 {
					time.Sleep(time.Second)
					h := r.Health()
					require.Equal(t, health.ConditionOK, h.Store.Condition, "%+v", h)
					require.Equal(t, health.ConditionFailing, h.Ledger.Condition, "%+v", h)
					require.False(t, h.Ledger.FailingSince.After(since.Add(time.Second)))
				}
				ledger.setFault(nil, false)
				rec := awaitFinal(t, r, second)
				if rec.State != batch.Committed {
					t.Fatalf("%+v", rec)
				}
				h = r.Health()
				assert.Equal(t, health.ConditionOK, h.Ledger.Condition, "%+v", h)
				assert.Zero(t, h.Ledger.FailingSince)
			})
		})
	}
}

// "Refused" about a batch, and "busy", are answers of a ledger that works. Health forgets a
// failure that no call follows.
func TestHealthForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := outageLedger{ledgermem.New(nil), &fault{}}
		r := newRunner(t, memory.New(), ledger, nil)
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		ledger.setFault(&dlt.Error{Op: "submit", Kind: dlt.ErrRejected}, false)
		refused := newBatch("s", "refused")
		require.NoError(t, r.Add(t.Context(), refused))
		awaitFinal(t, r, refused)
		require.Equal(t, health.ConditionOK, r.Health().Ledger.Condition)
		ledger.setFault(&dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable}, false)
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Minute)
		require.Equal(t, health.ConditionFailing, r.Health().Ledger.Condition)
		for recordOf(t, r, b).State != batch.Delayed {
			time.Sleep(10 * time.Millisecond)
		}
		_, err := r.Cancel(t.Context(), recordOf(t, r, b), somebody)
		require.NoError(t, err)
		time.Sleep(health.FailureMemory + time.Minute)
		h := r.Health()
		assert.Equal(t, health.ConditionIdle, h.Ledger.Condition, "%+v", h)
		assert.Zero(t, h.Ledger.FailingSince)
		require.NoError(t, h.Ledger.Err)
	})
}

// streamLedger is a ledger with a stream for each service, which can be broken.
type streamLedger struct {
	*ledgermem.Ledger
	*fault
	breakStream chan struct{} // a stream that receives from it breaks
}

func (l streamLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	t.Streams = true
	return t
}

func (l streamLedger) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	if err := l.callError(ctx); err != nil {
		return err
	}
	if err := yield(dlt.Event{Service: services[0], Live: true}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-l.breakStream:
		return &dlt.Error{Op: "events", Err: errors.New("unexpected EOF")}
	}
}

// A lost event stream counts neither as a failure of the store or the ledger nor as a doubt about
// a batch. Health shows the loss until the next event, or until no batch needs the stream.
func TestHealthShowsALostStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, seen := streamLedger{ledgermem.New(nil), &fault{}, make(chan struct{})}, &eventRecorder{}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		require.Equal(t, health.ConditionIdle, r.Health().Streams.Condition)
		deliver := func(id batch.ID) {
			for _, s := range []batch.ServiceID{"s", "t"} {
				b := newBatch(s, id+batch.ID(s))
				require.NoError(t, r.Add(t.Context(), b))
				require.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
			}
		}
		deliver("a")
		synctest.Wait()
		require.Equal(t, health.ConditionOK, r.Health().Streams.Condition)
		require.Equal(t, 2, r.Health().OpenStreams)
		ledger.setFault(&dlt.Error{Op: "events", Kind: dlt.ErrUnavailable, Err: errDown}, false)
		since := time.Now()
		ledger.breakStream <- struct{}{}
		synctest.Wait()
		for i := range 3 {
			deliver(batch.ID(rune('b' + i))) // committed by polling, without the stream
			h := r.Health()
			assert.Equal(t, health.ConditionFailing, h.Streams.Condition)
			assert.Equal(t, since, h.Streams.FailingSince)
			require.ErrorIs(t, h.Streams.Err, dlt.ErrStreamLost)
			require.Len(t, h.LostStreams, 1)
			require.Equal(t, 1, h.OpenStreams)
			assert.Equal(t, health.ConditionOK, h.Store.Condition)
			assert.Equal(t, health.ConditionOK, h.Ledger.Condition)
			time.Sleep(time.Minute)
		}
		told := seen.ofKind(batch.EventTrouble)
		require.Len(t, told, 1)
		assert.Contains(t, told[0].Err.Error(), "stream of events lost")
		assert.Contains(t, told[0].Err.Error(), "unexpected EOF")
		require.NotErrorIs(t, told[0].Err, dlt.ErrDoubt, "of no batch")
		ledger.setFault(nil, false)
		h, took := awaitHealth(t, r, time.Minute, func(h health.Health) bool { return h.Streams.Condition == health.ConditionOK })
		t.Logf("cleared after %s", took)
		assert.Empty(t, h.LostStreams)
		// The stream is lost again, and nothing follows it afterwards.
		ledger.setFault(&dlt.Error{Op: "events", Kind: dlt.ErrUnavailable, Err: errDown}, false)
		ledger.breakStream <- struct{}{}
		time.Sleep(20 * time.Minute)
		h = r.Health()
		assert.Equal(t, health.ConditionIdle, h.Streams.Condition, "%+v", h)
		assert.Empty(t, h.LostStreams)
	})
}

// A probe's handler writes Health as JSON, and a tool reads the same Health back.
func TestHealthInJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	h := health.Health{
		Running: true, Paused: true, Pauses: []health.Pause{{Ledger: "l", All: true, Since: at, Because: errDown}, {Ledger: "l", Service: "s", Since: at}},
		Pool: health.Use{Busy: 2, Size: 64}, Claims: 3, OpenStreams: 1,
		Store:  health.PartHealth{Condition: health.ConditionOK, LastSuccess: at},
		Ledger: health.PartHealth{Condition: health.ConditionFailing, FailingSince: at, Failures: 3, Err: errDown},
		Loops: map[string]health.PartHealth{
			"queuer": {Condition: health.ConditionOK, LastSuccess: at}, "retention": {},
		},
		Hints:    health.Hints{Since: at, Err: errDown},
		Warnings: []error{errDown}, LostEvents: []uint64{0, 3},
		Trouble: errors.Join(errDown, errDown), TroubleAt: at,
	}
	text, err := json.Marshal(h)
	require.NoError(t, err)
	assert.JSONEq(t, `{"running": true, "paused": true,
		"pauses": [{"ledger": "l", "all": true, "since": "2030-01-02T03:04:05Z", "because": "connection refused"}, {"ledger": "l", "service": "s", "since": "2030-01-02T03:04:05Z"}], "pool": {"busy": 2, "size": 64}, "claims": 3, "open_streams": 1,
		"store": {"condition": "ok", "last_success": "2030-01-02T03:04:05Z"},
		"ledger": {"condition": "failing", "failing_since": "2030-01-02T03:04:05Z", "failures": 3, "error": "connection refused"},
		"streams": {"condition": "idle"},
		"loops": {"queuer": {"condition": "ok", "last_success": "2030-01-02T03:04:05Z"}, "retention": {"condition": "idle"}},
		"hints": {"live": false, "since": "2030-01-02T03:04:05Z", "error": "connection refused"},
		"warnings": ["connection refused"], "lost_events": [0, 3],
		"trouble": "connection refused\nconnection refused", "trouble_at": "2030-01-02T03:04:05Z"}`, string(text))
	var decoded health.Health
	require.NoError(t, json.Unmarshal(text, &decoded))
	require.EqualError(t, decoded.Ledger.Err, "connection refused")
	require.EqualError(t, decoded.Trouble, h.Trouble.Error())
	require.Len(t, decoded.Warnings, 1)
	require.EqualError(t, decoded.Warnings[0], "connection refused")
	require.EqualError(t, decoded.Hints.Err, "connection refused")
	require.EqualError(t, decoded.Pauses[0].Because, "connection refused")
	decoded.Pauses[0].Because = errDown
	decoded.Ledger.Err, decoded.Trouble, decoded.Warnings, decoded.Hints.Err = h.Ledger.Err, h.Trouble, h.Warnings, h.Hints.Err
	assert.Equal(t, h, decoded)
	var inputErr *batch.InputError
	require.ErrorAs(t, json.Unmarshal([]byte(`{"store": {"condition": "fine"}}`), &decoded), &inputErr)
	assert.Equal(t, "Condition", inputErr.Field)
	assert.Equal(t, "fine", inputErr.Value)
	_, err = json.Marshal(health.PartHealth{Condition: 9})
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "condition(9)", inputErr.Value)
	for c := health.ConditionIdle; c <= health.ConditionFailing; c++ {
		text, err := c.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, c.String(), string(text))
		var decoded health.Condition
		require.NoError(t, decoded.UnmarshalText(text))
		assert.Equal(t, c, decoded)
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
		assert.Equal(t, health.Health{}, r.Health())
		stop := startRun(t, r)
		synctest.Wait()
		now := health.PartHealth{Condition: health.ConditionOK, LastSuccess: time.Now()}
		assert.Equal(t, health.Health{
			Running: true, Store: now, Loops: map[string]health.PartHealth{"queuer": now, "monitor": now},
			Pool: health.Use{Size: 64}, StatusConnections: health.Use{Size: 8}, Counts: health.Counts{ReadAt: time.Now()},
			Hints: health.Hints{Live: true, Since: time.Now(), Way: "in memory"},
		}, r.Health())
		assert.Empty(t, r.Health().Attention(time.Now()))
		require.NoError(t, stop())
		assert.Equal(t, health.Health{}, r.Health())
	})
}

// Health shows how much is under way, and the limits.
func TestHealthCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Latency: 10 * time.Second}
		}})
		r := newRunner(t, memory.New(), &alwaysPendingLedger{Ledger: ledger, statusesHang: true}, &dltbatch.Options{Pool: 2, StatusConnections: 3})
		stop := startRun(t, r)
		for _, s := range []batch.ServiceID{"a", "b"} {
			require.NoError(t, r.Add(t.Context(), newBatch(s, batch.ID(s))))
		}
		synctest.Wait()
		h := r.Health()
		assert.Equal(t, health.Use{Busy: 2, Size: 2}, h.Pool)
		assert.Equal(t, health.Use{Size: 3}, h.StatusConnections)
		assert.Equal(t, 2, h.Claims)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		h = r.Health()
		assert.Equal(t, health.Use{Size: 2}, h.Pool)
		assert.Equal(t, health.Use{Busy: 2, Size: 3}, h.StatusConnections)
		assert.Zero(t, h.Claims, "their acceptance is written")
		require.NoError(t, stop())
		assert.Equal(t, health.Health{}, r.Health())
	})
}
