package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// outageStore is a store that can be down, or hang.
type outageStore struct {
	*memory.Store
	isDown    atomic.Bool
	hangUntil atomic.Pointer[chan struct{}]
}

var errDown = errors.New("connection refused")

func (d *outageStore) callError() error {
	if gate := d.hangUntil.Load(); gate != nil {
		<-*gate // ignores the context
	}
	if d.isDown.Load() {
		return errDown
	}
	return nil
}

func (d *outageStore) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := d.callError(); err != nil {
		return nil, err
	}
	return d.Store.Lanes(ctx, q)
}

func (d *outageStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := d.callError(); err != nil {
		return store.Claimed{}, err
	}
	return d.Store.Claim(ctx, q, choose)
}

func (d *outageStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if err := d.callError(); err != nil {
		return nil, err
	}
	return d.Store.Pending(ctx, q)
}

func (d *outageStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if err := d.callError(); err != nil {
		return nil, err
	}
	return d.Store.Record(ctx, o)
}

func (d *outageStore) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	if err := d.callError(); err != nil {
		return store.Pruned{}, err
	}
	return d.Store.Prune(ctx, q)
}

// outageLedger is a ledger that can be down, and whose event stream can end.
type outageLedger struct {
	*ledgermem.Ledger
	isDown, streamIsLost atomic.Bool
}

func (n *outageLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := n.Ledger.Traits(s)
	t.Streams = true
	return t
}

func (n *outageLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if n.isDown.Load() {
		return dlt.ErrUnavailable
	}
	return n.Ledger.Submit(ctx, a)
}

func (n *outageLedger) Events(ctx context.Context, _ []batch.ServiceID, yield func(dlt.Event) error) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for !n.streamIsLost.Load() {
		if err := yield(dlt.Event{Live: true}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return dlt.ErrStreamLost
}

type handlerAnswer struct {
	OK     bool          `json:"ok"`
	Why    []string      `json:"why"`
	Health health.Health `json:"health"`
}

// parseAnswer decodes an answer, and checks that its parts agree.
func parseAnswer(t *testing.T, resp *http.Response) handlerAnswer {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var a handlerAnswer
	require.NoError(t, json.Unmarshal(body, &a), "%s", body)
	want := http.StatusServiceUnavailable
	if a.OK {
		want = http.StatusOK
		assert.NotContains(t, string(body), `"why"`)
	}
	assert.Equal(t, want, resp.StatusCode)
	assert.Equal(t, len(a.Why) == 0, a.OK, "%v", a.Why)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	return a
}

// getAnswer makes a request to a handler.
func getAnswer(t *testing.T, h http.Handler) handlerAnswer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return parseAnswer(t, w.Result())
}

func newRunner(t *testing.T, st store.Store, l dlt.Ledger, o *dltbatch.Options) *dltbatch.Runner {
	t.Helper()
	r, err := dltbatch.New(st, l, o)
	require.NoError(t, err)
	return r
}

func startRun(t *testing.T, r *dltbatch.Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// The test asks over a socket: the process is not ready before Run, then ready, not ready while
// the database, the ledger or a stream fails, ready again without a restart, and not ready after
// Run. It is alive all the time.
func TestOverASocket(t *testing.T) {
	db, ledger := &outageStore{Store: memory.New()}, &outageLedger{Ledger: ledgermem.New(nil)}
	r := newRunner(t, db, ledger, &dltbatch.Options{
		ScanInterval: 20 * time.Millisecond, PollInterval: 20 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 20 * time.Millisecond, MaxDelay: 50 * time.Millisecond, QuickRetries: -1},
	})
	const patience = 50 * time.Millisecond
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe.Live(r, nil))
	mux.Handle("GET /readyz", probe.Ready(r, &probe.Options{Store: patience, Ledger: patience, Streams: patience}))
	server := httptest.NewServer(mux)
	defer server.Close()
	require.True(t, strings.HasPrefix(server.URL, "http://127.0.0.1:"), server.URL)
	client := server.Client()
	get := func(path string) handlerAnswer {
		resp, err := client.Get(server.URL + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		return parseAnswer(t, resp)
	}
	becomes := func(why string) {
		t.Helper()
		require.Eventually(t, func() bool {
			assert.True(t, get("/livez").OK)
			a := get("/readyz")
			return a.OK == (why == "") && (a.OK || strings.HasPrefix(a.Why[0], why))
		}, 30*time.Second, 5*time.Millisecond, why)
	}
	becomes("Run does not run")
	stop := startRun(t, r)
	becomes("")
	assert.True(t, get("/readyz").Health.Running)

	db.isDown.Store(true)
	becomes("database: has failed for 0s: connection refused")
	db.isDown.Store(false)
	becomes("")

	require.NoError(t, r.Add(t.Context(), batch.Batch{Service: "s", ID: "a", Payload: []byte("a")}))
	_, err := r.Await(t.Context(), batch.Key{Service: "s", ID: "a"})
	require.NoError(t, err)
	ledger.isDown.Store(true)
	require.NoError(t, r.Add(t.Context(), batch.Batch{Service: "s", ID: "b", Payload: []byte("b")}))
	becomes("ledger: has failed for")
	ledger.isDown.Store(false)
	becomes("")

	ledger.streamIsLost.Store(true)
	becomes("streams: has failed for")
	ledger.streamIsLost.Store(false)
	becomes("")
	stop()
	becomes("Run does not run")
}

// Each part may fail for the time in the options, and the defaults are as documented.
func TestReadyIsPatient(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		options *probe.Options
		fail    func(db *outageStore, l *outageLedger)
		maxTime time.Duration // 0 means for ever
	}{
		"database":           {nil, func(db *outageStore, _ *outageLedger) { db.isDown.Store(true) }, 10 * time.Second},
		"ledger":             {nil, func(_ *outageStore, l *outageLedger) { l.isDown.Store(true) }, 5 * time.Minute},
		"streams":            {nil, func(_ *outageStore, l *outageLedger) { l.streamIsLost.Store(true) }, 5 * time.Minute},
		"database, as long":  {&probe.Options{Store: 15 * time.Minute}, func(db *outageStore, _ *outageLedger) { db.isDown.Store(true) }, 15 * time.Minute},
		"ledger, for ever":   {&probe.Options{Ledger: -1}, func(_ *outageStore, l *outageLedger) { l.isDown.Store(true) }, 0},
		"streams, for ever":  {&probe.Options{Streams: -1}, func(_ *outageStore, l *outageLedger) { l.streamIsLost.Store(true) }, 0},
		"database, for ever": {&probe.Options{Store: -1}, func(db *outageStore, _ *outageLedger) { db.isDown.Store(true) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, ledger := &outageStore{Store: memory.New()}, &outageLedger{Ledger: ledgermem.New(nil)}
				r := newRunner(t, db, ledger, nil)
				stop := startRun(t, r)
				feed := make(chan struct{})
				go func() { // the ledger's health shows only with work
					defer close(feed)
					for i := 0; t.Context().Err() == nil && i < 500; i++ {
						_ = r.Add(t.Context(), batch.Batch{Service: batch.ServiceID(fmt.Sprint(i % 3)), ID: batch.ID(fmt.Sprint(i)), Payload: []byte("x")})
						time.Sleep(3 * time.Second)
					}
				}()
				time.Sleep(time.Minute)
				h := probe.Ready(r, c.options)
				require.True(t, getAnswer(t, h).OK)
				c.fail(db, ledger)
				part, _, _ := strings.Cut(name, ",")
				if c.maxTime == 0 {
					time.Sleep(20 * time.Minute)
					a := getAnswer(t, h)
					assert.True(t, a.OK)
					failing := map[string]health.PartHealth{"database": a.Health.Store, "ledger": a.Health.Ledger, "streams": a.Health.Streams}[part]
					assert.Equal(t, health.ConditionFailing, failing.Condition, "it is shown")
				} else {
					time.Sleep(c.maxTime - time.Second)
					assert.True(t, getAnswer(t, h).OK)
					time.Sleep(10 * time.Second)
					a := getAnswer(t, h)
					assert.False(t, a.OK)
					require.Len(t, a.Why, 1)
					assert.Contains(t, a.Why[0], part+": has failed for ")
				}
				assert.True(t, getAnswer(t, probe.Live(r, c.options)).OK, "a restart would not help")
				db.isDown.Store(false)
				ledger.isDown.Store(false)
				ledger.streamIsLost.Store(false)
				time.Sleep(2 * time.Minute)
				assert.True(t, getAnswer(t, h).OK, "by itself")
				<-feed
				stop()
			})
		})
	}
}

// A database that refuses calls for hours is no reason to restart. A call that ignores its
// deadline is one, until it ends.
func TestLive(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		db := &outageStore{Store: memory.New()}
		r := newRunner(t, db, ledgermem.New(nil), nil)
		h := probe.Live(r, nil)
		assert.True(t, getAnswer(t, h).OK, "nothing to do")
		stop := startRun(t, r)
		for _, down := range []bool{false, true, false} {
			db.isDown.Store(down)
			for range 100 {
				time.Sleep(time.Minute)
				require.True(t, getAnswer(t, h).OK)
			}
		}
		gate := make(chan struct{})
		db.hangUntil.Store(&gate)
		time.Sleep(10*time.Minute - 5*time.Second)
		assert.True(t, getAnswer(t, h).OK)
		time.Sleep(30 * time.Second) // an idle Runner calls the store every 15 s
		a := getAnswer(t, h)
		assert.False(t, a.OK)
		require.Len(t, a.Why, 2)
		assert.Contains(t, a.Why[0], "queuer: no answer for 10m")
		assert.True(t, getAnswer(t, probe.Live(r, &probe.Options{Silence: time.Hour})).OK)
		assert.True(t, getAnswer(t, probe.Live(r, &probe.Options{Silence: -1})).OK)
		db.hangUntil.Store(nil)
		close(gate)
		time.Sleep(10 * time.Second)
		assert.True(t, getAnswer(t, h).OK, "by itself")

		db.isDown.Store(true) // the database fails, and then hangs: the failure before does not excuse the silence
		time.Sleep(time.Minute)
		gate = make(chan struct{})
		db.hangUntil.Store(&gate)
		time.Sleep(11 * time.Minute)
		a = getAnswer(t, h)
		assert.False(t, a.OK)
		require.NotEmpty(t, a.Why)
		assert.Contains(t, a.Why[0], "queuer: no answer for 1")
		db.isDown.Store(false)
		db.hangUntil.Store(nil)
		close(gate)
		time.Sleep(10 * time.Second)
		assert.True(t, getAnswer(t, h).OK, "by itself")
		stop()
		assert.True(t, getAnswer(t, h).OK)
	})
}

// fixedHealth is a Source that always returns the same Health.
type fixedHealth health.Health

func (f fixedHealth) Health() health.Health { return health.Health(f) }

// A loop that makes no more calls has stopped, even if its last call succeeded. A loop that waits
// for work has not.
func TestLiveSeesALoopThatHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long, ok := time.Now().Add(-time.Hour), health.PartHealth{Condition: health.ConditionOK, LastSuccess: time.Now()}
		for _, c := range []struct {
			health  health.Health
			reasons []string
		}{
			{health.Health{Running: true}, nil},
			{health.Health{Running: true, Loops: map[string]health.PartHealth{"queuer": ok, "monitor": ok}}, nil},
			{health.Health{Running: true, Loops: map[string]health.PartHealth{
				"queuer": ok, "monitor": {Condition: health.ConditionOK, LastSuccess: long}, "recorder": {Condition: health.ConditionOK, LastSuccess: long},
			}}, []string{"monitor: has done nothing for 1h0m0s"}},
			{health.Health{Running: true, Loops: map[string]health.PartHealth{
				"queuer": {LastSuccess: long}, // its last call was long ago
			}}, []string{"queuer: has done nothing for 1h0m0s"}},
			{health.Health{Running: true, Loops: map[string]health.PartHealth{
				"queuer": {Condition: health.ConditionFailing, LastSuccess: long, FailingSince: long, Err: errDown},
			}}, nil},
			{health.Health{Loops: map[string]health.PartHealth{"queuer": {LastSuccess: long}}}, nil},
		} {
			assert.Equal(t, c.reasons, getAnswer(t, probe.Live(fixedHealth(c.health), nil)).Why)
		}
	})
}

// A Runner that has not reached the database yet is not ready, even if the failure has just begun.
func TestReadyWantsTheDatabaseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.Health{Running: true}
		assert.Equal(t, []string{"database: not reached yet"}, getAnswer(t, probe.Ready(fixedHealth(h), nil)).Why)
		h.Store = health.PartHealth{Condition: health.ConditionFailing, FailingSince: time.Now(), Err: errDown}
		assert.Equal(t, []string{"database: not reached yet"}, getAnswer(t, probe.Ready(fixedHealth(h), nil)).Why)
		h.Store.LastSuccess = time.Now()
		assert.Empty(t, getAnswer(t, probe.Ready(fixedHealth(h), nil)).Why)
	})
}
